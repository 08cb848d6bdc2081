"""The examples of each step, in batches of inputs of similar size, and their division among processes and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.training.job import Setup

_SORTED_BATCHES = 16  # this many batches are sorted by size together


def steps_in_epoch(examples: int, batch: int) -> int:
    """The most steps in which each has at least `batch` examples; at least one."""
    return max(1, examples // batch)


class SortedBatches:
    """The examples of each step: a pure function of its index.

    A batch has inputs of similar size, so that little is padded; each epoch has other batches, in random order.
    """

    def __init__(self, sizes: Int64[ndarray, " examples"], batch: int, seed: int) -> None:
        """sizes: of the examples. batch: about this many examples per step."""
        steps = steps_in_epoch(sizes.size, batch)
        self.sizes, self.seed = sizes, seed
        self.edges = np.arange(steps + 1) * sizes.size // steps
        self._epochs: dict[int, tuple[Int64[ndarray, " examples"], Int64[ndarray, " batches"]]] = {}

    def __len__(self) -> int:
        """Steps in an epoch."""
        return self.edges.size - 1

    def examples(self, step: int) -> Int64[ndarray, " batch"]:
        """The indices of a step's examples."""
        order, batches = self._epoch(step // len(self))
        i = batches[step % len(self)]
        return order[self.edges[i] : self.edges[i + 1]]

    def tokens(self, steps: int) -> int:
        """The total size of the inputs of the first `steps` steps."""
        epochs, rest = divmod(steps, len(self))
        read = epochs * int(self.sizes.sum())
        if rest:
            order, batches = self._epoch(epochs)
            read += int(np.add.reduceat(self.sizes[order], self.edges[:-1])[batches[:rest]].sum())
        return read

    def _epoch(self, epoch: int) -> tuple[Int64[ndarray, " examples"], Int64[ndarray, " batches"]]:
        """The order of an epoch's examples, which the edges cut into batches, and the order of these batches."""
        if epoch not in self._epochs:
            rng = np.random.default_rng([self.seed, epoch])
            order = rng.permutation(self.sizes.size)
            groups = np.repeat(np.arange(len(self)) // _SORTED_BATCHES, np.diff(self.edges))
            order = order[np.lexsort((self.sizes[order], groups))]
            self._epochs = {epoch: (order, rng.permutation(len(self)))}
        return self._epochs[epoch]


class SharedBatches(SortedBatches):
    """The same, divided among the processes of a run, and for each into the parts of a step."""

    def __init__(self, sizes: Int64[ndarray, " examples"], setup: Setup, inputs: str) -> None:
        """inputs: what they are, in the plural. Raises SettingError if a step cannot be divided."""
        self._first, self._accumulate = setup.processes.rank * setup.training.accumulate, setup.training.accumulate
        self._shares = setup.processes.number * setup.training.accumulate
        if min(setup.recipe.batch, sizes.size) < self._shares:
            raise SettingError(
                f"a batch of {setup.recipe.batch} of {sizes.size:,} {inputs} cannot be divided into {self._shares} "
                "parts, accumulate for each process; use fewer"
            )
        super().__init__(sizes, setup.recipe.batch, setup.training.seed)

    def own_parts(self, step: int) -> list[list[int]]:
        """The indices of this process's examples of a step, for each part."""
        chosen = self.examples(step).tolist()
        return [chosen[self._first + part :: self._shares] for part in range(self._accumulate)]
