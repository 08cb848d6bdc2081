"""Files of graphs: JSON lines (.jsonl), Parquet, CoNLL-U (.conllu) and brackets, each perhaps compressed.

{"nodes": ["start", null, "end"], "edges": [[0, 1, "road"], [1, 2, "rail"]], "label": "far"}       or "labels": [...]
{"nodes": [[0.5, 1], [2, 0.1]], "edges": [[0, 1]], "labels": ["sky", null]}         numbers in place of words

An edge is [source, target, type], with indices of nodes from 0; its type may be left out. A tree of CoNLL-U or of
brackets becomes a graph by `graph_of_tree`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import TextError
from chainrule.features.trees.structures.graph import Edge, Graph, LabelledGraph, graph_of_tree, labelled
from chainrule.features.trees.structures.tree_files import collect, trees_of
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.records import as_written, items_of, raise_error, read_field, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chainrule.text.corpus.records import OnBad


class PlacedGraph(NamedTuple):
    """A graph, and the file and line where it stands."""

    graph: Graph
    place: str


def read_graphs(name: str | os.PathLike[str], unit: str = "graph", on_bad: OnBad = raise_error) -> list[LabelledGraph]:
    """Return the labelled graphs of a file. unit: "graph" if each has a label, "node" if some of its nodes have.

    on_bad: a callback that gets a TextError with file and line for each graph that cannot be read or has no label,
    which is left out. Raises TextError where there is no graph.

    good:  chainrule.read_graphs("molecules.jsonl")
    """
    name = os.fspath(name)
    return collect(
        _graphs_of(name, unit, on_bad),
        lambda placed: labelled(placed.graph, unit, placed.place),
        on_bad,
        f"{name}: there is no labelled graph in it; at least one is needed",
    )


def read_unlabelled_graphs(name: str | os.PathLike[str]) -> list[Graph]:
    """Return the graphs of a file, whether they have labels or not. Raises TextError, also where there is no graph."""
    name = os.fspath(name)
    missing = f"{name}: there is no graph in it; at least one is needed"
    return collect(_graphs_of(name, "unlabelled", raise_error), lambda placed: placed.graph, raise_error, missing)


def _graphs_of(name: str, unit: str, on_bad: OnBad) -> Iterator[PlacedGraph | TextError]:
    """Yield each graph of a file, or the error in its place."""
    if FORMATS.get(text_suffix(name)) in ("json", "parquet"):
        yield from items_of(
            read_records(name, on_bad),
            lambda record: PlacedGraph(_graph_of_record(record.fields, unit, record.location), record.location),
            on_bad,
        )
        return
    for found in trees_of(name, "tree" if unit == "graph" else unit, on_bad):
        if isinstance(found, TextError):
            yield found
        else:
            yield PlacedGraph(graph_of_tree(found.tree), f"{name}, line {found.line}")


def _graph_of_record(record: Mapping[str, Any], unit: str, place: str) -> Graph:
    """Return the graph in a record. Raises TextError."""
    nodes = tuple(tuple(node) if isinstance(node, list) else node for node in _list(record, "nodes", place))
    edges = _list(record, "edges", place) if "edges" in record else []
    labels = _list(record, "labels", place) if unit == "node" or "labels" in record else []
    label = read_field(record, "label", place) if unit == "graph" or "label" in record else None
    placed_edges = tuple(_edge(edge, place, i) for i, edge in enumerate(edges, 1))
    of_nodes, of_graph = tuple(_label(own, place) for own in labels), _label(label, place)
    try:
        return Graph(nodes, placed_edges, of_nodes, of_graph)
    except TextError as error:
        raise TextError(f"{place}: {error}") from None


def _list(record: Mapping[str, Any], field: str, place: str) -> list[Any]:
    value = read_field(record, field, place)
    if not isinstance(value, list):
        raise TextError(f"{place}: {field} is {value!r}; expected a list")
    return value


def _edge(edge: Any, place: str, number: int) -> Edge:
    """Return an edge. Raises TextError."""
    values = [as_written(value) for value in edge] if isinstance(edge, list) else []
    is_edge = len(values) in (2, 3) and all(type(end) is int for end in values[:2])
    if not is_edge or not all(isinstance(own, str) and own.strip() for own in values[2:]):
        raise TextError(
            f"{place}: edge {number} is {edge!r}; expected [source, target] or [source, target, type], such as "
            '[0, 1, "road"]'
        )
    return Edge(*values)


def _label(value: Any, place: str) -> str | None:
    """Return a whole number as its digits. Raises TextError."""
    value = as_written(value)
    label = str(value) if type(value) is int else value
    if label is not None and not (isinstance(label, str) and label.strip()):
        raise TextError(f"{place}: a label is {value!r}; expected a string that is not empty, a whole number or null")
    return label
