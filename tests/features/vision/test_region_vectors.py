"""Vectors of regions: pooled by a loop over bilinear samples, rows, and attention on the picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_networks import caption

from chainrule.features.seq2seq.network.vector_sources import VectorInput
from chainrule.features.vision.network.visual_sources import (
    boxes_of,
    cells_of,
    pooled_cells,
    region_rows,
    spread_on_picture,
)

RNG = np.random.default_rng(0)
BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.55, 0.9], [0.9, 0.95, 1, 1]], np.float32)


def bilinear(plane: np.ndarray, x: float, y: float) -> float:
    """The value at a point, counted in places whose middles are at 0.5, 1.5, ...; beyond the edges as at them."""
    rows, columns = plane.shape
    x, y = min(max(x - 0.5, 0), columns - 1), min(max(y - 0.5, 0), rows - 1)
    left, top = int(x), int(y)
    right, bottom = min(left + 1, columns - 1), min(top + 1, rows - 1)
    above = plane[top, left] * (1 - x + left) + plane[top, right] * (x - left)
    below = plane[bottom, left] * (1 - x + left) + plane[bottom, right] * (x - left)
    return float(above * (1 - y + top) + below * (y - top))


@pytest.mark.parametrize("cells", [1, 3])
def test_cells_are_means_of_bilinear_samples(cells: int) -> None:
    maps = RNG.normal(size=(2, 5, 8)).astype(np.float32)
    pooled = pooled_cells(torch.from_numpy(maps), torch.from_numpy(BOXES), cells).numpy()
    assert pooled.shape == (3, cells, cells, 2)
    for box, row, column, channel in np.ndindex(pooled.shape):
        left, top, right, bottom = BOXES[box].tolist()
        samples = [
            bilinear(
                maps[channel],
                8 * (left + (right - left) * (column + dx) / cells),
                5 * (top + (bottom - top) * (row + dy) / cells),
            )
            for dx in (0.25, 0.75)
            for dy in (0.25, 0.75)
        ]
        assert pooled[box, row, column, channel] == pytest.approx(np.mean(samples), abs=1e-5)


def test_cells_divide_their_box() -> None:
    cells = cells_of(BOXES, 2)
    assert cells.shape == (3, 4, 4)
    np.testing.assert_allclose(cells[0], [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]])
    np.testing.assert_allclose(cells[1][0, :2], BOXES[1, :2])
    np.testing.assert_allclose(cells[1][-1, 2:], BOXES[1, 2:], atol=1e-6)


def test_a_region_has_its_phrase_and_its_box() -> None:
    regions, phrases = RNG.normal(size=(3, 4)).astype(np.float32), RNG.normal(size=(3, 2)).astype(np.float32)
    rows = region_rows(regions, BOXES, phrases)
    np.testing.assert_array_equal(rows, np.concatenate([regions, phrases, BOXES], 1))
    np.testing.assert_array_equal(boxes_of(rows), BOXES)
    np.testing.assert_array_equal(region_rows(regions, BOXES), np.concatenate([regions, BOXES], 1))


def test_attention_to_boxes_is_spread_evenly_over_them() -> None:
    weights = RNG.dirichlet(np.ones(3), 2).astype(np.float32)
    spread = spread_on_picture(weights, BOXES, 10, 20)
    np.testing.assert_allclose(spread.sum((1, 2)), 1, atol=1e-5)
    inside = spread_on_picture(np.array([[0, 1, 0]], np.float32), BOXES, 10, 20)[0]
    expected = np.zeros((10, 20))
    expected[2:9, 2:11] = 1 / 63  # of 20 columns and 10 rows, 0.1 to 0.55 and 0.2 to 0.9
    np.testing.assert_allclose(inside, expected, atol=1e-5)


def test_maps_are_hidden_from_a_share_of_regions_in_training() -> None:
    config = caption(source_grid=(), max_source=400, source_width=12, phrase_width=3, map_dropout=0.3)
    torch.manual_seed(0)
    read = VectorInput(config)
    sources = torch.randn(1, 400, 12)
    blank = sources.clone()
    blank[..., :5] = 0  # the others are of phrases and boxes
    with torch.no_grad():
        hidden = (read(sources) == read.eval()(blank)).all(-1).float().mean()
        assert 0.2 < hidden < 0.4
        assert not (read(sources) == read(blank)).all(-1).any()
