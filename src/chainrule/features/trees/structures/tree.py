"""A tree of words, with labels at its nodes; all that walks it does so without recursion, so that it may be deep."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray


@dataclass(frozen=True)
class Tree:
    """Nodes in the order of the text: a word at each leaf (of constituents) or at each node (of dependencies).

    words, labels: those of each node; None where it has none. parents: the index of each node's parent; -1 for the
    root. Siblings are in their order. Raises TextError where there is not one root, or a circle.

    good:  Tree(("a", "dog", None), (None, None, "NP"), (2, 2, -1))
    """

    words: tuple[str | None, ...]
    labels: tuple[str | None, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        nodes = len(self.parents)
        if not nodes or len(self.words) != nodes or len(self.labels) != nodes:
            raise TextError(
                f"a tree has {len(self.words)} words, {len(self.labels)} labels and {nodes} parents; expected as many "
                "of each, and one at least"
            )
        roots = [i for i, parent in enumerate(self.parents) if parent == -1]
        if len(roots) != 1:
            shown = (
                "no root" if not roots else f"{len(roots)} roots, nodes {roots[0] + 1} and {roots[1] + 1} among them"
            )
            raise TextError(f"a tree has {shown}; expected one node whose parent is -1")
        odd = next((i for i, parent in enumerate(self.parents) if not -1 <= parent < nodes), None)
        if odd is not None:
            raise TextError(
                f"node {odd + 1} of a tree has the parent {self.parents[odd] + 1}, and there are {nodes} nodes"
            )
        if (circle := _in_circle(self.parents)) is not None:
            raise TextError(f"node {circle + 1} of a tree is in a circle: its parents lead back to it")

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def root(self) -> int:
        """The index of the node without a parent."""
        return self.parents.index(-1)

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of each node, in their order."""
        children: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                children[parent].append(node)
        return children

    @cached_property
    def depths(self) -> Int32[ndarray, " nodes"]:
        """How far each node is from the root."""
        depths = np.zeros(len(self), np.int32)
        level, depth = [self.root], 0
        while level:
            depths[level] = depth
            level = [child for node in level for child in self.children[node]]
            depth += 1
        return depths

    def text(self, node: int | None = None) -> str:
        """Return the words at and below a node, by default the root, in the order of the text."""
        below, nodes = [self.root if node is None else node], []
        while below:
            here = below.pop()
            nodes.append(here)
            below += self.children[here]
        return " ".join(word for i in sorted(nodes) if (word := self.words[i]) is not None)

    def relabelled(self, names: dict[str, str]) -> Tree:
        """Return the tree with other labels; labels that are not among the names are left out.

        good:  tree.relabelled({"0": "negative", "1": "negative", "3": "positive", "4": "positive"})
        """
        labels = tuple(None if label is None else names.get(label) for label in self.labels)
        return Tree(self.words, labels, self.parents)


DEEPEST = 10_000  # networks read a tree level by level, each after the one before: a second or more of such a tree


def check_depth(tree: Tree, place: str) -> Tree:
    """Return the tree, unless it is too deep.

    place: file and line, for messages. Raises TextError where it is deeper than networks read.
    """
    depth = int(tree.depths.max())
    if depth > DEEPEST:
        raise too_deep(depth, place)
    return tree


def too_deep(depth: int, place: str, how: str = "") -> TextError:
    """Return the error of a tree that is deeper than networks read. how: what made it so."""
    return TextError(
        f"{place}: this tree is {depth:,} nodes deep{how}; at most {DEEPEST:,} are read, since a network goes from one "
        "to the next: leave it out, or cut it into parts"
    )


class LabelledTree(NamedTuple):
    """A tree, and the labels of its labelled units: its root, or each node that has a label."""

    input: Tree
    labels: tuple[str, ...]
    place: str = "a labelled tree"  # file and line, for messages


def labelled(tree: Tree, unit: str, place: str = "a labelled tree") -> LabelledTree:
    """Return a tree with the labels of a unit, tree or node. Raises TextError where there is none."""
    if unit == "tree":
        label = tree.labels[tree.root]
        if label is None:
            raise TextError(f"{place}: the root of the tree has no label")
        return LabelledTree(tree, (label,), place)
    labels = tuple(label for label in tree.labels if label is not None)
    if not labels:
        raise TextError(f"{place}: no node of the tree has a label")
    return LabelledTree(tree, labels, place)


def _in_circle(parents: Sequence[int]) -> int | None:
    """Return a node from which no root is reached, if there is one."""
    ends = [False] * len(parents)
    for start in range(len(parents)):
        path, node = [], start
        on_path: set[int] = set()
        while node >= 0 and not ends[node]:
            if node in on_path:
                return node
            on_path.add(node)
            path.append(node)
            node = parents[node]
        for passed in path:
            ends[passed] = True
    return None
