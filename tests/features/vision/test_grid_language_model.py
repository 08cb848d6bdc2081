"""The language model of pictures: against one cell after the other, by enumeration, and what a pixel depends on."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from chainrule.errors import SettingError
from chainrule.features.vision.network.grid_config import GridConfig
from chainrule.features.vision.network.grid_encoder import Grid
from chainrule.protocol import END
from tests.random_networks import random_model

if TYPE_CHECKING:
    from chainrule.features.vision.network.grid_layers import GridLayer


def cell_by_cell(encoder: Grid, x: Tensor, columns: int) -> Tensor:
    """The hidden vectors of one picture, x[t] being the input that pixel t is predicted after; one layer."""
    layer = cast("GridLayer", encoder.layers[0])
    weight = cast("torch.nn.Linear", layer.of_neighbours[0]).weight
    nothing = torch.zeros(1, 1, layer.width)
    states: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    hidden = []
    for t in range(len(x)):
        i, j = divmod(t, columns)
        above = x[t - columns + 1] if i else torch.zeros_like(x[0])
        right = x[t - columns + 2] if i and j + 1 < columns else torch.zeros_like(x[0])
        h_left, c_left = states.get((i, j - 1), (nothing, nothing))
        h_above, c_above = states.get((i - 1, j + 1), (nothing, nothing))
        gates = layer.own(torch.cat((x[t], above, right))) + layer.cell.read(h_left, h_above) @ weight.T
        states[i, j] = layer.cell(gates, c_left, c_above)
        hidden.append(states[i, j][0][0, 0])
    return torch.stack(hidden)


@pytest.mark.parametrize("config", [GridConfig(width=6, columns=4), GridConfig(width=6, columns=4, cell="grid")])
def test_packed_pictures_and_carried_states_equal_cell_by_cell(config: GridConfig) -> None:
    """Two rows of pictures that begin at any column, the second part continuing from the state after the first."""
    torch.manual_seed(1)
    encoder = Grid(config).eval()
    x = torch.randn(2, 30, 6)
    starts = torch.zeros(2, 30, dtype=torch.bool)
    starts[0, [0, 13]], starts[1, [0, 5, 6, 22]] = True, True
    first, state = encoder(x[:, :17], None, starts[:, :17])
    second, _ = encoder(x[:, 17:], state, starts[:, 17:])
    together = torch.cat((first, second), 1)
    for row in range(2):
        edges = [*starts[row].nonzero()[:, 0].tolist(), 30]
        expected = torch.cat([cell_by_cell(encoder, x[row, a:b], 4) for a, b in pairwise(edges)])
        torch.testing.assert_close(together[row], expected, atol=1e-6, rtol=0)


def test_the_probabilities_of_all_small_pictures_sum_to_one() -> None:
    """Every sequence of up to four pixels of three values: those that end earlier, and the beginnings of all others."""
    model = random_model(GridConfig(width=8, columns=2, layers=2), vocabulary_size=5)
    values = [token for token in range(5) if token != END]
    ended = [np.array(own, np.int32) for size in range(4) for own in product(values, repeat=size)]
    others = [np.array(own, np.int32) for own in product(values, repeat=4)]
    total = sum(np.exp(scores.sum(dtype=np.float64)) for scores in model.score(ended))
    total += sum(np.exp(scores.sum(dtype=np.float64)) for scores in model.score(others, end=False))
    assert total == pytest.approx(1, abs=1e-5)


def test_a_pixel_depends_on_what_is_left_of_it_and_above() -> None:
    """Pixel (2, 2) of seven columns: what is left of it, a triangle on its right, and the end of each row above."""
    torch.manual_seed(2)
    encoder = Grid(GridConfig(width=6, columns=7)).eval()
    x = torch.randn(1, 21, 6, requires_grad=True)
    hidden, _ = encoder(x)
    [gradient] = torch.autograd.grad(hidden[0, 2 * 7 + 2].sum(), x)
    pixels = {divmod(t - 1, 7) for t in gradient[0].abs().sum(1).nonzero()[:, 0].tolist() if t}  # input 0 is </s>
    assert pixels == {(0, j) for j in (0, 1, 2, 3, 4, 6)} | {(1, j) for j in (0, 1, 2, 3, 6)} | {(2, 0), (2, 1)}


def test_pictures_are_documents_and_two_memories_share_the_width() -> None:
    with pytest.raises(SettingError, match="each picture starts afresh"):
        GridConfig(memory="stream")
    with pytest.raises(SettingError, match="the width must be even"):
        GridConfig(cell="grid", width=7)
