"""States of encoders after the rows that they have read, and the cache of keys and values of Transformers.

A state is a tree of tensors, batch first. A leaf may also be a `Memory`, which can select rows without copying
everything it holds, as a cache does.

A cache holds the keys, values and inputs of the columns read so far, a row for each sequence. All rows end at the same
column, but each begins at its own, so that a step writes one column of every row. Columns are only ever appended:
states share one store until two of them append (the second one copies first), and a state ignores what the store holds
past its last column. Keys and values may be kept in eight bits, each 32 numbers with a scale: in little more than a
quarter of the memory.
Legend: B rows, K heads of keys, T new columns, S columns, d width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor

from chainrule.neural.layers.matrix_products import pack, packed_width, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int8, Int64, Shaped
    from numpy import ndarray

_LEAST = 64  # columns that a new store has room for, at least
_FEW = 8  # spare columns after rows were selected


@dataclass
class _Store:
    """Buffers with room for `capacity` columns, allocated when they are first written to.

    The columns of a head are contiguous, each a key and its value: reading is sequential, and writing a column touches
    one page of memory for both.
    """

    capacity: int
    layers: list[Tensor | None]  # keys and values of each layer, (B, K, capacity, 2d), or as `in_eight_bits` has them
    inputs: Tensor | None = None  # (B, capacity, D)
    written: int = 0  # columns, written by any state
    arrays: dict[int, ndarray] = field(default_factory=dict)  # of layers that kernels read, views


@dataclass(frozen=True)
class Cache:
    """The state of a Transformer after some columns.

    first: (B,), the column where each row begins; below 0 if its first columns were dropped. least: the lowest of
    `first`. even: whether all rows begin at the same column. begin: the first column that the last column attends to.
    memories: what each layer carries from token to token, beside columns, each tensor with a row for each sequence; the
    list belongs to this state alone, and its tensors are never changed. bits: of keys and values, 8; None for those of
    hidden states.
    """

    rows: int
    layers: int
    first: Tensor
    least: int = 0
    even: bool = True
    begin: int = 0
    columns: int = 0
    store: _Store = field(default_factory=lambda: _Store(0, []))
    memories: list[tuple[Tensor, ...] | None] = field(default_factory=list)
    bits: int | None = None

    @classmethod
    def empty(cls, rows: int, layers: int, device: torch.device | None = None, bits: int | None = None) -> Self:
        first = torch.zeros(rows, dtype=torch.int64, device=device)
        return cls(rows, layers, first, memories=[None] * layers, bits=bits)

    @property
    def longest(self) -> int:
        """The length of the longest row, in columns."""
        return self.columns - self.least

    def grown(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None, window: int | None, *, keep_inputs: bool
    ) -> tuple[Cache, Int64[Tensor, " T"], Int64[Tensor, "B T"] | None]:
        """Return the cache with room for the columns of x, these columns and, unless rows are even, the first column
        that each query attends to.

        starts: as for `Encoder`. keep_inputs: whether x is kept, too.
        """
        length = x.shape[1]
        cache = self if self.columns == self.store.written else self._copied(length)
        if cache.columns + length > cache.store.capacity:
            cache = self._copied(length)
        store, columns = cache.store, torch.arange(cache.columns, cache.columns + length, device=x.device)
        store.written = cache.columns + length
        if keep_inputs:
            if store.inputs is None:
                store.inputs = x.new_empty(self.rows, store.capacity, x.shape[2])
            store.inputs[:, cache.columns : store.written] = x
        first, least, even = cache.first, cache.least, cache.even
        visible_from: Tensor | None = None
        if starts is not None or not even:
            visible_from = first[:, None].expand(-1, length)
            if starts is not None:
                last_starts = torch.where(starts, columns, columns[0] - 1).cummax(1).values
                visible_from = torch.maximum(last_starts, visible_from)
                visible_from = torch.where(starts.cumsum(1) > 0, visible_from, first[:, None])
                first = visible_from[:, -1].contiguous()
                least, even = _lowest(first, least)
        begin = least if length == 1 else min(cache.least, least)
        if window is not None:
            begin = max(begin, cache.columns - window + 1)
        grown = replace(
            cache,
            first=first,
            least=least,
            even=even,
            begin=max(begin, 0),
            columns=store.written,
            store=store,
            memories=[*cache.memories],
        )
        return grown, columns, visible_from

    def before(self, columns: int, window: int | None) -> Cache:
        """Return the cache without its last columns, for the last column of which `begin` is chosen as by `grown`.

        It shares the store. What it appends is written to a copy, unless `give_up_rest` is called before.
        """
        begin = self.least if window is None else max(self.least, columns - window)
        return replace(self, columns=columns, begin=max(begin, 0))

    def give_up_rest(self) -> None:
        """Say that no state needs the columns after its own any more, so that others may be written there."""
        self.store.written = min(self.store.written, self.columns)

    def append(
        self, layer: int, key: Float[Tensor, "B K T d"], value: Float[Tensor, "B K T d"]
    ) -> tuple[Float[Tensor, "B K S d"], Float[Tensor, "B K S d"]]:
        """Write the last columns of a layer; return all columns that queries may attend to.

        In eight bits, both are the same rows, for `widened`.
        """
        length, width = key.shape[2:]
        buffer = self.buffer(layer, key.shape[1], width, like=key)
        new = buffer[:, :, self.columns - length : self.columns]
        visible = buffer[:, :, self.begin : self.columns]
        if self.bits is not None:
            new[:] = in_eight_bits(key, value)
            return visible, visible
        new[..., :width] = key
        new[..., width:] = value
        return visible[..., :width], visible[..., width:]

    def buffer(
        self, layer: int, heads: int, width: int, like: Tensor | None = None
    ) -> Shaped[Tensor, "B K capacity numbers"]:
        """Return the keys and values of a layer, where columns up to the state's last may be written.

        like: a tensor of their type and device; None for float32 of the processor.
        """
        buffer = self.store.layers[layer]
        if buffer is None:
            shape = self.rows, heads, self.store.capacity, 2 * width if self.bits is None else packed_width(2 * width)
            buffer = torch.empty(
                shape,
                dtype=torch.int8 if self.bits is not None else None if like is None else like.dtype,
                device=None if like is None else like.device,
            )
            self.store.layers[layer] = buffer
        return buffer

    def array(self, layer: int, heads: int, width: int) -> Shaped[ndarray, "B K capacity numbers"]:
        """Return `buffer` of the processor for kernels."""
        known = self.store.arrays.get(layer)
        if known is None:
            known = self.store.arrays[layer] = self.buffer(layer, heads, width).numpy()
        return known

    @property
    def can_share(self) -> bool:
        """Whether `share` can be taken: all layers have been written to, and none carries anything beside columns."""
        return None not in self.store.layers and self.memories == [None] * self.layers

    def share(self, rows: slice) -> Cache:
        """Return some of the rows, in the same store, where each layer may write the last columns; not for further
        columns.
        """
        layers = [None if buffer is None else buffer[rows] for buffer in self.store.layers]
        store = _Store(self.store.capacity, layers, None, self.store.written)
        first = self.first[rows]
        return replace(self, rows=len(first), first=first, store=store)

    def rows_of(self, length: int) -> Int64[Tensor, " rows"]:
        """Return the rows of that length."""
        return (self.columns - self.first == length).nonzero().flatten()

    def last_inputs(self, rows: Int64[Tensor, " rows"], length: int) -> Float[Tensor, "rows length D"]:
        """Return the last inputs of some rows."""
        assert self.store.inputs is not None
        return self.store.inputs[rows, self.columns - length : self.columns]

    def replaced(self, rows: Int64[Tensor, " rows"], fresh: Cache) -> Cache:
        """Return the cache with some rows replaced by those of `fresh`, which are not longer."""
        if len(rows) == self.rows:
            return fresh
        copy, length = self._copied(1), fresh.columns
        for mine, other in _buffers(copy.store, fresh.store):
            mine[rows, ..., copy.columns - length : copy.columns, :] = other[..., :length, :]
        first = copy.first.index_fill(0, rows, copy.columns - length)
        least, even = _lowest(first, copy.least)
        memories = [
            own
            if own is None or other is None
            else tuple(a.index_copy(0, rows, b) for a, b in zip(own, other, strict=True))
            for own, other in zip(copy.memories, fresh.memories, strict=True)
        ]
        return replace(copy, first=first, least=least, even=even, begin=max(least, 0), memories=memories)

    def select(self, rows: Int64[Tensor, " new_rows"]) -> Cache:
        """Implement `Memory.select`."""
        return self._copied(1, rows)

    @classmethod
    def join(cls, caches: Sequence[Cache]) -> Cache:
        """Implement `Memory.join`: the columns of shorter rows move to the right, so that all rows end at the
        same one.
        """
        used = [cache.columns - cache._needed for cache in caches]
        columns, row_count = max(used), sum(cache.rows for cache in caches)

        def joined(buffers: Sequence[Tensor | None]) -> Tensor | None:
            written = [buffer for buffer in buffers if buffer is not None]
            if not written:
                return None
            fresh = written[0].new_zeros(row_count, *written[0].shape[1:-2], columns + _FEW, written[0].shape[-1])
            row = 0
            for cache, buffer, length in zip(caches, buffers, used, strict=True):
                if buffer is not None:
                    old = buffer[..., cache._needed : cache.columns, :]
                    fresh[row : row + cache.rows, ..., columns - length : columns, :] = old
                row += cache.rows
            return fresh

        layers = caches[0].layers
        by_layer = zip(*(cache.store.layers or [None] * layers for cache in caches), strict=True)
        store = _Store(
            columns + _FEW,
            [joined(buffers) for buffers in by_layer],
            joined([cache.store.inputs for cache in caches]),
            columns,
        )
        shifts = [columns - cache.columns for cache in caches]
        first = torch.cat([cache.first + shift for cache, shift in zip(caches, shifts, strict=True)])
        begin = min(cache.begin + shift for cache, shift in zip(caches, shifts, strict=True))
        memories = [
            _joined_memories(parts, [cache.rows for cache in caches])
            for parts in zip(*(cache.memories for cache in caches), strict=True)
        ]
        return cls(row_count, layers, first, *_lowest(first, 0), begin, columns, store, memories, caches[0].bits)

    def detach(self) -> Cache:
        """Implement `Memory.detach`; this cache is not used any more."""
        layers = [None if buffer is None else buffer.detach() for buffer in self.store.layers]
        inputs = None if self.store.inputs is None else self.store.inputs.detach()
        return replace(
            self,
            store=replace(self.store, layers=layers, inputs=inputs),
            memories=[detach(memory) for memory in self.memories],
        )

    def _copied(self, more: int, rows: Int64[Tensor, " new_rows"] | None = None) -> Cache:
        """Return a copy in its own store, without columns that no row needs, with room for twice as many or `more`
        others.
        """
        needed = self._needed
        used = self.columns - needed
        # A beam selects at every step, so that more room would be wasted.
        capacity = max(_LEAST, 2 * used, used + more) if rows is None else used + _FEW
        row_count = self.rows if rows is None else len(rows)

        def copied(buffer: Tensor | None) -> Tensor | None:
            if buffer is None:
                return None
            old = buffer[..., needed : self.columns, :]
            fresh = buffer.new_empty(row_count, *buffer.shape[1:-2], capacity, buffer.shape[-1])
            if rows is None:
                fresh[..., :used, :] = old
            else:
                torch.index_select(old, 0, rows, out=fresh[..., :used, :])  # one pass, without a copy in between
            return fresh

        layers = [copied(buffer) for buffer in self.store.layers] or [None] * self.layers
        first = (self.first if rows is None else self.first[rows]) - needed
        least, even = self.least - needed, self.even
        if rows is not None and not even:
            least, even = _lowest(first, least)
        store = _Store(capacity, layers, copied(self.store.inputs), used)
        memories = self.memories if rows is None else [select(memory, rows) for memory in self.memories]
        begin = self.begin - needed
        return Cache(row_count, self.layers, first, least, even, begin, used, store, memories, self.bits)

    @property
    def _needed(self) -> int:
        """The first column that some row needs."""
        return self.begin if self.store.inputs is None else max(self.least, 0)


def in_eight_bits(key: Float[Tensor, "*shape d"], value: Float[Tensor, "*shape d"]) -> Int8[Tensor, "*shape bytes"]:
    """Return keys beside their values as `matrix_products.pack` rounds rows. d must be a multiple of 32."""
    both = torch.cat((key, value), -1)
    return pack(both.reshape(-1, both.shape[-1])).view(*both.shape[:-1], -1)


def widened(
    key: Tensor, value: Tensor, dtype: torch.dtype
) -> tuple[Float[Tensor, "*shape d"], Float[Tensor, "*shape d"]]:
    """Return keys and values as numbers: as given, or where both are what `in_eight_bits` gives, unpacked."""
    if key.dtype != torch.int8:
        return key, value
    both = unpack(key).to(dtype)
    width = both.shape[-1] // 2
    return both[..., :width], both[..., width:]


def _joined_memories(parts: Sequence[tuple[Tensor, ...] | None], rows: Sequence[int]) -> tuple[Tensor, ...] | None:
    """Return the memories of some states one after the other; zeros for states that have read nothing."""
    known = next((part for part in parts if part is not None), None)
    if known is None:
        return None
    filled = [
        tuple(tensor.new_zeros(count, *tensor.shape[1:]) for tensor in known) if part is None else part
        for part, count in zip(parts, rows, strict=True)
    ]
    return tuple(torch.cat(tensors) for tensors in zip(*filled, strict=True))


def _lowest(first: Int64[Tensor, " B"], otherwise: int) -> tuple[int, bool]:
    """Return the lowest of the rows' first columns (`otherwise` without rows), and whether all are the same."""
    if not first.numel():
        return otherwise, True
    low, high = (int(column) for column in first.aminmax())
    return low, low == high


def _buffers(mine: _Store, other: _Store) -> list[tuple[Tensor, Tensor]]:
    """Return the buffers that both stores have."""
    pairs = zip([*mine.layers, mine.inputs], [*other.layers, other.inputs], strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


class Memory(Protocol):
    """A leaf of a state that is more than one tensor. Its methods do not change it."""

    def select(self, rows: Int64[Tensor, " new_rows"]) -> Self:
        """Copy, repeat or drop rows."""

    @classmethod
    def join(cls, memories: Sequence[Self]) -> Self:
        """Return the rows of one memory after the other."""

    def detach(self) -> Self:
        """Return the same values without gradients."""


State = Tensor | Memory | tuple["State", ...] | None
S = TypeVar("S", bound=State)


def select(state: S, rows: Int64[Tensor, " new_rows"]) -> S:
    """Copy, repeat or drop rows; the given state stays usable."""
    if isinstance(state, tuple):
        return cast("S", tuple(select(part, rows) for part in state))
    if isinstance(state, Tensor):
        return cast("S", state.index_select(0, rows))
    return state if state is None else cast("S", state.select(rows))


def join(states: Sequence[S]) -> S:
    """Return the rows of one state after the other; the given states stay usable."""
    first = states[0]
    if isinstance(first, tuple):
        return cast("S", tuple(join(parts) for parts in zip(*cast("Sequence[tuple[State, ...]]", states), strict=True)))
    if isinstance(first, Tensor):
        return cast("S", torch.cat(cast("list[Tensor]", list(states))))
    return first if first is None else cast("S", type(first).join(cast("Sequence[Any]", states)))


def detach(state: S) -> S:
    """Return the same values without gradients, for training that continues in a stream."""
    if isinstance(state, tuple):
        return cast("S", tuple(detach(part) for part in state))
    return state if state is None else cast("S", state.detach())
