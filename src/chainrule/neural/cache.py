"""What a Transformer remembers: keys, values and inputs of the columns that it has read, a row for each sequence.

All rows end at the same column, and each begins at one of its own, so that a step writes one column of every row.
Columns are only ever appended: two states share one store until both have written (the second one copies), and what is
beyond a state's last column is none of its business.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

_LEAST = 64  # columns that are made room for
_FEW = 8  # likewise, where rows were selected


@dataclass
class _Store:
    """Buffers with room for `capacity` columns; made when they are first written to.

    The columns of a head lie together, each a key and its value: so they are read one after the other, and writing a
    column touches one page of memory for both.
    """

    capacity: int
    layers: list[Tensor | None]  # keys and values of each, (B, K, capacity, 2d)
    inputs: Tensor | None = None  # (B, capacity, D)
    written: int = 0  # columns, whoever wrote them


@dataclass(frozen=True)
class Cache:
    """The state of a Transformer after some columns.

    first: (B,), the column where each row begins; it may be below 0, where the columns before are gone.
    least: the lowest of `first`. begin: the first column that the last read one may see.
    """

    rows: int
    layers: int
    first: Tensor
    least: int = 0
    even: bool = True  # all rows begin at the same column
    begin: int = 0
    columns: int = 0
    store: _Store = field(default_factory=lambda: _Store(0, []))

    @classmethod
    def empty(cls, rows: int, layers: int, device: torch.device | None = None) -> Self:
        return cls(rows, layers, torch.zeros(rows, dtype=torch.int64, device=device))

    @property
    def longest(self) -> int:
        """What the longest row has read since it began."""
        return self.columns - self.least

    def grown(
        self, x: Tensor, starts: Tensor | None, window: int | None, *, keep_inputs: bool
    ) -> tuple[Cache, Tensor, Tensor | None]:
        """With room for the columns of x, (B, T, D), and their numbers, (T,). Of uneven rows, also the first column
        that each query sees, (B, T). starts: as the encoder's. keep_inputs: whether x is kept, too.
        """
        length = x.shape[1]
        made = self if self.columns == self.store.written else self._copied(length)
        if made.columns + length > made.store.capacity:
            made = self._copied(length)
        store, columns = made.store, torch.arange(made.columns, made.columns + length, device=x.device)
        store.written = made.columns + length
        if keep_inputs:
            if store.inputs is None:
                store.inputs = x.new_empty(self.rows, store.capacity, x.shape[2])
            store.inputs[:, made.columns : store.written] = x
        first, least, even = made.first, made.least, made.even
        seen_from: Tensor | None = None
        if starts is not None or not even:
            seen_from = first[:, None].expand(-1, length)
            if starts is not None:
                seen_from = torch.maximum(torch.where(starts, columns, columns[0] - 1).cummax(1).values, seen_from)
                seen_from = torch.where(starts.cumsum(1) > 0, seen_from, first[:, None])
                first = seen_from[:, -1].contiguous()
                least, even = _summary(first, least)
        begin = least if length == 1 else min(made.least, least)
        if window is not None:
            begin = max(begin, made.columns - window + 1)
        grown = replace(
            made, first=first, least=least, even=even, begin=max(begin, 0), columns=store.written, store=store
        )
        return grown, columns, seen_from

    def appended(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Writes the last columns of a layer, (B, K, T, d) each; all that there are to see, (B, K, S, d)."""
        rows, heads, length, width = key.shape
        buffer = self.store.layers[layer]
        if buffer is None:
            self.store.layers[layer] = buffer = key.new_empty(rows, heads, self.store.capacity, 2 * width)
        new = buffer[:, :, self.columns - length : self.columns]
        new[..., :width] = key
        new[..., width:] = value
        seen = buffer[:, :, self.begin : self.columns]
        return seen[..., :width], seen[..., width:]

    def rows_of(self, length: int) -> Tensor:
        """The rows that have read so many columns."""
        return (self.columns - self.first == length).nonzero().flatten()

    def last_inputs(self, rows: Tensor, number: int) -> Tensor:
        """(rows, number, D)."""
        assert self.store.inputs is not None
        return self.store.inputs[rows, self.columns - number : self.columns]

    def replaced(self, rows: Tensor, fresh: Cache) -> Cache:
        """In which some rows, which have read at least as many columns, hold what `fresh` does."""
        if len(rows) == self.rows:
            return fresh
        made, length = self._copied(1), fresh.columns
        for mine, other in _buffers(made.store, fresh.store):
            mine[rows, ..., made.columns - length : made.columns, :] = other[..., :length, :]
        first = made.first.index_fill(0, rows, made.columns - length)
        least, even = _summary(first, made.least)
        return replace(made, first=first, least=least, even=even, begin=max(least, 0))

    def select(self, rows: Tensor) -> Cache:
        """As `Memory.select`."""
        return self._copied(1, rows)

    def detach(self) -> Cache:
        """As `Memory.detach`: a cache is never written to while gradients are taken."""
        return self

    def _copied(self, more: int, rows: Tensor | None = None) -> Cache:
        """In a store of its own, without what no row needs, with room for as much again and at least `more`."""
        needed = self.begin if self.store.inputs is None else max(self.least, 0)
        used = self.columns - needed
        # A beam selects at every step, so that more room would be made, and touched, for nothing.
        capacity = max(_LEAST, 2 * used, used + more) if rows is None else used + _FEW
        number = self.rows if rows is None else len(rows)

        def copied(buffer: Tensor | None) -> Tensor | None:
            if buffer is None:
                return None
            old = buffer[..., needed : self.columns, :]
            fresh = buffer.new_empty(number, *buffer.shape[1:-2], capacity, buffer.shape[-1])
            if rows is None:
                fresh[..., :used, :] = old
            else:
                torch.index_select(old, 0, rows, out=fresh[..., :used, :])  # one pass, without a copy in between
            return fresh

        layers = [copied(each) for each in self.store.layers] or [None] * self.layers
        first = (self.first if rows is None else self.first[rows]) - needed
        least, even = self.least - needed, self.even
        if rows is not None and not even:
            least, even = _summary(first, least)
        store = _Store(capacity, layers, copied(self.store.inputs), used)
        return Cache(number, self.layers, first, least, even, self.begin - needed, used, store)


def _summary(first: Tensor, otherwise: int) -> tuple[int, bool]:
    """The lowest of the rows' first columns, and whether all are the same."""
    if not first.numel():
        return otherwise, True
    low, high = (int(each) for each in first.aminmax())
    return low, low == high


def _buffers(mine: _Store, other: _Store) -> list[tuple[Tensor, Tensor]]:
    """The buffers that both stores have."""
    pairs = zip([*mine.layers, mine.inputs], [*other.layers, other.inputs], strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]
