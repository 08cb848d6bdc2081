"""Trees as a network reads them: token ids, and the arrays that say how nodes are wired."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import TextError
from chainrule.text.tokenizer import documents_of
from chainrule.text.vocabulary import MarkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.structures.tree import LabelledTree, Tree
    from chainrule.text.tokenizer import Tokenizer


class TreeTokens(NamedTuple):
    """A tree's nodes: the token of each (-1: none), its parent (-1: none), its depth, its rank among its siblings, and
    which nodes are labelled units.
    """

    tokens: Int64[ndarray, " nodes"]
    parents: Int64[ndarray, " nodes"]
    depths: Int64[ndarray, " nodes"]
    ranks: Int64[ndarray, " nodes"]
    units: Int64[ndarray, " units"]


def encoded_trees(tokenizer: Tokenizer, examples: Sequence[LabelledTree], unit: str) -> list[TreeTokens]:
    """The labelled nodes of trees are their units. Raises TextError where a word is no token by itself."""
    nodes = [
        [each.input.root] if unit == "tree" else [i for i, label in enumerate(each.input.labels) if label is not None]
        for each in examples
    ]
    return encoded(tokenizer, [each.input for each in examples], nodes, [each.place for each in examples])


def encoded(
    tokenizer: Tokenizer, trees: Sequence[Tree], units: Sequence[Sequence[int]], places: Sequence[str]
) -> list[TreeTokens]:
    """units: the labelled nodes of each tree. places: of each, for messages. Raises TextError."""
    found = []
    rows = tokens_of_nodes(tokenizer, [tree.words for tree in trees], places)
    for tree, tokens, nodes in zip(trees, rows, units, strict=True):
        ranks = np.zeros(len(tree), np.int64)
        for children in tree.children:
            ranks[children] = range(len(children))
        parents, depths = np.array(tree.parents, np.int64), tree.depths.astype(np.int64)
        found.append(TreeTokens(tokens, parents, depths, ranks, np.array(nodes, np.int64)))
    return found


def tokens_of_nodes(
    tokenizer: Tokenizer, words: Sequence[Sequence[str | None]], places: Sequence[str]
) -> list[Int64[ndarray, " nodes"]]:
    """The token of each node of trees or graphs; -1 where it has no word. places: of each structure, for messages.

    Raises TextError where a word is no token by itself.
    """
    written = [[word for word in own if word is not None] for own in words]
    try:
        rows = documents_of(tokenizer.encode_texts([" ".join(own) for own in written]).ids)
    except MarkerError as error:
        raise error.at(places[error.document - 1]) from None
    found = []
    for nodes, own, row, place in zip(words, written, rows, places, strict=True):
        if len(own) != len(row):
            raise TextError(
                f"{place}: the {tokenizer.name} tokenizer makes {len(row)} tokens of {len(own)} words; each node has "
                "one: take the whitespace tokenizer, and words without white space"
            )
        tokens = np.full(len(nodes), -1, np.int64)
        tokens[[word is not None for word in nodes]] = row
        found.append(tokens)
    return found
