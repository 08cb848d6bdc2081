"""The objective of classifiers: -log P(label) of each unit of an input, be it a text, a tree or a picture; of a rating,
the divergence of the predicted distribution from it.

Nothing here knows what an input is: the network says how large each one is. Legend: C labels.
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
from chainrule.training.objective import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int64
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.neural.labelling.boxes import BoxRows
    from chainrule.training.job import Setup

_MAX_PADDED_SIZE = 1 << 14  # of the inputs that the network reads at once, padding included
_SORTED_BATCHES = 16  # this many batches are sorted by size together

I = TypeVar("I")  # noqa: E741
I_contra = TypeVar("I_contra", contravariant=True)


class LabelNetwork(Protocol[I_contra]):
    """A torch module that labels the units of inputs."""

    labels: tuple[str, ...]

    def __call__(self, inputs: Sequence[I_contra]) -> Tensor:
        """Logits, (units of all inputs, C)."""

    def log_probs(self, inputs: Sequence[I_contra]) -> list[Float32[ndarray, "units C"]]:
        """log P(label) of each unit of each input, without gradients."""

    def size(self, item: I_contra) -> int:
        """The size of an input, such as its tokens, nodes or cells; at least 1."""

    def matrices(self) -> list[nn.Parameter]:
        """The hidden matrices, for Muon."""


class Example(NamedTuple, Generic[I]):
    """An input, and the index of the label of each of its units; or, of a rating, its distribution over labels.

    Of boxes, the index of the label and the four sides of each, in pixels of what the network reads.
    """

    input: I
    labels: Int64[ndarray, " units"] | Float32[ndarray, "units C"] | BoxRows


@dataclass(frozen=True)
class LabelData(Generic[I]):
    """Examples to learn from and examples to validate on; the latter may be empty."""

    training: Sequence[Example[I]]
    validation: Sequence[Example[I]]

    def as_json(self) -> dict[str, Any]:
        """Counts and digests that identify these examples."""
        return {
            "tokens": len(self.training),
            "ids": _digest_of(self.training),
            "validation_tokens": len(self.validation),
            "validation": _digest_of(self.validation),
        }


def split(examples: Sequence[Example[I]], valid_share: float, seed: int, *, boxes: bool = False) -> LabelData[I]:
    """Holds out a random share of the examples for validation; every label stays in the training set.

    boxes: whether labels are those of boxes.
    """
    order = np.random.default_rng(seed).permutation(len(examples)).tolist()
    training: list[Example[I]] = []
    validation: list[Example[I]] = []
    seen: set[int] = set()
    wanted = int(valid_share * len(examples))
    for i in reversed(order):
        own = examples[i].labels
        labels = set((own[:, 0] if boxes else own.argmax(1) if own.ndim > 1 else own).tolist())
        if labels <= seen and len(validation) < wanted:
            validation.append(examples[i])
        else:
            training.append(examples[i])
            seen |= labels
    return LabelData(training, validation)


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


class Part(NamedTuple, Generic[I]):
    """Some inputs of a step."""

    inputs: list[I]
    targets: Tensor  # (units of all inputs,), the indices of their labels; or (units, C), their distributions


class LabelObjective(Generic[I]):
    """An Objective: -log P(label) of each unit of each input.

    `tokens` sums the sizes of inputs. A process reads its share of a step a few inputs at a time, so that large inputs
    fit into memory.
    """

    def __init__(self, network: LabelNetwork[I], setup: Setup, data: LabelData[I]) -> None:
        """Raises SettingError if a step cannot be divided among processes and parts."""
        self.network, self.setup, self.data = network, setup, data
        self.shares = setup.processes.number * setup.training.accumulate
        if min(setup.recipe.batch, len(data.training)) < self.shares:
            raise SettingError(
                f"a batch of {setup.recipe.batch} of {len(data.training):,} examples cannot be divided into "
                f"{self.shares} parts, accumulate for each process; use fewer"
            )
        sizes, validation_sizes = (
            np.array([network.size(example.input) for example in examples], np.int64)
            for examples in (data.training, data.validation)
        )
        self.batches = SortedBatches(sizes, setup.recipe.batch, setup.training.seed)
        self.epoch = int(sizes.sum())
        self.flops_per_token = float(sum((6 if w.requires_grad else 2) * w.numel() for w in network.matrices()))
        self.row_tokens = float(sizes.mean())
        self.validation_tokens = int(validation_sizes.sum())

    def tokens(self, steps: int) -> int:
        return self.batches.tokens(steps)

    def parts(self, step: int) -> list[Part[I]]:
        rank, accumulate = self.setup.processes.rank, self.setup.training.accumulate
        chosen = self.batches.examples(step)
        return [
            self._part(examples)
            for part in range(accumulate)
            for examples in batched(
                sorted(
                    (self.data.training[i] for i in chosen[rank * accumulate + part :: self.shares]), key=self._order
                ),
                lambda example: self.network.size(example.input),
                _MAX_PADDED_SIZE,
            )
        ]

    def weight(self, step: int) -> float:
        """The labels of the whole step, over all processes."""
        return max(1, sum(len(self.data.training[i].labels) for i in self.batches.examples(step)))

    def loss(self, number: int, part: Part[I], forward: Callable[..., Any], done: float) -> Tensor:
        smoothing = self.setup.training.label_smoothing
        scores = forward(part.inputs).float()
        loss = F.cross_entropy(scores, part.targets, reduction="sum", label_smoothing=smoothing)
        if part.targets.ndim > 1:  # less the entropy of the distributions: the divergence from them (KL)
            loss = loss - torch.special.entr(part.targets).sum()
        return loss

    def carried(self) -> list[Tensor]:
        return []

    def carry(self, tensors: list[Tensor]) -> None:
        """No state is carried from step to step."""

    def validated(self, tokens: int) -> ValidationResult:
        """The loss and `accuracy`, the share of labels that are right."""
        examples, processes = self.data.validation, self.setup.processes
        count = max(1, len(examples) * min(tokens, self.validation_tokens) // self.validation_tokens)
        chosen = (np.arange(count) * len(examples) // count).tolist()
        own = [examples[i] for i in chosen[processes.rank :: processes.number]]
        nats, right = 0.0, 0
        if own:
            with self.setup.machine.precision():
                log_probs = np.concatenate(self.network.log_probs([example.input for example in own]))
            shares = self._shares(own)
            nats = -float((log_probs * shares).sum(dtype=np.float64)) - _entropy(shares)
            right = int(np.count_nonzero(log_probs.argmax(1) == shares.argmax(1)))
        total = torch.tensor([nats, right, sum(len(example.labels) for example in own)], dtype=torch.float64)
        processes.add([total])
        nats, right, labels_read = total.tolist()
        figures = {"accuracy": right / max(1, labels_read), "examples": count}
        return ValidationResult(nats / max(1, labels_read), int(labels_read), figures)

    def unigram_loss(self) -> float:
        training, validation = self._shares(self.data.training), self._shares(self.data.validation)
        frequencies = np.log(training.sum(0) + 1) - np.log(len(training) + training.shape[1])
        return (-float((validation @ frequencies).sum()) - _entropy(validation)) / max(1, len(validation))

    def _shares(self, examples: Sequence[Example[I]]) -> Float64[ndarray, "units C"]:
        """The distribution of each unit over labels: of a label, all of it."""
        labels = np.concatenate([example.labels for example in examples])
        return labels.astype(np.float64) if labels.ndim > 1 else np.eye(len(self.network.labels))[labels]

    def _part(self, examples: Sequence[Example[I]]) -> Part[I]:
        labels = torch.from_numpy(np.concatenate([example.labels for example in examples]))
        return Part([example.input for example in examples], labels.to(self.setup.machine.device, non_blocking=True))

    def _order(self, example: Example[I]) -> int:
        """Sorts the largest inputs first."""
        return -self.network.size(example.input)


def _entropy(shares: Float64[ndarray, "units C"]) -> float:
    """The sum of the entropies of distributions, in nats."""
    return -float((shares * np.log(np.where(shares > 0, shares, 1))).sum())


def _digest_of(value: object) -> str:
    """A digest that identifies examples: arrays, numbers and strings, in sequences of any depth."""
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
