"""Recurrent layers over grids, against one cell after the other and against torch's LSTM."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
import torch
from torch import Tensor, nn

from chainrule.features.vision.network.grid_layers import GridLayer, GridLSTM, wire_grids

if TYPE_CHECKING:
    from chainrule.features.vision.network.config import GridCell

CPU = torch.device("cpu")
SHAPES = [(3, 4), (1, 6), (5, 2), (1, 1)]


def cell_by_cell(layer: GridLayer, x: Tensor, direction: int) -> Tensor:
    """The textbook's two loops, from one of the corners: upper left, upper right, lower left, lower right."""
    height, width = x.shape[:2]
    own = layer.own(x).unflatten(2, (len(layer.of_neighbours), -1))[:, :, direction]
    weight = cast("nn.Linear", layer.of_neighbours[direction]).weight
    nothing = torch.zeros(1, 1, weight.shape[1] // layer.cell.reads * layer.cell.states)
    down, right = (1, -1)[direction // 2], (1, -1)[direction % 2]
    states: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    for i in range(height)[::down]:
        for j in range(width)[::right]:
            left = states.get((i, j - right), (nothing, nothing))
            above = states.get((i - down, j), (nothing, nothing))
            gates = own[i, j] + layer.cell.read(left[0], above[0]) @ weight.T
            states[i, j] = layer.cell(gates, left[1], above[1])
    return torch.stack([torch.stack([states[i, j][0][0, 0] for j in range(width)]) for i in range(height)])


@pytest.mark.parametrize("cell", ["lstm", "grid"])
def test_diagonals_of_several_grids_equal_cell_by_cell(cell: GridCell) -> None:
    torch.manual_seed(1)
    layer = GridLayer(inputs=7, width=5, cell=cell, directions=4)
    grids = [torch.randn(*shape, 7) for shape in SHAPES]
    together = layer(torch.cat([x.flatten(0, 1) for x in grids]), wire_grids(SHAPES, 4, CPU))
    for x, own in zip(grids, together.split([len(x.flatten(0, 1)) for x in grids]), strict=True):
        expected = torch.cat([cell_by_cell(layer, x, direction) for direction in range(4)], 2)
        torch.testing.assert_close(own.view_as(expected), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("cell", ["lstm", "grid"])
def test_gradients_of_diagonals_equal_those_of_cell_by_cell(cell: GridCell) -> None:
    torch.manual_seed(2)
    layer = GridLayer(inputs=3, width=4, cell=cell, directions=1)
    x = torch.randn(4, 3, 3)
    weights = list(layer.parameters())
    own = torch.autograd.grad(layer(x.flatten(0, 1), wire_grids([(4, 3)], 1, CPU)).square().sum(), weights)
    expected = torch.autograd.grad(cell_by_cell(layer, x, 0).square().sum(), weights)
    for gradient, other in zip(own, expected, strict=True):
        torch.testing.assert_close(gradient, other, atol=1e-5, rtol=0)


def with_weights_of(layer: GridLayer, lstm: nn.LSTM, blocks: list[int], columns: slice) -> GridLayer:
    """A layer of one direction with the weights of torch's LSTM, whose gates are i, f, g, o.

    blocks: which gate of the layer each of these is. columns: of the neighbour on the left.
    """
    width = lstm.hidden_size
    with torch.no_grad():
        for name, weight in (("own.weight", lstm.weight_ih_l0), ("own.bias", lstm.bias_ih_l0 + lstm.bias_hh_l0)):
            own = layer.get_parameter(name)
            for block, rows in zip(blocks, weight.split(width), strict=True):
                own[block * width : (block + 1) * width] = rows
        of_state = layer.get_parameter("of_neighbours.0.weight")
        for block, rows in zip(blocks, lstm.weight_hh_l0.split(width), strict=True):
            of_state[block * width : (block + 1) * width, columns] = rows
    return layer


def test_one_row_of_a_two_dimensional_lstm_is_the_lstm() -> None:
    torch.manual_seed(3)
    lstm, x = nn.LSTM(7, 5), torch.randn(9, 7)
    layer = with_weights_of(GridLayer(7, 5, "lstm", 1), lstm, [0, 3, 2, 1], slice(0, 5))
    torch.testing.assert_close(layer(x, wire_grids([(1, 9)], 1, CPU)), lstm(x)[0], atol=1e-6, rtol=0)


def test_a_grid_lstm_of_one_dimension_is_the_lstm() -> None:
    torch.manual_seed(4)
    lstm, x = nn.LSTM(7, 5), torch.randn(9, 7)
    layer = GridLayer(7, 5, "grid", 1)
    layer.cell = GridLSTM(dimensions=1)
    layer.own, layer.of_neighbours = nn.Linear(7, 20), nn.ModuleList([nn.Linear(5, 20, bias=False)])
    with_weights_of(layer, lstm, [0, 1, 2, 3], slice(0, 5))
    torch.testing.assert_close(layer(x, wire_grids([(1, 9)], 1, CPU)), lstm(x)[0], atol=1e-6, rtol=0)


def test_each_direction_sees_its_own_quarter_of_a_grid() -> None:
    """Cell (2, 1) of four rows and three columns, and the cells that change it from each corner."""
    torch.manual_seed(5)
    layer, wiring = GridLayer(2, 3, "lstm", 4), wire_grids([(4, 3)], 4, CPU)
    x = torch.randn(12, 2, requires_grad=True)
    seen = []
    for direction in range(4):
        own = layer(x, wiring)[2 * 3 + 1, direction * 3 : (direction + 1) * 3]
        [gradient] = torch.autograd.grad(own.sum(), x)
        seen.append({divmod(i, 3) for i in gradient.abs().sum(1).nonzero()[:, 0].tolist()})
    assert seen[0] == {(i, j) for i in (0, 1, 2) for j in (0, 1)}
    assert seen[1] == {(i, j) for i in (0, 1, 2) for j in (1, 2)}
    assert seen[2] == {(i, j) for i in (2, 3) for j in (0, 1)}
    assert seen[3] == {(i, j) for i in (2, 3) for j in (1, 2)}
