"""Pages of pictures, graphs and trees with the labels that a network gives them, without other files; trees as SVG.

Each node of a tree has its word, a label with its probability, and its input gate; the line to its parent is the wider,
the more of its memory the parent keeps (the forget gate).
"""

from __future__ import annotations

import math
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.cells import cell_len

from chainrule.drawing.colours import COLOURS
from chainrule.drawing.pages import render, shorten, show_whitespace
from chainrule.features.vision.pictures.codec import encode_png

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, UInt8
    from numpy import ndarray

    from chainrule.features.trees.structures.tree import Tree

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
    """A self-contained HTML page. A label has the same colour in all graphs; a graph of many nodes is not drawn."""
    labels = dict.fromkeys(label for graph in graphs for label, _ in graph.labels)
    colours = {label: _PALETTE[i % len(_PALETTE)] for i, label in enumerate(labels)}
    drawn = [_graph_values(graph, colours) for graph in graphs]
    return render("labelled_graphs.html.j2", title=title, legend=list(colours.items()), graphs=drawn, palette=_PALETTE)


def _graph_values(graph: DrawnGraph, colours: dict[str, str]) -> dict[str, Any]:
    """The values that the template needs for a graph."""
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
    """The place of each node, from 0 to 1 in both directions: linked nodes are near each other (Fruchterman and
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


_SHOWN, _LARGEST_PICTURE = 400, 8  # pixels of the longer side, about; the most that a pixel is magnified
_TINT = 0.65  # of a label's colour, laid on the picture
_LEAST_SHARE = 5e-4  # a share that is shown


class DrawnPicture(NamedTuple):
    """A picture as it is drawn. log_probs: those of the labels of each pixel, or of the whole picture."""

    name: str
    pixels: UInt8[ndarray, "H W C"]
    log_probs: Float32[ndarray, "units labels"]


def labelled_pictures_page(title: str, names: Sequence[str], pictures: Sequence[DrawnPicture]) -> str:
    """A self-contained HTML page: each picture, overlaid with the colours of its pixels' labels, and how sure the
    network is.

    names: those of labels, each of which has the same colour on all pictures.
    """
    keys = [(name, _PALETTE[i % len(_PALETTE)]) for i, name in enumerate(names)]
    colours = np.array([_rgb(COLOURS[key].light) for _, key in keys], np.float64)
    return render(
        "labelled_pictures.html.j2",
        title=title,
        legend=[(name, COLOURS[key].light) for name, key in keys],
        pictures=[_picture_values(picture, names, colours) for picture in pictures],
    )


def _picture_values(
    picture: DrawnPicture, names: Sequence[str], colours: Float[ndarray, "labels 3"]
) -> dict[str, object]:
    """The values that the template needs for a picture."""
    height, width, _ = picture.pixels.shape
    probabilities = np.exp(picture.log_probs.astype(np.float64))
    maps = [("the picture", _data_uri(picture.pixels))]
    if len(probabilities) == height * width > 1:
        labels = probabilities.argmax(1).reshape(height, width)
        laid = (1 - _TINT) * picture.pixels.mean(2, keepdims=True) + _TINT * colours[labels]
        certainty = 255 * probabilities.max(1).reshape(height, width, 1)
        maps.append(("labels", _data_uri(laid.round().astype(np.uint8))))
        maps.append(("probability of the label: black 0, white 1", _data_uri(certainty.round().astype(np.uint8))))
        shares = np.bincount(labels.ravel(), minlength=len(names)) / labels.size
    else:
        shares = probabilities[0]
    magnified = max(1, min(_LARGEST_PICTURE, _SHOWN // max(height, width)))
    found = sorted(zip(names, shares.tolist(), strict=True), key=lambda pair: -pair[1])
    return {
        "name": picture.name,
        "width": magnified * width,
        "height": magnified * height,
        "maps": maps,
        "shares": ", ".join(f"{name} {share:.1%}" for name, share in found if share >= _LEAST_SHARE),
    }


def _data_uri(pixels: UInt8[ndarray, "H W C"]) -> str:
    return f"data:image/png;base64,{b64encode(encode_png(pixels)).decode()}"


def _rgb(colour: str) -> list[int]:
    """The numbers of a colour written as #rrggbb."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


ROW, GAP, MARGIN, HEAD = 74, 14, 24, 76  # pixels
LETTER, LONGEST = 7.6, 18  # the width of a letter of 13 pixels, and the most letters of a word


@dataclass(frozen=True, kw_only=True)
class DrawnNode:
    """The text at a node. note: the line below its word. hint: the tooltip. strength: that of the line to its parent,
    from 0 to 1; None where all lines are alike.
    """

    note: str = ""
    hint: str = ""
    kind: str = "kept"  # of its box: a colour's name
    strength: float | None = None


@dataclass(frozen=True, kw_only=True)
class TreeDrawing:
    """A tree, what is at each of its nodes, and a line about it."""

    tree: Tree
    nodes: Sequence[DrawnNode]
    about: str = ""


def trees_page(heading: str, drawings: Sequence[TreeDrawing], legend: str = "") -> str:
    """A self-contained HTML page without scripts."""
    return render(
        "trees.html.j2", title=heading, legend=legend, drawings=[_tree_values(drawing) for drawing in drawings]
    )


def trees_svg(heading: str, drawings: Sequence[TreeDrawing], legend: str = "") -> str:
    """The same trees as one SVG, one below the other."""
    drawn, top = [], float(HEAD)
    for drawing in drawings:
        own = _tree_values(drawing)
        drawn.append({**own, "top": top})
        top += own["height"]
    width = max([480.0, 2 * MARGIN + LETTER * max(len(heading), len(legend)), *(own["width"] for own in drawn)])
    return render("trees.svg.j2", title=heading, legend=legend, width=width, height=top + MARGIN, drawings=drawn)


def _tree_values(drawing: TreeDrawing) -> dict[str, Any]:
    """The values that the template needs: boxes and lines, from the corner of the drawing."""
    tree, nodes = drawing.tree, drawing.nodes
    texts = [shorten(show_whitespace(word), LONGEST) if word is not None else "" for word in tree.words]
    widths = [
        max(LETTER * (max(cell_len(text), 0.85 * cell_len(node.note)) + 2), 34.0)
        for text, node in zip(texts, nodes, strict=True)
    ]
    middles, total = _middles(tree, widths)
    tops = [ROW * float(depth) + (22.0 if drawing.about else 0.0) for depth in tree.depths.tolist()]
    heights = [38.0 if text and node.note else 22.0 for text, node in zip(texts, nodes, strict=True)]
    lines = []
    for child, parent in enumerate(tree.parents):
        if parent >= 0:
            strength = nodes[child].strength
            bottom = tops[parent] + heights[parent]
            lines.append(
                {
                    "path": f"M{middles[parent]:.1f} {bottom:.1f}L{middles[child]:.1f} {tops[child]:.1f}",
                    "thickness": 1.5 if strength is None else 0.5 + 5.5 * strength,
                    "hint": "" if strength is None else f"forget gate {strength:.2f}",
                }
            )
    boxes = [
        {
            "left": middles[i] - widths[i] / 2,
            "top": tops[i],
            "middle": middles[i],
            "width": widths[i],
            "height": heights[i],
            "text": text,
            "note": node.note,
            "hint": " · ".join(part for part in (tree.text(i), node.hint) if part),
            "kind": node.kind,
        }
        for i, (text, node) in enumerate(zip(texts, nodes, strict=True))
    ]
    return {
        "about": drawing.about,
        "width": total + 2 * MARGIN,
        "height": max(tops) + ROW,
        "lines": lines,
        "boxes": boxes,
    }


def _middles(tree: Tree, widths: Sequence[float]) -> tuple[list[float], float]:
    """The middle of each node, and the width of all: words are in their order, a node without a word is above its
    children.

    A node that is wider than what is below it makes room for itself.
    """
    middles, right = [0.0] * len(tree), float(MARGIN)
    spread = _extra_room(tree, widths)
    for node in range(len(tree)):
        if tree.words[node] is not None or not tree.children[node]:
            width = max(widths[node], spread[node])
            middles[node] = right + width / 2
            right += width + GAP
    for node in sorted(range(len(tree)), key=lambda node: -int(tree.depths[node])):
        if tree.words[node] is None and tree.children[node]:
            below = [middles[child] for child in tree.children[node]]
            middles[node] = (min(below) + max(below)) / 2
    return middles, right - GAP - MARGIN


def _extra_room(tree: Tree, widths: Sequence[float]) -> list[float]:
    """The extra width of each node with a word, so that the nodes above it have enough room."""
    room = [0.0] * len(tree)
    for node in sorted(range(len(tree)), key=lambda node: -int(tree.depths[node])):
        own, parent = max(room[node], widths[node]), tree.parents[node]
        if parent >= 0 and tree.words[parent] is None:
            share = widths[parent] / len(tree.children[parent])
            room[node] = max(own, share)
        else:
            room[node] = own
    return room
