"""Which examples each training step reads: windows of a stream of ids, or batches of inputs of similar size.

The order is a pure function of the step, so that checkpoints need not store it. A stream has </s> after each document;
the input for token i is token i - 1, and </s> for the first. Ids may be memory-mapped: only what a step needs is read.
Batches are divided among processes and into parts. `ExampleObjective` is what objectives over such inputs share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.training.job import StatelessObjective

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.training.job import Setup

E = TypeVar("E")


class Rows(NamedTuple):
    """The tokens that a step reads, those that it predicts, and where."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]
    positions: Int64[ndarray, "B T"]  # of the targets in the stream


class ShuffledWindows:
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
        """Return the order of an epoch's windows, and where the first one begins in the text."""
        if epoch not in self._epochs:
            rng = np.random.default_rng([self.seed, epoch])
            offsets = min(self.length, self.stream.size - self.windows * self.length + 1)
            self._epochs = {epoch: (rng.permutation(self.windows), int(rng.integers(offsets)))}
        return self._epochs[epoch]


@dataclass(frozen=True)
class ContiguousBatches:
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
    positions %= stream.size
    ids = stream[positions].astype(np.int64)
    return Rows(ids[:, :-1], ids[:, 1:], positions[:, 1:])


def check_long_enough(stream: Int32[ndarray, " tokens"], length: int) -> None:
    """Raise TextError if the text is shorter than one row."""
    if stream.size < length:
        raise TextError(
            f"the text has {stream.size:,} tokens, fewer than a row of {length:,}; give more text, or set row_tokens "
            "to fewer"
        )


class MicroBatch(NamedTuple):
    """Some rows of a text that is read once."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]
    positions: Int64[ndarray, "B T"]  # of the targets in the text
    continues: bool  # whether the rows continue those of the part before


def blocks(stream: Int32[ndarray, " tokens"], length: int, rows: int, tokens: int) -> Iterator[MicroBatch]:
    """Yield a text in independent blocks of equal length; the last one is the remainder.

    tokens: if the text has more, only some blocks are read: evenly spaced, at least one.
    """
    whole = stream.size // length * length
    starts = np.arange(0, whole, length)
    is_sample = tokens < stream.size and starts.size > 0
    if is_sample:
        count = min(starts.size, max(1, tokens // length))
        starts = starts[np.arange(count) * starts.size // count]
    for first in range(0, starts.size, rows):
        yield MicroBatch(*_rows(stream, starts[first : first + rows], length), continues=False)
    if whole < stream.size and not is_sample:
        yield MicroBatch(*_rows(stream, np.array([whole]), stream.size - whole), continues=False)


def lanes(stream: Int32[ndarray, " tokens"], length: int, rows: int, tokens: int) -> Iterator[MicroBatch]:
    """Yield a text in a few rows that continue from part to part; the remainder follows as one row.

    tokens: if the text has more, only the beginning of each row is read.
    """
    apart = stream.size // rows
    starts = np.arange(rows) * apart
    is_sample = tokens < stream.size
    size = min(apart, max(1, tokens // rows)) if is_sample else apart
    for first in range(0, size, length):
        yield MicroBatch(*_rows(stream, starts + first, min(length, size - first)), continues=first > 0)
    if rows * apart < stream.size and not is_sample:
        yield MicroBatch(*_rows(stream, np.array([rows * apart]), stream.size - rows * apart), continues=False)


_SORTED_BATCHES = 16  # this many batches are sorted by size together


def steps_in_epoch(examples: int, batch: int) -> int:
    """Return the most steps in which each has at least `batch` examples; at least one."""
    return max(1, examples // batch)


class SortedBatches:
    """The examples of each step: a pure function of its index.

    A batch has inputs of similar size, so that little is padded; each epoch has other batches, in random order.
    """

    def __init__(self, sizes: Int64[ndarray, " examples"], batch: int, seed: int) -> None:
        """Divide the examples into steps. sizes: of the examples. batch: about this many examples per step."""
        steps = steps_in_epoch(sizes.size, batch)
        self.sizes, self.seed = sizes, seed
        self.edges = np.arange(steps + 1) * sizes.size // steps
        self._epochs: dict[int, tuple[Int64[ndarray, " examples"], Int64[ndarray, " batches"]]] = {}

    def __len__(self) -> int:
        """Return the number of steps in an epoch."""
        return self.edges.size - 1

    def examples(self, step: int) -> Int64[ndarray, " batch"]:
        """Return the indices of a step's examples."""
        order, batches = self._epoch(step // len(self))
        i = batches[step % len(self)]
        return order[self.edges[i] : self.edges[i + 1]]

    def tokens(self, steps: int) -> int:
        """Return the total size of the inputs of the first `steps` steps."""
        epochs, rest = divmod(steps, len(self))
        read = epochs * int(self.sizes.sum())
        if rest:
            order, batches = self._epoch(epochs)
            read += int(np.add.reduceat(self.sizes[order], self.edges[:-1])[batches[:rest]].sum())
        return read

    def _epoch(self, epoch: int) -> tuple[Int64[ndarray, " examples"], Int64[ndarray, " batches"]]:
        """Return the order of an epoch's examples, which the edges cut into batches, and the order of these batches."""
        if epoch not in self._epochs:
            rng = np.random.default_rng([self.seed, epoch])
            order = rng.permutation(self.sizes.size)
            groups = np.repeat(np.arange(len(self)) // _SORTED_BATCHES, np.diff(self.edges))
            order = order[np.lexsort((self.sizes[order], groups))]
            self._epochs = {epoch: (order, rng.permutation(len(self)))}
        return self._epochs[epoch]


class SharedBatches(SortedBatches):
    """SortedBatches, divided among the processes of a run, and for each process into the parts of a step."""

    def __init__(self, sizes: Int64[ndarray, " examples"], setup: Setup, inputs: str) -> None:
        """Divide the examples among processes and parts.

        inputs: their name, in the plural, for messages. Raises SettingError if a step cannot be divided.
        """
        self._first, self._accumulate = setup.processes.rank * setup.training.accumulate, setup.training.accumulate
        self._shares = setup.processes.number * setup.training.accumulate
        if min(setup.recipe.batch, sizes.size) < self._shares:
            raise SettingError(
                f"a batch of {setup.recipe.batch} of {sizes.size:,} {inputs} cannot be divided into {self._shares} "
                "parts, accumulate for each process; use fewer"
            )
        super().__init__(sizes, setup.recipe.batch, setup.training.seed)

    def own_parts(self, step: int) -> list[list[int]]:
        """Return the indices of this process's examples of a step, for each part."""
        chosen = self.examples(step).tolist()
        return [chosen[self._first + part :: self._shares] for part in range(self._accumulate)]


class ExampleObjective(StatelessObjective, ABC, Generic[E]):
    """An Objective that learns from examples: a step reads some of similar size."""

    def __init__(
        self,
        setup: Setup,
        examples: Sequence[E],
        held_out: Sequence[E],
        name: str,
        *,
        size: Callable[[E], int],
        predictions: Callable[[E], int],
        flops_per_token: float,
    ) -> None:
        """Prepare the examples.

        name: that of the inputs, in the plural, for messages. size: of an example, in tokens, nodes or cells.
        predictions: how many losses an example has. Raises SettingError if a step cannot be divided.
        """
        self.setup, self.examples, self.held_out, self.predictions = setup, examples, held_out, predictions
        sizes = np.array([size(example) for example in examples], np.int64)
        self.batches = SharedBatches(sizes, setup, name)
        self.epoch, self.row_tokens = int(sizes.sum()), float(sizes.mean())
        self.flops_per_token, self.validation_tokens = flops_per_token, sum(map(size, held_out))

    def tokens(self, steps: int) -> int:
        return self.batches.tokens(steps)

    def parts(self, step: int) -> list[Any]:
        return [part for own in self.batches.own_parts(step) for part in self.cut([self.examples[i] for i in own])]

    def weight(self, step: int) -> float:
        return max(1, sum(self.predictions(self.examples[i]) for i in self.batches.examples(step)))

    def sample(self, tokens: int) -> list[E]:
        """Return evenly spread held-out examples of about this many tokens; at least one."""
        count = max(1, len(self.held_out) * min(tokens, self.validation_tokens) // self.validation_tokens)
        return [self.held_out[i] for i in (np.arange(count) * len(self.held_out) // count).tolist()]

    @abstractmethod
    def cut(self, examples: Sequence[E]) -> list[Any]:
        """Return examples in parts that fit into memory."""
