"""Trees as texts from the root down, and files of trees as sources of such texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule.errors import TextError
from chainrule.features.trees.structures.linearized import (
    Brackets,
    Treebank,
    check_is_tree,
    tree_steps,
    tree_text,
    words_of,
)
from chainrule.features.trees.structures.tree import Tree
from chainrule.features.trees.structures.tree_files import trees_in_brackets

if TYPE_CHECKING:
    from pathlib import Path

OPEN, CLOSE, A = 3, 4, 5
BRACKETS = Brackets(OPEN, CLOSE)
SAW = Tree(("She", "saw", "the", "man"), (None,) * 4, (1, -1, 3, 1))


def test_words_with_children_have_a_place_among_them() -> None:
    assert tree_text(SAW) == "( saw She -HEAD- ( man the -HEAD- ) )"
    assert words_of(tree_text(SAW).split()) == ["saw", "She", "man", "the"]
    assert tree_text(Tree(("Yes",), (None,), (-1,))) == "Yes"


def test_constituents_have_their_label_as_head() -> None:
    [found] = trees_in_brackets(["(S (NP She) (VP (V saw) (NP -LRB- him)))"])
    assert not isinstance(found, TextError)
    assert tree_text(found.tree) == "( S She ( VP saw ( NP -LRB- him ) ) )"


def test_what_is_written_is_read_again_as_the_same_text() -> None:
    [found] = trees_in_brackets([tree_text(SAW)])
    assert not isinstance(found, TextError)
    assert tree_text(found.tree) == tree_text(SAW)


def test_states_go_on_from_before_the_opening_bracket() -> None:
    """( A A ( A A ) A ): the states after each token, with those before them."""
    steps = tree_steps(np.array([OPEN, A, A, OPEN, A, A, CLOSE, A, CLOSE], np.int32), BRACKETS)
    assert steps.before.tolist() == [-1, 0, 1, 2, 3, 4, 5, 3, 7, 0]
    assert steps.heads.tolist() == [-1, -1, -1, -1, -1, -1, -1, A, -1, A]
    assert steps.levels.tolist() == [0, 1, 2, 3, 4, 5, 6, 4, 5, 1]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([OPEN, A, CLOSE], r"token 3 is \); expected a child"),
        ([OPEN, OPEN, A], r"token 2 is \(; expected a head"),
        ([A, A], r"token 2 is a word; expected the end"),
        ([CLOSE], r"token 1 is \)"),
        ([OPEN, A, A], r"a bracket is left open"),
        ([], r"a bracket is left open|not complete"),
    ],
)
def test_what_is_no_tree_is_said(tokens: list[int], message: str) -> None:
    array = np.array(tokens, np.int32)
    with pytest.raises(TextError, match=rf"a text: .*{message}"):
        check_is_tree(array, tree_steps(array, BRACKETS), BRACKETS, "a text")


def test_files_of_trees_are_texts(tmp_path: Path) -> None:
    lines = [{"words": list(SAW.words), "parents": list(SAW.parents)}, {"words": ["a b"], "parents": [-1]}]
    file = tmp_path / "trees.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    treebank = Treebank.of(file)
    [block] = treebank.blocks()
    assert block.documents() == ["( saw She -HEAD- ( man the -HEAD- ) )", "a\u00a0b"]
    assert block.locate(2) == f"{file}, tree 2"
    assert treebank.record["reading"] == {"document": "tree"}
    assert list(treebank.record["data"]) == [str(file)]
    with pytest.raises(TextError, match="cannot be read: No such file"):
        list(Treebank.of(tmp_path / "none.conllu").blocks())
