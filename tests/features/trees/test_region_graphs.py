"""Graphs of the regions of a picture, against what is plain by eye."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.errors import SettingError, TextError
from chainrule.features.trees.structures.region_graphs import grid_regions, region_graph, superpixels


def test_a_grid_of_squares() -> None:
    """Three by two squares of two pixels, the last ones cut off."""
    regions = grid_regions(4, 5, 2)
    assert regions.tolist() == [[0, 0, 1, 1, 2]] * 2 + [[3, 3, 4, 4, 5]] * 2
    pixels = np.zeros((4, 5, 1), np.uint8)
    pixels[:2, 2:4] = 255
    labels = np.zeros((4, 5), np.int64)
    labels[:2, 2:4] = [[1, 1], [1, 0]]
    graph = region_graph(pixels, regions, labels, ["dark", "bright"])
    assert graph.labels == ("dark", "bright", "dark", "dark", "dark", "dark")
    beside = {(edge.source, edge.target) for edge in graph.edges if edge.type == "beside"}
    below = {(edge.source, edge.target) for edge in graph.edges if edge.type == "below"}
    assert beside == {(0, 1), (1, 2), (3, 4), (4, 5)}
    assert below == {(0, 3), (1, 4), (2, 5)}
    assert graph.nodes[1] == pytest.approx((1.0, 0.25, 0.6, 0.2))  # rows 0, 1 of 4; columns 2, 3 of 5; 4 of 20 pixels
    assert graph.nodes[5] == pytest.approx((0.0, 0.75, 0.9, 0.1))


def test_superpixels_follow_the_edges_of_colours() -> None:
    pixels = np.zeros((24, 30, 3), np.uint8)
    pixels[:, 11:] = (250, 40, 0)
    regions = superpixels(pixels, 12)
    assert regions.min() == 0
    assert len(np.unique(regions)) == regions.max() + 1
    for region in range(int(regions.max()) + 1):
        assert len(np.unique(pixels[regions == region], axis=0)) == 1  # of one colour
    assert superpixels(pixels[..., :1], 12).shape == (24, 30)


def test_what_does_not_fit_is_refused() -> None:
    pixels = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(TextError, match=r"the labels have the shape \(4, 4\), and the picture \(4, 5\)"):
        region_graph(pixels, grid_regions(4, 5, 2), np.zeros((4, 4), np.int64))
    with pytest.raises(TextError, match="region 1 has no pixel"):
        region_graph(pixels, np.where(np.eye(4, 5) > 0, 0, 2))
    with pytest.raises(SettingError, match="cell is 0; expected 1 or more pixels"):
        grid_regions(4, 5, 0)
    with pytest.raises(SettingError, match="count is 0"):
        superpixels(pixels, 0)
