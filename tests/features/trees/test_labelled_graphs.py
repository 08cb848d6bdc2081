"""The page of labelled graphs: whole, offline, and with nothing in a name taken for markup."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from chainrule.features.trees.graph_page import MOST, DrawnGraph, labelled_graphs_page

SVG = "{http://www.w3.org/2000/svg}"


def drawings(page: str) -> list[ElementTree.Element]:
    found = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    return [
        ElementTree.fromstring(own.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)) for own in found
    ]


def test_all_nodes_edges_and_labels_are_there_as_text() -> None:
    names = ["<script>alert(1)</script>", "b\x00", "c" * 40]
    edges = [(0, 1, "<road>"), (1, 0, "rail"), (2, 2, "loop")]
    graph = DrawnGraph("Graph <1>", names, edges, [("near", 0.75), ("far", 0.5), ("near", 1.0)])
    page = labelled_graphs_page("Labels", [graph, DrawnGraph("Graph 2", ["alone"], [])])
    drawn, alone = drawings(page)
    assert len(list(drawn.iter(f"{SVG}circle"))) == 3
    paths = [path for path in drawn.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(paths) == 3
    hints = ["".join(title.itertext()) for title in drawn.iter(f"{SVG}title")]
    assert hints == [
        "<road>",
        "rail",
        "loop",
        f"{names[0]}: near, 75.0%",
        "b�: far, 50.0%",
        f"{names[2]}: near, 100.0%",
    ]
    colours = [circle.get("fill") for circle in drawn.iter(f"{SVG}circle")]
    assert colours[0] == colours[2] != colours[1]
    assert [circle.get("fill") for circle in alone.iter(f"{SVG}circle")] != colours[:1]
    assert "<script" not in page
    assert not re.search(r"(?:href|src)=", page)


@pytest.mark.parametrize("count", [2, 40, MOST])
def test_nodes_are_within_the_picture_and_apart(count: int) -> None:
    edges = [(i, (i + 1) % count, "edge") for i in range(count)]
    [drawn] = drawings(labelled_graphs_page("", [DrawnGraph("", [str(i) for i in range(count)], edges)]))
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    places = [(float(own.get("cx", -1)), float(own.get("cy", -1))) for own in drawn.iter(f"{SVG}circle")]
    assert all(8 <= x <= width - 8 and 8 <= y <= height - 8 for x, y in places)
    assert len(set(places)) == count


def test_the_same_graph_gives_the_same_page_and_a_large_one_a_note() -> None:
    graph = DrawnGraph("", list("abcd"), [(0, 1, "x"), (1, 2, "x"), (0, 3, "y")])
    assert labelled_graphs_page("", [graph]) == labelled_graphs_page("", [graph])
    large = labelled_graphs_page("", [DrawnGraph("large", ["a"] * (MOST + 1), [])])
    assert not drawings(large)
    assert "301 nodes; graphs of up to 300 are drawn" in large
