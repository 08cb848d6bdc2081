"""ListOps (Nangia and Bowman 2018): nested operations on lists of digits, whose value only their structure tells.

[MAX 2 9 [MIN 4 7 ] 0 ] is 9. MED is the median, the lower of two middle ones rounded down from their mean, and SM the
sum modulo 10.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from chainrule.features.trees.structures.tree import LabelledTree, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "MAX": max,
    "MIN": min,
    "MED": lambda values: int(statistics.median(values)),
    "SM": lambda values: sum(values) % 10,
}
_MOST_ARGUMENTS, _OPERATOR_SHARE = 5, 0.25


def listops(examples: int, seed: int = 0, *, depth: int = 20, nodes: int = 200) -> list[LabelledTree]:
    """Random expressions as trees, each labelled with its value; the operator is the word of an inner node.

    depth: the most operators inside one another. nodes: the most in a tree; a larger one is drawn again.
    """
    chance = np.random.default_rng(seed)
    found: list[LabelledTree] = []
    while len(found) < examples:
        tree = _expression(chance, depth, nodes)
        if tree is not None:
            label = tree.labels[tree.root]
            assert label is not None
            found.append(LabelledTree(tree, (label,), f"expression {len(found) + 1}"))
    return found


def _expression(chance: np.random.Generator, depth: int, nodes: int) -> Tree | None:
    """An expression with the value of each node as its label; None where it would be too large."""
    words: list[str] = []
    parents, depths = [-1], [0]
    operators = list(OPERATORS)
    while len(words) < len(parents):
        node = len(words)
        is_operator = node == 0 or (depths[node] < depth and chance.random() < _OPERATOR_SHARE)
        if not is_operator:
            words.append(str(chance.integers(10)))
            continue
        words.append(operators[chance.integers(len(operators))])
        arguments = int(chance.integers(2, _MOST_ARGUMENTS + 1))
        parents += [node] * arguments
        depths += [depths[node] + 1] * arguments
        if len(parents) > nodes:
            return None
    values: list[list[int]] = [[] for _ in parents]
    labels: list[str] = [""] * len(parents)
    for node in reversed(range(len(parents))):  # children come after their parents
        word = words[node]
        value = OPERATORS[word](values[node]) if word in OPERATORS else int(word)
        labels[node] = str(value)
        if parents[node] >= 0:
            values[parents[node]].insert(0, value)
    return Tree(tuple(words), tuple(labels), tuple(parents))


def as_tokens(tree: Tree) -> str:
    """An expression as a sequence network reads it: [MAX 2 9 [MIN 4 7 ] 0 ]."""
    pieces: list[str] = []
    todo: list[int | str] = [tree.root]
    while todo:
        here = todo.pop()
        if isinstance(here, str):
            pieces.append(here)
            continue
        children = tree.children[here]
        pieces.append(f"[{tree.words[here]}" if children else str(tree.words[here]))
        if children:
            todo += ["]", *reversed(children)]
    return " ".join(pieces)


def as_binary(tree: Tree) -> Tree:
    """An expression read argument by argument, as binary networks need it: MAX 2 9 becomes ((MAX 2) 9).

    The node that has read all arguments keeps the label of the expression; those before it have none.
    """
    words: list[str | None] = []
    labels: list[str | None] = []
    parents: list[int] = []
    read: list[int] = []  # nodes without a parent yet

    def add(word: str | None, label: str | None, *children: int) -> None:
        for child in children:
            parents[child] = len(words)
        read.append(len(words))
        words.append(word)
        labels.append(label)
        parents.append(-1)

    todo: list[tuple[int, bool, str | None]] = [(tree.root, False, None)]  # a node, or its parent after it
    while todo:
        node, is_read, label = todo.pop()
        if is_read:
            argument, before = read.pop(), read.pop()
            add(None, label, before, argument)
            continue
        children = tree.children[node]
        add(tree.words[node], None if children else tree.labels[node])
        for child in reversed(children):
            todo += [(child, True, tree.labels[node] if child == children[-1] else None), (child, False, None)]
    return Tree(tuple(words), tuple(labels), tuple(parents))
