"""A graph: nodes that hold a word or numbers, typed edges from node to node, and labels of nodes or of the whole."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.trees.structures.tree import Tree

UNITS = ("graph", "node")


class Edge(NamedTuple):
    """An edge between two nodes, by their indices."""

    source: int
    target: int
    type: str = "edge"


@dataclass(frozen=True)
class Graph:
    """Nodes and directed edges. Raises TextError where there is no node, an edge names a missing one, or kinds mix.

    nodes: for each, a word or None; or numbers, equally many for each. edges: (source, target, type), with indices of
    nodes. labels: that of each node, None where it has none; empty if no node has one. label: that of the whole graph.

    good:  Graph(("start", None, "end"), (Edge(0, 1), Edge(1, 2)), label="connected")
    bad:   Graph(("a", (0.5, 1.0)))                # either words or numbers
    """

    nodes: tuple[str | None, ...] | tuple[tuple[float, ...], ...]
    edges: tuple[Edge, ...] = ()
    labels: tuple[str | None, ...] = ()
    label: str | None = None

    def __post_init__(self) -> None:
        if not self.nodes:
            raise TextError("a graph has no nodes; expected one at least")
        _check_nodes(self.nodes)
        object.__setattr__(self, "edges", tuple(Edge(*edge) for edge in self.edges))
        if self.labels and len(self.labels) != len(self.nodes):
            raise TextError(f"a graph has {len(self.nodes)} nodes and {len(self.labels)} labels; give one to each node")
        for number, edge in enumerate(self.edges, 1):
            odd = next((end for end in edge[:2] if not 0 <= end < len(self.nodes)), None)
            if odd is not None:
                raise TextError(
                    f"edge {number} of a graph names node {odd}, and there are {len(self.nodes)} nodes, "
                    f"0 to {len(self.nodes) - 1}"
                )

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        """Return a line of JSON, as `read_graphs` reads it."""
        fields: dict[str, Any] = {"nodes": self.nodes, "edges": self.edges}
        if self.labels:
            fields["labels"] = self.labels
        if self.label is not None:
            fields["label"] = self.label
        return json.dumps(fields, ensure_ascii=False)

    @property
    def numbers(self) -> int:
        """How many numbers each node holds; 0 where nodes hold words."""
        first = self.nodes[0]
        return len(first) if isinstance(first, tuple) else 0

    @property
    def words(self) -> tuple[str | None, ...]:
        """The word of each node; None where it has none, or holds numbers."""
        return tuple(node if isinstance(node, str) else None for node in self.nodes)

    def text(self) -> str:
        """Return the words of its nodes, in their order."""
        return " ".join(word for word in self.words if word is not None)

    def shown(self, node: int) -> str:
        """Return a node's name to show: its word, or its index."""
        held = self.nodes[node]
        return held if isinstance(held, str) else f"node {node}"


class LabelledGraph(NamedTuple):
    """A graph, and the labels of its labelled units: the whole graph, or each node that has a label."""

    input: Graph
    labels: tuple[str, ...]
    place: str = "a labelled graph"  # file and line, for messages


def labelled(graph: Graph, unit: str, place: str = "a labelled graph") -> LabelledGraph:
    """Return a graph with the labels of a unit, graph or node. Raises TextError where there is none."""
    if unit == "graph":
        if graph.label is None:
            raise TextError(f"{place}: the graph has no label")
        return LabelledGraph(graph, (graph.label,), place)
    labels = tuple(label for label in graph.labels if label is not None)
    if not labels:
        raise TextError(f"{place}: no node of the graph has a label")
    return LabelledGraph(graph, labels, place)


def graph_of_tree(tree: Tree) -> Graph:
    """Return a tree as a graph: `child` edges from parents to children, and `next` edges from each word to the word
    after it.

    The root's label is that of the graph.
    """
    children = (Edge(parent, node, "child") for node, parent in enumerate(tree.parents) if parent >= 0)
    words = [node for node, word in enumerate(tree.words) if word is not None]
    following = (Edge(node, after, "next") for node, after in pairwise(words))
    return Graph(tree.words, (*children, *following), tree.labels, tree.labels[tree.root])


def _check_nodes(nodes: Sequence[Any]) -> None:
    """Raise TextError unless all hold words, or None, or all as many finite numbers."""
    first = next((node for node in nodes if node is not None), None)
    if first is None or isinstance(first, str):
        odd = next((i for i, node in enumerate(nodes) if not (node is None or isinstance(node, str))), None)
        if odd is not None:
            raise TextError(f"node {odd} of a graph is {nodes[odd]!r}, and others hold words; expected one kind")
        return
    for i, node in enumerate(nodes):
        if not isinstance(node, tuple) or len(node) != len(first) or not node:
            raise TextError(
                f"node {i} of a graph is {node!r}; expected {len(first) if isinstance(first, tuple) else 1} or more "
                "numbers, as many for each node"
            )
        if not all(type(number) in (int, float) and math.isfinite(number) for number in node):
            raise TextError(f"node {i} of a graph is {node!r}; expected finite numbers")
