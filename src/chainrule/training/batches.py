"""The order in which training reads a text: a pure function of the step, so that checkpoints need not store it.

A text is one stream of ids with </s> after each document. The input for token i is token i - 1, and </s> for the
first. Ids may be memory-mapped: only what a step needs is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Int32, Int64
    from numpy import ndarray


class Rows(NamedTuple):
    """The tokens that a step reads, and those that it predicts."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]


class Batches(Protocol):
    """Cuts a text into the rows of each step."""

    batch: int
    length: int

    def rows(self, step: int, first: int, last: int) -> Rows:
        """Rows `first` to `last` of a step, so that processes can share them."""


class Windows:
    """Independent rows: each epoch cuts the text at other positions and reads the windows in another order.

    Epochs follow one another without a gap: one step may end an epoch and begin the next.
    """

    def __init__(self, stream: Int32[ndarray, " tokens"], batch: int, length: int, seed: int) -> None:
        self.stream, self.batch, self.length, self.seed = stream, batch, length, seed
        self.windows = max(1, (stream.size - length + 1) // length)  # in an epoch
        self._epochs: dict[int, tuple[Int64[ndarray, " windows"], int]] = {}

    def rows(self, step: int, first: int, last: int) -> Rows:
        indices = np.arange(step * self.batch + first, step * self.batch + last)
        starts = np.empty(indices.size, np.int64)
        for epoch in np.unique(indices // self.windows).tolist():
            order, phase = self._epoch(epoch)
            in_epoch = indices // self.windows == epoch
            starts[in_epoch] = order[indices[in_epoch] % self.windows] * self.length + phase
        return _rows(self.stream, starts, self.length)

    def _epoch(self, epoch: int) -> tuple[Int64[ndarray, " windows"], int]:
        """The order of an epoch's windows, and where the first one begins in the text."""
        if epoch not in self._epochs:
            rng = np.random.default_rng([self.seed, epoch])
            offsets = min(self.length, self.stream.size - self.windows * self.length + 1)
            self._epochs = {epoch: (rng.permutation(self.windows), int(rng.integers(offsets)))}
        return self._epochs[epoch]


@dataclass(frozen=True)
class Lanes:
    """Rows that continue where they ended in the step before, so that a network's state can be carried over.

    Row b begins b / B into the text; at the end of the text, rows continue at its start.
    """

    stream: Int32[ndarray, " tokens"]
    batch: int
    length: int

    def rows(self, step: int, first: int, last: int) -> Rows:
        starts = np.arange(first, last) * self.stream.size // self.batch + step * self.length
        return _rows(self.stream, starts % self.stream.size, self.length)


def _rows(stream: Int32[ndarray, " tokens"], starts: Int64[ndarray, " B"], length: int) -> Rows:
    positions = starts[:, None] + np.arange(-1, length)  # (B, T + 1); -1 is the text's last token, which is </s>
    ids = stream[positions % stream.size].astype(np.int64)
    return Rows(ids[:, :-1], ids[:, 1:])


def check_long_enough(stream: Int32[ndarray, " tokens"], length: int) -> None:
    """Raises TextError if the text is shorter than one row."""
    if stream.size < length:
        raise TextError(
            f"the text has {stream.size:,} tokens, fewer than the context of {length:,}; give more text, or a shorter "
            "context"
        )


class Part(NamedTuple):
    """Some rows of a text that is read once."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]
    continues: bool  # whether the rows continue those of the part before


def blocks(stream: Int32[ndarray, " tokens"], length: int, rows: int, tokens: int) -> Iterator[Part]:
    """A text in independent blocks; the last one is the remainder.

    tokens: if the text has more, only some blocks are read: evenly spaced, at least one.
    """
    whole = stream.size // length * length
    starts = np.arange(0, whole, length)
    is_sample = tokens < stream.size and starts.size > 0
    if is_sample:
        count = min(starts.size, max(1, tokens // length))
        starts = starts[np.arange(count) * starts.size // count]
    for first in range(0, starts.size, rows):
        yield Part(*_rows(stream, starts[first : first + rows], length), continues=False)
    if whole < stream.size and not is_sample:
        yield Part(*_rows(stream, np.array([whole]), stream.size - whole), continues=False)


def lanes(stream: Int32[ndarray, " tokens"], length: int, rows: int, tokens: int) -> Iterator[Part]:
    """A text in a few rows that continue from part to part; the remainder follows as one row.

    tokens: if the text has more, only the beginning of each row is read.
    """
    apart = stream.size // rows
    starts = np.arange(rows) * apart
    is_sample = tokens < stream.size
    size = min(apart, max(1, tokens // rows)) if is_sample else apart
    for first in range(0, size, length):
        yield Part(*_rows(stream, starts + first, min(length, size - first)), continues=first > 0)
    if rows * apart < stream.size and not is_sample:
        yield Part(*_rows(stream, np.array([rows * apart]), stream.size - rows * apart), continues=False)
