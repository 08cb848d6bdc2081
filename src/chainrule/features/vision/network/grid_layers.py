"""Recurrent layers over grids: each cell follows two others, the one on its left and one of the row above.

All cells whose neighbours are known are computed together, which are those of a diagonal: one gather and one product,
whatever the number of grids and directions. Grids of several sizes, from several corners, stand in one batch, without
padding. Legend: K directions, N cells of a batch, n of a diagonal, I width of the input, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int64
    from numpy import ndarray

    from chainrule.features.vision.network.grid_config import GridCell

    IntArray = Int64[ndarray, "*shape"]


class Diagonal(NamedTuple):
    """Cells that are computed together, and the positions of their neighbours in the diagonal before, from 1 on; 0 for
    none.

    carried: rows of the states that are given, not computed, which stand after the computed ones of this diagonal.
    """

    cells: int
    left: Int64[Tensor, " n"]
    above: Int64[Tensor, " n"]
    carried: Int64[Tensor, " m"] | None = None


class Cell(Protocol):
    """Computes a cell of a grid from its gates and its neighbours. All widths are in multiples of D."""

    gates: int
    states: int  # of h, and of c

    def read(self, left: Tensor, above: Tensor) -> Float[Tensor, "K n reads*D"]:
        """Return the gates' input from the h of both neighbours, (K, n, states * D) each."""

    @property
    def reads(self) -> int:
        """The width of that."""

    def __call__(self, gates: Tensor, left: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and c, from gates that are not yet squashed, and the c of neighbours."""


class MultidimensionalLSTM:
    """One memory, with a forget gate for each neighbour (Graves et al. 2007, equations 5 to 11, without peepholes).

    i, o = sigmoid(W x + U [h_left; h_above] + b)              input and output gate
    u = tanh(the same)                                         candidate
    f_left, f_above = sigmoid(the same)
    c = i * u + f_left * c_left + f_above * c_above;  h = o * tanh(c)

    In a grid of one row, it is the LSTM. Gates are stacked in the order i, o, u, f_left, f_above.
    """

    gates = 5
    states = 1
    reads = 2

    def read(self, left: Tensor, above: Tensor) -> Float[Tensor, "K n 2*D"]:
        """Return the gates' input, as `Cell.read` does."""
        return torch.cat((left, above), 2)

    def __call__(self, gates: Tensor, left: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and c, as `Cell` does."""
        i, o, u, f_left, f_above = gates.chunk(5, 2)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_left) * left + torch.sigmoid(f_above) * above
        return torch.sigmoid(o) * torch.tanh(c), c


class GridLSTM:
    """A memory for each dimension, all with the same input (Kalchbrenner et al. 2015, equations 3 to 5).

    H = [h_left; h_above]: of each neighbour, the h of the dimension in which it lies
    h_k, c_k = LSTM_k([x; H], c_k of the neighbour)            for each dimension k

    A grid of one dimension is the LSTM. Gates are stacked by dimension, and in each in the order i, f, g, o.
    """

    def __init__(self, dimensions: Literal[1, 2] = 2) -> None:
        self.gates, self.states, self.reads = 4 * dimensions, dimensions, dimensions

    def read(self, left: Tensor, above: Tensor) -> Float[Tensor, "K n reads*D"]:
        """Return the gates' input, as `Cell.read` does."""
        return self._of_dimensions(left, above)

    def __call__(self, gates: Tensor, left: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and c, as `Cell` does."""
        before = self._of_dimensions(left, above)
        h, c = [], []
        for own, memory in zip(gates.chunk(self.states, 2), before.chunk(self.states, 2), strict=True):
            i, f, g, o = own.chunk(4, 2)
            c.append(torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g))
            h.append(torch.sigmoid(o) * torch.tanh(c[-1]))
        return torch.cat(h, 2), torch.cat(c, 2)

    def _of_dimensions(self, left: Tensor, above: Tensor) -> Tensor:
        """Return the left neighbour's first dimension, and the second one of the neighbour above."""
        if self.states == 1:
            return left
        half = left.shape[2] // 2
        return torch.cat((left[..., :half], above[..., half:]), 2)


_CELLS = {"lstm": MultidimensionalLSTM, "grid": GridLSTM}


class GridLayer(nn.Module):
    """A cell that goes over grids in K directions, with weights for each."""

    def __init__(self, inputs: int, width: int, cell: GridCell, directions: int) -> None:
        super().__init__()
        self.cell = cast("Cell", _CELLS[cell]())
        self.own = nn.Linear(inputs, directions * self.cell.gates * width)  # W, b of all directions
        self.of_neighbours = nn.ModuleList(
            nn.Linear(self.cell.reads * width, self.cell.gates * width, bias=False) for _ in range(directions)
        )
        self.width = directions * self.cell.states * width
        nn.init.zeros_(self.own.bias)

    def forward(self, x: Float[Tensor, "N I"], wiring: Wiring) -> Float[Tensor, "N width"]:
        """Return the h of all directions, side by side."""
        directions = torch.arange(len(wiring.orders), device=x.device)[:, None]
        own = self.own(x).view(len(x), len(directions), -1)[wiring.orders, directions]  # (K, N, gates D)
        h = self.scan(own, wiring.diagonals)[0][directions, wiring.places]
        return h.transpose(0, 1).flatten(1)

    def scan(
        self, own: Float[Tensor, "K N gates*D"], diagonals: Sequence[Diagonal], carried: Tensor | None = None
    ) -> tuple[Float[Tensor, "K N states*D"], Float[Tensor, "K N states*D"]]:
        """Return h and c of all cells, computed diagonal by diagonal.

        own: W x + b of the cells, in the order of computation. carried: (K, M, 2 states D), the h and c of cells
        computed before.
        """
        weight = torch.stack([cast("nn.Linear", layer).weight.T for layer in self.of_neighbours])
        width = self.cell.states * weight.shape[1] // self.cell.reads
        kind = torch.promote_types(own.dtype, torch.float32)
        before = own.new_zeros(len(own), 1, 2 * width, dtype=kind)  # a cell without a neighbour reads row 0
        results = []
        for gates, diagonal in zip(torch.split(own, [each.cells for each in diagonals], 1), diagonals, strict=True):
            states = before[:, :0]
            if diagonal.cells:
                left, above = before.index_select(1, diagonal.left), before.index_select(1, diagonal.above)
                read = self.cell.read(left[..., :width], above[..., :width])
                gates = torch.baddbmm(gates, read.to(gates.dtype), weight.to(gates.dtype))
                states = torch.cat(self.cell(gates, left[..., width:], above[..., width:]), 2).to(kind)
                results.append(states)
            if diagonal.carried is not None and carried is not None:
                states = torch.cat((states, carried.index_select(1, diagonal.carried).to(kind)), 1)
            before = F.pad(states, (0, 0, 1, 0))
        every = torch.cat(results, 1)
        return every[..., :width], every[..., width:]


class Wiring(NamedTuple):
    """The cells of several grids, in the order in which each direction computes them.

    Cells are numbered grid by grid and row by row. orders: the cells in the order of computation. places: the position
    of each cell in that order.
    """

    orders: Int64[Tensor, "K N"]
    places: Int64[Tensor, "K N"]
    diagonals: list[Diagonal]


def wire_grids(shapes: Sequence[tuple[int, int]], directions: int, device: torch.device) -> Wiring:
    """Return grids of these heights and widths, read from their upper left corner, or from all four corners.

    directions: 1 or 4: from the upper left, upper right, lower left, lower right.
    """
    firsts = np.cumsum([0, *(height * width for height, width in shapes)])
    grids = [
        np.arange(first, first + height * width).reshape(height, width)
        for first, (height, width) in zip(firsts.tolist(), shapes, strict=False)
    ]
    rows = np.concatenate([np.repeat(np.arange(height), width) for height, width in shapes])
    columns = np.concatenate([np.tile(np.arange(width), height) for height, width in shapes])
    cells = np.arange(len(rows))
    widths = np.repeat([width for _, width in shapes], np.diff(firsts))
    left, above = np.where(columns > 0, cells - 1, -1), np.where(rows > 0, cells - widths, -1)
    order, diagonals = order_by_diagonals(rows + columns, left, above, device)
    corners = [(slice(None, None, down), slice(None, None, right)) for down in (1, -1) for right in (1, -1)]
    orders = np.stack(
        [np.concatenate([grid[corner].ravel() for grid in grids])[order] for corner in corners[:directions]]
    )
    places = np.empty_like(orders)
    np.put_along_axis(places, orders, cells[None], 1)
    return Wiring(torch.from_numpy(orders).to(device), torch.from_numpy(places).to(device), diagonals)


def order_by_diagonals(
    levels: IntArray, left: IntArray, above: IntArray, device: torch.device, carried: IntArray | None = None
) -> tuple[IntArray, list[Diagonal]]:
    """Return the order of cells by their levels, which rise by 1 from a neighbour to the cell that follows it; and
    diagonals.

    left, above: the index of each cell's neighbour; -1 for none. carried: the levels of cells that are given, not
    computed, which are numbered after the others.
    """
    given = np.empty(0, np.int64) if carried is None else carried
    every = np.concatenate((levels, given))
    order = np.argsort(every, kind="stable")  # those of a level together, the carried ones last
    position = np.zeros(len(order) + 1, np.int64)  # the last is that of no neighbour
    position[order] = np.arange(len(order)) - np.searchsorted(every[order], every[order]) + 1
    computed, waiting = order[order < len(levels)], order[order >= len(levels)] - len(levels)
    left_at, above_at = (torch.from_numpy(position[own[computed]]).to(device) for own in (left, above))
    rows = torch.from_numpy(waiting).to(device)
    present = np.union1d(levels, given[np.isin(given + 1, levels)])
    edges, carried_edges = (
        np.stack([np.searchsorted(own, present, side) for side in ("left", "right")], 1).tolist()
        for own in (levels[computed], given[waiting])
    )
    return computed, [
        Diagonal(last - first, left_at[first:last], above_at[first:last], rows[begin:end] if begin < end else None)
        for (first, last), (begin, end) in zip(edges, carried_edges, strict=True)
    ]
