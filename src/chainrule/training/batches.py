"""The order in which a text is seen: a pure function of the step, so that nothing of it has to be saved.

A text is one stream of ids with </s> after each document. What is read before token i is token i - 1, and </s> before
the first. Ids may be mapped from a file: only what a step needs is read.
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
    """What a step reads, and what it is to predict."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]


class Batches(Protocol):
    """A text in rows."""

    batch: int
    length: int

    def rows(self, step: int, first: int, last: int) -> Rows:
        """Rows `first` to `last` of a step, so that processes can share them."""


class Windows:
    """Rows that know nothing of one another: each epoch, the text is cut at other places, in another order.

    The steps go through the epochs' orders one after the other, and a step may lie across the end of one.
    """

    def __init__(self, stream: Int32[ndarray, " tokens"], batch: int, length: int, seed: int) -> None:
        self.stream, self.batch, self.length, self.seed = stream, batch, length, seed
        self.windows = max(1, (stream.size - length + 1) // length)  # in an epoch
        self._epochs: dict[int, tuple[Int64[ndarray, " windows"], int]] = {}

    def rows(self, step: int, first: int, last: int) -> Rows:
        numbers = np.arange(step * self.batch + first, step * self.batch + last)
        starts = np.empty(numbers.size, np.int64)
        for epoch in np.unique(numbers // self.windows).tolist():
            order, phase = self._epoch(epoch)
            here = numbers // self.windows == epoch
            starts[here] = order[numbers[here] % self.windows] * self.length + phase
        return _rows(self.stream, starts, self.length)

    def _epoch(self, epoch: int) -> tuple[Int64[ndarray, " windows"], int]:
        """The order of an epoch's windows, and where the first begins."""
        if epoch not in self._epochs:
            chance = np.random.default_rng([self.seed, epoch])
            room = min(self.length, self.stream.size - self.windows * self.length + 1)
            self._epochs = {epoch: (chance.permutation(self.windows), int(chance.integers(room)))}
        return self._epochs[epoch]


@dataclass(frozen=True)
class Lanes:
    """Rows that go on where they ended in the step before, so that a network's state can be carried.

    Row b begins b / B into the text; all go round it for ever.
    """

    stream: Int32[ndarray, " tokens"]
    batch: int
    length: int

    def rows(self, step: int, first: int, last: int) -> Rows:
        starts = np.arange(first, last) * self.stream.size // self.batch + step * self.length
        return _rows(self.stream, starts % self.stream.size, self.length)


def _rows(stream: Int32[ndarray, " tokens"], starts: Int64[ndarray, " B"], length: int) -> Rows:
    places = starts[:, None] + np.arange(-1, length)  # (B, T + 1); -1 is the text's last token, which is </s>
    ids = stream[places % stream.size].astype(np.int64)
    return Rows(ids[:, :-1], ids[:, 1:])


def check_long_enough(stream: Int32[ndarray, " tokens"], length: int) -> None:
    """Raises TextError where a text is shorter than one row."""
    if stream.size < length:
        raise TextError(
            f"the text has {stream.size:,} tokens, fewer than the {length:,} that are seen at once; "
            "give more text, or a shorter context"
        )


class Part(NamedTuple):
    """Some rows of a text that is gone through once."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]
    goes_on: bool  # whether the rows go on where those of the part before ended


def blocks(stream: Int32[ndarray, " tokens"], length: int, rows: int, tokens: int) -> Iterator[Part]:
    """A text in blocks that know nothing of one another, the last as long as the rest of the text.

    tokens: with fewer than the text has, these are some of its blocks, evenly spaced, one at least.
    """
    whole = stream.size // length * length
    starts = np.arange(0, whole, length)
    is_sample = tokens < stream.size and starts.size > 0
    if is_sample:
        number = min(starts.size, max(1, tokens // length))
        starts = starts[np.arange(number) * starts.size // number]
    for first in range(0, starts.size, rows):
        yield Part(*_rows(stream, starts[first : first + rows], length), goes_on=False)
    if whole < stream.size and not is_sample:
        yield Part(*_rows(stream, np.array([whole]), stream.size - whole), goes_on=False)


def lanes(stream: Int32[ndarray, " tokens"], length: int, rows: int, tokens: int) -> Iterator[Part]:
    """A text in a few rows that go on from part to part, and what does not fit them as one row at the end.

    tokens: with fewer than the text has, these are the beginnings of those rows.
    """
    apart = stream.size // rows
    starts = np.arange(rows) * apart
    is_sample = tokens < stream.size
    size = min(apart, max(1, tokens // rows)) if is_sample else apart
    for first in range(0, size, length):
        yield Part(*_rows(stream, starts + first, min(length, size - first)), goes_on=first > 0)
    if rows * apart < stream.size and not is_sample:
        yield Part(*_rows(stream, np.array([rows * apart]), stream.size - rows * apart), goes_on=False)
