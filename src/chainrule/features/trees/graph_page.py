"""The page of graphs with the labels that a network gives them, without other files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len

from chainrule.drawing.colours import COLOURS
from chainrule.drawing.pages import render, shorten, show_whitespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.classify.classification import Predicted
    from chainrule.features.trees.structures.graph import Graph

MOST = 300  # nodes of a graph that is drawn
_LETTER, _LONGEST = 7.0, 24
_LEAST, _LARGEST, _BY_NODES = 240.0, 1400.0, 110.0  # pixels of a side; the last times the root of the nodes
_BEND = 0.12  # of the length of an edge, so that two that go both ways do not cover each other
_RADIUS = 8.0
_PALETTE = [name for name in COLOURS if name.startswith("line-")]


class DrawnGraph(NamedTuple):
    """A graph as it is drawn.

    names: those of nodes. labels: the label and probability of each node; empty if nodes have none.
    """

    title: str
    names: Sequence[str]
    edges: Sequence[tuple[int, int, str]]
    labels: Sequence[tuple[str, float]] = ()


def labelled_graphs_page(title: str, graphs: Sequence[DrawnGraph]) -> str:
    """Return a self-contained HTML page. A label has the same colour in all graphs; a graph of many nodes is not
    drawn.
    """
    labels = dict.fromkeys(label for graph in graphs for label, _ in graph.labels)
    colours = {label: _PALETTE[i % len(_PALETTE)] for i, label in enumerate(labels)}
    drawn = [_graph_values(graph, colours) for graph in graphs]
    return render("labelled_graphs.html.j2", title=title, legend=list(colours.items()), graphs=drawn, palette=_PALETTE)


def _graph_values(graph: DrawnGraph, colours: dict[str, str]) -> dict[str, Any]:
    """Return the values that the template needs for a graph."""
    nodes = len(graph.names)
    if nodes > MOST:
        return {"title": graph.title, "nodes": [], "note": f"{nodes:,} nodes; graphs of up to {MOST} are drawn"}
    side = min(_LARGEST, max(_LEAST, _BY_NODES * math.sqrt(nodes)))
    margin = 30 + _LETTER * max(cell_len(shorten(name, _LONGEST)) for name in graph.names) / 2
    are_named = len({name for _, _, name in graph.edges}) > 1
    places = [(margin + x * 1.5 * side, 36 + y * side) for x, y in _places(nodes, graph.edges)]
    return {
        "title": graph.title,
        "note": "",
        "width": 2 * margin + 1.5 * side,
        "height": 72 + side,
        "edges": [_edge(edge, places, named=are_named) for edge in graph.edges],
        "nodes": [_node(graph, node, places[node], colours) for node in range(nodes)],
    }


def _places(nodes: int, edges: Sequence[tuple[int, int, str]]) -> list[tuple[float, float]]:
    """Return the place of each node, from 0 to 1 in both directions: linked nodes are near each other (Fruchterman and
    Reingold 1991).
    """
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from((source, target) for source, target, _ in edges)
    start = networkx.circular_layout(graph)
    found = networkx.spring_layout(graph, pos=start, iterations=300, seed=0)
    rows = [found[node].tolist() for node in range(nodes)]
    columns = list(zip(*rows, strict=True))
    low, high = [min(own) for own in columns], [max(own) for own in columns]
    return [
        tuple((own - a) / (b - a) if b > a else 0.5 for own, a, b in zip(row, low, high, strict=True))  # type: ignore[misc]
        for row in rows
    ]


def _edge(edge: tuple[int, int, str], places: Sequence[tuple[float, float]], *, named: bool) -> dict[str, Any]:
    source, target, name = edge
    (x, y), (to_x, to_y) = places[source], places[target]
    if source == target:
        path = f"M{x - 5:.1f} {y - 7:.1f}C{x - 25:.1f} {y - 40:.1f} {x + 25:.1f} {y - 40:.1f} {x + 5:.1f} {y - 8:.1f}"
        return {"path": path, "name": name, "named": named, "x": x, "y": y - 34}
    bend_x, bend_y = (x + to_x) / 2 - _BEND * (to_y - y), (y + to_y) / 2 + _BEND * (to_x - x)
    length = math.hypot(to_x - bend_x, to_y - bend_y) or 1.0
    end_x, end_y = (to - (_RADIUS + 2) * (to - bend) / length for to, bend in ((to_x, bend_x), (to_y, bend_y)))
    path = f"M{x:.1f} {y:.1f}Q{bend_x:.1f} {bend_y:.1f} {end_x:.1f} {end_y:.1f}"
    middle_x, middle_y = ((a + 2 * b + c) / 4 for a, b, c in ((x, bend_x, end_x), (y, bend_y, end_y)))
    return {"path": path, "name": name, "named": named, "x": middle_x, "y": middle_y}


def _node(graph: DrawnGraph, node: int, place: tuple[float, float], colours: dict[str, str]) -> dict[str, Any]:
    label, probability = graph.labels[node] if graph.labels else ("", 0.0)
    name = show_whitespace(graph.names[node])
    return {
        "x": place[0],
        "y": place[1],
        "text": shorten(name, _LONGEST),
        "label": shorten(show_whitespace(label), _LONGEST),
        "colour": colours.get(label, "quiet"),
        "hint": f"{name}: {label}, {probability:.1%}" if label else name,
    }


def graphs_page(graphs: Sequence[Graph], found: Sequence[Predicted], unit: str) -> str:
    """Return the page of graphs and their predicted labels. unit: what is labelled, graph or node."""
    drawn = []
    for number, (graph, predicted) in enumerate(zip(graphs, found, strict=True), 1):
        names = [graph.shown(node) for node in range(len(graph))]
        title, labels = f"Graph {number}", predicted.best
        if unit == "graph":
            [(label, probability)] = labels
            title, labels = f"{title}: {label}, {probability:.1%}", []
        drawn.append(DrawnGraph(title, names, graph.edges, labels))
    return labelled_graphs_page("Labelled graphs", drawn)
