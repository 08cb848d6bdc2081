"""Reading trees: brackets, CoNLL-U and JSON; what is wrong with a file, and where; trees that are very deep."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.errors import TextError
from chainrule.features.trees.structures.tree_files import ESCAPES, trees_in_brackets

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.trees.structures.tree import Tree

FILM = "(3 (4 (2 A) (4 (3 lovely) (2 film))) (2 .))"
SENTENCE = """\
# sent_id = one
# label = news
1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_
2-3\twell.\t_\t_\t_\t_\t_\t_\t_\t_
3\twell\twell\tADV\t_\t_\t2\tadvmod\t_\t_
3.1\tzzz\tz\tX\t_\t_\t_\t_\t_\t_

"""


def only(text: str) -> Tree:
    [found] = trees_in_brackets(text.splitlines())
    assert not isinstance(found, TextError)
    return found.tree


def in_brackets(tree: Tree) -> str:
    """A tree on one line, as `trees_in_brackets` reads it; of constituents, with words at leaves alone."""
    pieces: list[str] = []
    todo: list[int | str] = [tree.root]
    while todo:
        here = todo.pop()
        if isinstance(here, str):
            pieces.append(here)
            continue
        label, children, word = tree.labels[here], tree.children[here], tree.words[here]
        if not children:
            pieces.append(escaped(word or "") if label is None else f"({label} {escaped(word or '')})")
            continue
        pieces.append(f"({label or ''}")
        todo.append(")")
        todo += reversed(children)
    return re.sub(r" \)", ")", " ".join(pieces))


def escaped(word: str) -> str:
    return ESCAPES.get(word, word.replace("/", "\\/"))


def test_a_tree_in_brackets() -> None:
    tree = only(FILM)
    assert tree.text() == "A lovely film ."
    assert [tree.text(node) for node in range(len(tree))] == [
        "A", "lovely", "film", "lovely film", "A lovely film", ".", "A lovely film .",
    ]  # fmt: skip
    assert tree.labels == ("2", "3", "2", "4", "4", "2", "3")
    assert tree.parents == (4, 3, 3, 4, 6, 6, -1)
    assert tree.depths.tolist() == [2, 3, 3, 2, 1, 1, 0]
    assert in_brackets(tree) == FILM


def test_a_leaf_may_have_a_no_break_space() -> None:
    tree = only("(3 (2 8\u00a01\\/2) (2 films))")
    assert tree.words == ("8\u00a01/2", "films", None)
    assert tree.labels == ("2", "2", "3")


def test_what_treebanks_do_with_brackets() -> None:
    assert in_brackets(only("( (S (NP (PRP She))\n   (VP sleeps) .))")) == "(S (NP She) (VP sleeps) .)"
    assert only("(S (A -LRB-) (B 1\\/2))").words[:2] == ("(", "1/2")
    assert in_brackets(only("(S (A -LRB-) (B 1\\/2))")) == "(S (A -LRB-) (B 1\\/2))"
    assert len(list(trees_in_brackets(["(S (A a) (B b)) (S (A a) (B b))", "", "(S (A a)", "(B b))"]))) == 3


def test_words_without_labels_of_their_own_keep_their_place() -> None:
    """They are read before the nodes to their right are complete."""
    tree = only("(S she (VP sleeps well) (ADVP now) .)")
    assert tree.text() == "she sleeps well now ."
    assert in_brackets(tree) == "(S she (VP sleeps well) (ADVP now) .)"
    assert only("(S she sleeps)").words == ("she", "sleeps", None)


@given(st.recursive(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y/z", "("])), lambda kids: st.tuples(
    st.sampled_from("ab"), st.lists(kids, min_size=2, max_size=4)), max_leaves=20))  # fmt: skip
def test_any_tree_of_constituents_is_read_as_it_is_written(nested: tuple) -> None:
    def written(node: tuple) -> str:
        label, inside = node
        if isinstance(inside, str):
            return f"({label} {inside.replace('/', chr(92) + '/').replace('(', '-LRB-')})"
        return f"({label} {' '.join(map(written, inside))})"

    assert in_brackets(only(written(nested))) == written(nested)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(3 (2 a)", "a file, line 1, column 1: this bracket is never closed; it alone is open"),
        ("(3 (2 a)\n  (2 b)))", "a file, line 2, column 9: a bracket is closed that was never opened"),
        ("(3 () (2 a))", "a file, line 1, column 5: an empty bracket"),
        ("word (2 a)", "a file, line 1, column 1: found 'word' outside brackets"),
    ],
)
def test_an_error_in_brackets_names_line_and_column(text: str, message: str) -> None:
    [error] = [found for found in trees_in_brackets(text.splitlines(), "a file") if isinstance(found, TextError)]
    assert str(error).startswith(message)


def test_a_tree_of_depth_100_000_is_read_and_written() -> None:
    deep = "(1 (2 x) " * 100_000 + "(1 a)" + ")" * 100_000
    tree = only(deep)
    assert int(tree.depths.max()) == 100_000
    assert in_brackets(tree) == deep
    assert len(tree.text().split()) == 100_001


def test_dependencies_of_conllu(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu.gz"
    file.write_bytes(gzip.compress(SENTENCE.encode()))
    [example] = chainrule.read_trees(file, "node")
    assert example.input.words == ("She", "sleeps", "well")
    assert example.labels == ("PRON", "VERB", "ADV")
    assert example.input.parents == (1, -1, 1)
    [whole] = chainrule.read_trees(file)
    assert whole.labels == ("news",)


def test_a_label_of_conllu_may_have_several_words(tmp_path: Path) -> None:
    path = tmp_path / "two.conllu"
    sentence = SENTENCE.replace("news", "{}")
    path.write_text(sentence.format("not good") + sentence.format("not bad  "))
    assert [tree.labels for tree in chainrule.read_trees(path)] == [("not good",), ("not bad",)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t2\tadvmod", "\t0\tadvmod", "2 roots, nodes 2 and 3"),
        ("\t0\troot", "\t3\troot", "no root"),
        ("\t2\tnsubj", "\t1\tnsubj", "node 1 of a tree is in a circle"),
        ("\t2\tnsubj", "\t9\tnsubj", "node 1 of a tree has the parent 9, and there are 3"),
        ("\t2\tnsubj", "\tx\tnsubj", "the HEAD is 'x'"),
        ("2\tsleeps", "4\tsleeps", "line 4: the ID is '4'; expected 2"),
        ("2\tsleeps", "2 sleeps", "line 4: found 9 columns"),
    ],
)
def test_an_error_in_conllu_names_the_file_and_the_cause(old: str, new: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.conllu"
    file.write_text(SENTENCE.replace(old, new) + SENTENCE)
    errors: list[TextError] = []
    assert len(chainrule.read_trees(file, "node", errors.append)) == 1  # the other sentence
    assert message in str(errors[0])
    assert str(file) in str(errors[0])


def test_trees_as_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    good = '{"words": ["MAX", "2", "9"], "parents": [-1, 0, 0], "label": 9}\n'
    file.write_text(good + '{"words": ["a"], "parents": [0], "label": "x"}\n{"words": ["a"], "parents": []}\n')
    errors: list[TextError] = []
    [example] = chainrule.read_trees(file, "tree", errors.append)
    assert (example.labels, example.input.words) == (("9",), ("MAX", "2", "9"))
    assert "line 2: a tree has no root" in str(errors[0])
    assert "line 3: expected words and parents" in str(errors[1])


def test_other_labels_and_none() -> None:
    tree = only(FILM).relabelled({"3": "positive", "4": "positive"})
    assert tree.labels == (None, "positive", None, "positive", "positive", None, "positive")


def test_a_file_without_labels_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("(S a b)\n((a) b)\n")
    with pytest.raises(TextError, match="line 2: the root of the tree has no label"):
        chainrule.read_trees(tmp_path / "a.txt")


@given(st.text(st.sampled_from("()ab 1\n\t-\\/#="), max_size=60), st.sampled_from([".txt", ".conllu", ".jsonl"]))
def test_any_file_gives_trees_or_errors_that_name_it(
    tmp_path_factory: pytest.TempPathFactory, text: str, suffix: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"any{suffix}"
    file.write_text(text)
    errors: list[TextError] = []
    try:
        assert chainrule.read_trees(file, "node", errors.append)
    except TextError as error:
        errors.append(error)
    assert all(str(file) in str(error) for error in errors)


@pytest.mark.parametrize("suffix", [".txt", ".conllu"])
def test_a_file_that_was_cut_off_loses_only_the_tree_at_its_end(suffix: str, tmp_path: Path) -> None:
    whole = FILM + "\n" + FILM if suffix == ".txt" else SENTENCE + SENTENCE
    file = tmp_path / f"cut{suffix}"
    for end in range(len(whole) // 2 + 8, len(whole), 5):
        file.write_text(whole[:end])
        found = chainrule.read_trees(file, "node", lambda error: None)
        assert found[0].input.text() == ("A lovely film ." if suffix == ".txt" else "She sleeps well")


@pytest.mark.parametrize("is_labelled", [True, False])
def test_a_file_with_a_tree_deeper_than_networks_read_says_where(tmp_path: Path, is_labelled: bool) -> None:
    """A network needs a step for each level."""
    file = tmp_path / "trees.txt"
    depth = 20_000
    file.write_text(f"{FILM}\n" + "(1 (2 x) " * depth + "(1 a)" + ")" * depth + "\n")
    read = chainrule.read_trees if is_labelled else lambda name: list(chainrule.Treebank.of(name).blocks())
    with pytest.raises(TextError, match=r"trees.txt, line 2: this tree is 20,000 nodes deep; at most 10,000"):
        read(file)
    errors: list[TextError] = []
    assert len(chainrule.read_trees(file, on_bad=errors.append)) == 1
    assert len(errors) == 1
