"""Graphs as a network reads them: token ids or numbers of nodes, and edges as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import TextError
from chainrule.structures.encoded import tokens_of_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.structures.graph import Graph
    from chainrule.text.tokenizer import Tokenizer


class GraphArrays(NamedTuple):
    """A graph's nodes and edges. Legend: F numbers of a node.

    tokens: of each node, -1 where it has none. numbers: of each node. types: of each edge, an index of the types that
    a network knows. units: the labelled nodes; one, of no meaning, where the whole graph is labelled.
    """

    tokens: Int64[ndarray, " nodes"]
    numbers: Float32[ndarray, "nodes F"]
    sources: Int64[ndarray, " edges"]
    targets: Int64[ndarray, " edges"]
    types: Int64[ndarray, " edges"]
    units: Int64[ndarray, " units"]


def edge_types(graphs: Sequence[Graph]) -> tuple[str, ...]:
    """All types of edges, sorted."""
    return tuple(sorted({edge.type for graph in graphs for edge in graph.edges}))


def encoded_graphs(
    tokenizer: Tokenizer,
    graphs: Sequence[Graph],
    units: Sequence[Sequence[int]],
    places: Sequence[str],
    *,
    types: Sequence[str],
    numbers: int,
) -> list[GraphArrays]:
    """units: the labelled nodes of each graph. places: of each, for messages. types, numbers: what a network reads.

    Raises TextError where a graph has other types of edges or other numbers, or a word is no token by itself.
    """
    index = {name: i for i, name in enumerate(types)}
    rows = tokens_of_nodes(tokenizer, [graph.words for graph in graphs], places)
    found = []
    for graph, tokens, nodes, place in zip(graphs, rows, units, places, strict=True):
        if graph.numbers != numbers:
            raise TextError(f"{place}: the nodes of the graph hold {_held(graph.numbers)}; expected {_held(numbers)}")
        odd = next((edge.type for edge in graph.edges if edge.type not in index), None)
        if odd is not None:
            known = ", ".join(types) if types else "none"
            raise TextError(f"{place}: no graph in training had an edge of the type {odd!r}; known are {known}")
        edges = np.array([(source, target, index[name]) for source, target, name in graph.edges], np.int64)
        sources, targets, kinds = edges.reshape(-1, 3).T
        held = np.array(graph.nodes, np.float32) if numbers else np.empty((len(graph), 0), np.float32)
        found.append(GraphArrays(tokens, held, sources, targets, kinds, np.array(nodes, np.int64)))
    return found


def _held(numbers: int) -> str:
    return f"{numbers} numbers each" if numbers > 1 else "a number each" if numbers else "words"
