"""The objective of classifiers: -log P(label) of each unit of an input, be it a text, a tree or a picture.

Nothing here knows what inputs are: the network says how much of one it reads. Legend: C labels.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.errors import SettingError
from chainrule.neural.scoring_batches import batched
from chainrule.training.objective import Validated
from chainrule.training.validation import unigram_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.training.job import Setup

_TOGETHER = 1 << 14  # the size of what is read at once, filled up
_SORTED = 16  # batches among which inputs of about the same size are looked for

I = TypeVar("I")  # noqa: E741
Read = TypeVar("Read", contravariant=True)


class LabelNetwork(Protocol[Read]):
    """A torch module that labels inputs."""

    labels: tuple[str, ...]

    def __call__(self, inputs: Sequence[Read]) -> Tensor:
        """(units of all inputs, C), which a softmax turns into probabilities."""

    def log_probs(self, inputs: Sequence[Read]) -> list[Float32[ndarray, "units C"]]:
        """log P(label) of each unit of each input; without gradients."""

    def size(self, item: Read) -> int:
        """How much of an input is read, such as tokens, nodes or cells; at least 1."""

    def matrices(self) -> list[nn.Parameter]:
        """The hidden matrices, for Muon."""


class Example(NamedTuple, Generic[I]):
    """An input, and the index of the label of each of its units."""

    input: I
    labels: Int64[ndarray, " units"]


@dataclass(frozen=True)
class LabelData(Generic[I]):
    """Examples to learn from, and examples to validate on, of which there may be none."""

    learnt: Sequence[Example[I]]
    kept: Sequence[Example[I]]

    def as_json(self) -> dict[str, Any]:
        """What tells these examples from others."""
        return {
            "tokens": len(self.learnt),
            "ids": _digest_of(self.learnt),
            "validation_tokens": len(self.kept),
            "validation": _digest_of(self.kept),
        }


def split(examples: Sequence[Example[I]], valid_share: float, seed: int) -> LabelData[I]:
    """Keeps a share of the examples to validate on, by chance; every label stays among those to learn from."""
    order = np.random.default_rng(seed).permutation(len(examples)).tolist()
    learnt: list[Example[I]] = []
    kept: list[Example[I]] = []
    seen: set[int] = set()
    wanted = int(valid_share * len(examples))
    for i in reversed(order):
        labels = set(examples[i].labels.tolist())
        if labels <= seen and len(kept) < wanted:
            kept.append(examples[i])
        else:
            learnt.append(examples[i])
            seen |= labels
    return LabelData(learnt, kept)


def steps_in_epoch(examples: int, batch: int) -> int:
    """So many that none has fewer examples than a batch, where there are enough."""
    return max(1, examples // batch)


class AlikeBatches:
    """Which examples make which step: a pure function of its index.

    Inputs of about the same size are read together, so that little is filled up; each epoch has other batches, in
    random order.
    """

    def __init__(self, sizes: Int64[ndarray, " examples"], batch: int, seed: int) -> None:
        """sizes: how much is read of each example. batch: examples in a step, about."""
        steps = steps_in_epoch(sizes.size, batch)
        self.sizes, self.seed = sizes, seed
        self.edges = np.arange(steps + 1) * sizes.size // steps
        self._epochs: dict[int, tuple[Int64[ndarray, " examples"], Int64[ndarray, " batches"]]] = {}

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self.edges.size - 1

    def examples(self, step: int) -> Int64[ndarray, " batch"]:
        """The indices of those of a step."""
        order, batches = self._epoch(step // len(self))
        i = batches[step % len(self)]
        return order[self.edges[i] : self.edges[i + 1]]

    def tokens(self, steps: int) -> int:
        """How much is read in the first so many steps."""
        epochs, rest = divmod(steps, len(self))
        read = epochs * int(self.sizes.sum())
        if rest:
            order, batches = self._epoch(epochs)
            read += int(np.add.reduceat(self.sizes[order], self.edges[:-1])[batches[:rest]].sum())
        return read

    def _epoch(self, epoch: int) -> tuple[Int64[ndarray, " examples"], Int64[ndarray, " batches"]]:
        """The order of an epoch's examples, which are cut at the edges, and that of the batches."""
        if epoch not in self._epochs:
            chance = np.random.default_rng([self.seed, epoch])
            order = chance.permutation(self.sizes.size)
            groups = np.repeat(np.arange(len(self)) // _SORTED, np.diff(self.edges))
            order = order[np.lexsort((self.sizes[order], groups))]
            self._epochs = {epoch: (order, chance.permutation(len(self)))}
        return self._epochs[epoch]


class Part(NamedTuple, Generic[I]):
    """Some inputs of a step."""

    inputs: list[I]
    targets: Tensor  # (units of all inputs,), the indices of their labels


class LabelObjective(Generic[I]):
    """An Objective: -log P(label), of each unit of each input.

    `tokens` counts what the network reads, in units of its `size`. A process goes through its share of a step a few
    inputs at a time, so that large ones do not fill the memory.
    """

    def __init__(self, network: LabelNetwork[I], setup: Setup, data: LabelData[I]) -> None:
        """Raises SettingError where a step cannot be shared out."""
        self.network, self.setup, self.data = network, setup, data
        self.shares = setup.processes.number * setup.training.accumulate
        if min(setup.recipe.batch, len(data.learnt)) < self.shares:
            raise SettingError(
                f"a batch of {setup.recipe.batch} of {len(data.learnt):,} examples cannot be shared among "
                f"{self.shares} parts of a step, one for each process and each that accumulate asks for; use fewer"
            )
        sizes, kept = (
            np.array([network.size(each.input) for each in side], np.int64) for side in (data.learnt, data.kept)
        )
        self.batches = AlikeBatches(sizes, setup.recipe.batch, setup.training.seed)
        self.epoch = int(sizes.sum())
        self.flops_per_token = float(sum((6 if w.requires_grad else 2) * w.numel() for w in network.matrices()))
        self.row_tokens = float(sizes.mean())
        self.validation_tokens = int(kept.sum())

    def tokens(self, steps: int) -> int:
        return self.batches.tokens(steps)

    def parts(self, step: int) -> list[Part[I]]:
        rank, accumulate = self.setup.processes.rank, self.setup.training.accumulate
        chosen = self.batches.examples(step)
        return [
            self._part(some)
            for part in range(accumulate)
            for some in batched(
                sorted((self.data.learnt[i] for i in chosen[rank * accumulate + part :: self.shares]), key=self._order),
                lambda example: self.network.size(example.input),
                _TOGETHER,
            )
        ]

    def weight(self, step: int) -> float:
        """The labels of all processes."""
        return max(1, sum(self.data.learnt[i].labels.size for i in self.batches.examples(step)))

    def loss(self, number: int, part: Part[I], forward: Callable[..., Any], done: float) -> Tensor:
        smoothing = self.setup.training.label_smoothing
        scores = forward(part.inputs).float()
        return F.cross_entropy(scores, part.targets, reduction="sum", label_smoothing=smoothing)

    def carried(self) -> list[Tensor]:
        return []

    def carry(self, tensors: list[Tensor]) -> None:
        """Nothing is carried from step to step."""

    def validated(self, tokens: int) -> Validated:
        """With the share of labels that are right, as `accuracy`."""
        kept, processes = self.data.kept, self.setup.processes
        count = max(1, len(kept) * min(tokens, self.validation_tokens) // self.validation_tokens)
        chosen = (np.arange(count) * len(kept) // count).tolist()
        own = [kept[i] for i in chosen[processes.rank :: processes.number]]
        nats, right = 0.0, 0
        if own:
            with self.setup.machine.precision():
                log_probs = np.concatenate(self.network.log_probs([example.input for example in own]))
            labels = np.concatenate([example.labels for example in own])
            nats = -float(log_probs[np.arange(labels.size), labels].sum(dtype=np.float64))
            right = int(np.count_nonzero(log_probs.argmax(1) == labels))
        total = torch.tensor([nats, right, sum(example.labels.size for example in own)], dtype=torch.float64)
        processes.add([total])
        nats, right, labels_read = total.tolist()
        figures = {"accuracy": right / max(1, labels_read), "examples": count}
        return Validated(nats / max(1, labels_read), int(labels_read), figures)

    def unigram_loss(self) -> float:
        learnt, kept = (np.concatenate([each.labels for each in side]) for side in (self.data.learnt, self.data.kept))
        return unigram_loss(np.bincount(learnt, minlength=len(self.network.labels)), kept)

    def _part(self, examples: Sequence[Example[I]]) -> Part[I]:
        labels = torch.from_numpy(np.concatenate([example.labels for example in examples]))
        return Part([example.input for example in examples], labels.to(self.setup.machine.device, non_blocking=True))

    def _order(self, example: Example[I]) -> int:
        """The largest first."""
        return -self.network.size(example.input)


def _digest_of(value: object) -> str:
    """What tells examples from others: arrays, numbers and strings, in sequences of any depth."""
    digest = hashlib.sha256()

    def read(value: object) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        elif isinstance(value, tuple | list):
            digest.update(f"{len(value)}[".encode())
            for item in value:
                read(item)
        else:
            digest.update(f"{value!r};".encode())

    read(value)
    return digest.hexdigest()[:16]
