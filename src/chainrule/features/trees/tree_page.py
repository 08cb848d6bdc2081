"""Pages of trees with what a network makes of them, without other files; and trees as SVG.

Each node has its word, a label with its probability, and its input gate; the line to its parent is the wider, the more
of its memory the parent keeps (the forget gate).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from chainrule.drawing.pages import render, shorten, show_whitespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.trees.structures.tree import Tree

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
    """Return a self-contained HTML page without scripts."""
    return render(
        "trees.html.j2", title=heading, legend=legend, drawings=[_tree_values(drawing) for drawing in drawings]
    )


def trees_svg(heading: str, drawings: Sequence[TreeDrawing], legend: str = "") -> str:
    """Return the same trees as one SVG, one below the other."""
    drawn, top = [], float(HEAD)
    for drawing in drawings:
        own = _tree_values(drawing)
        drawn.append({**own, "top": top})
        top += own["height"]
    width = max([480.0, 2 * MARGIN + LETTER * max(len(heading), len(legend)), *(own["width"] for own in drawn)])
    return render("trees.svg.j2", title=heading, legend=legend, width=width, height=top + MARGIN, drawings=drawn)


def _tree_values(drawing: TreeDrawing) -> dict[str, Any]:
    """Return the values that the template needs: boxes and lines, from the corner of the drawing."""
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
    """Return the middle of each node, and the width of all: words are in their order, a node without a word is above
    its children.

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
    """Return the extra width of each node with a word, so that the nodes above it have enough room."""
    room = [0.0] * len(tree)
    for node in sorted(range(len(tree)), key=lambda node: -int(tree.depths[node])):
        own, parent = max(room[node], widths[node]), tree.parents[node]
        if parent >= 0 and tree.words[parent] is None:
            share = widths[parent] / len(tree.children[parent])
            room[node] = max(own, share)
        else:
            room[node] = own
    return room
