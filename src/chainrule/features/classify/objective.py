"""The objective of classifiers: -log P(label) of each unit of an input, be it a text, a tree or a picture; of a rating,
the divergence of the predicted distribution from it.

Nothing here knows what an input is: the network says how large each one is. Legend: C labels.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.features.classify.units import labels_of_target
from chainrule.neural.scoring import make_batches
from chainrule.training.batches import ExampleObjective
from chainrule.training.job import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int64
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.training.job import Setup

TIE = 1e-6  # a share of the loss that decides between epochs of equal accuracy, and between no others
_MAX_PADDED_SIZE = 1 << 14  # of the inputs that the network reads at once, padding included

I = TypeVar("I")  # noqa: E741
I_contra = TypeVar("I_contra", contravariant=True)


class LabelNetwork(Protocol[I_contra]):
    """A torch module that labels the units of inputs."""

    labels: tuple[str, ...]

    def __call__(self, inputs: Sequence[I_contra]) -> Tensor:
        """Return logits, (units of all inputs, C)."""

    def log_probs(self, inputs: Sequence[I_contra]) -> list[Float32[ndarray, "units C"]]:
        """Return log P(label) of each unit of each input, without gradients."""

    def size(self, item: I_contra) -> int:
        """Return the size of an input, such as its tokens, nodes or cells; at least 1."""

    def matrices(self) -> list[nn.Parameter]:
        """Return the hidden matrices, for Muon."""


class Example(NamedTuple, Generic[I]):
    """An input, and what `UnitKind.targets` gives: the index of the label of each of its units; or, of a rating, its
    distribution over labels.
    """

    input: I
    labels: Int64[ndarray, " units"] | Float32[ndarray, "units C"]


@dataclass(frozen=True)
class LabelData(Generic[I]):
    """Examples to learn from and examples to validate on; the latter may be empty."""

    training: Sequence[Example[I]]
    validation: Sequence[Example[I]]

    def as_json(self) -> dict[str, Any]:
        """Return counts and digests that identify these examples."""
        return {
            "tokens": len(self.training),
            "ids": _digest_of(self.training),
            "validation_tokens": len(self.validation),
            "validation": _digest_of(self.validation),
        }


def split(
    examples: Sequence[Example[I]],
    valid_share: float,
    seed: int,
    labels_of: Callable[[ndarray], ndarray] = labels_of_target,
) -> LabelData[I]:
    """Hold out a random share of the examples for validation; every label stays in the training set.

    labels_of: as `UnitKind.labels_of_target`.
    """
    order = np.random.default_rng(seed).permutation(len(examples)).tolist()
    training: list[Example[I]] = []
    validation: list[Example[I]] = []
    seen: set[int] = set()
    wanted = int(valid_share * len(examples))
    for i in reversed(order):
        labels = set(labels_of(examples[i].labels).tolist())
        if labels <= seen and len(validation) < wanted:
            validation.append(examples[i])
        else:
            training.append(examples[i])
            seen |= labels
    return LabelData(training, validation)


class MicroBatch(NamedTuple, Generic[I]):
    """Some inputs of a step."""

    inputs: list[I]
    targets: Tensor  # (units of all inputs,), the indices of their labels; or (units, C), their distributions


class LabelObjective(ExampleObjective["Example[I]"], Generic[I]):
    """An Objective: -log P(label) of each unit of each input.

    `tokens` sums the sizes of inputs. A process reads its share of a step a few inputs at a time, so that large inputs
    fit into memory.
    """

    def __init__(self, network: LabelNetwork[I], setup: Setup, data: LabelData[I]) -> None:
        """Prepare the examples for training and validation.

        Raises SettingError if a step cannot be divided among processes and parts.
        """
        self.network = network
        super().__init__(
            setup,
            data.training,
            data.validation,
            "examples",
            size=self._size,
            predictions=lambda example: len(example.labels),
            flops_per_token=float(sum((6 if w.requires_grad else 2) * w.numel() for w in network.matrices())),
        )

    def _size(self, example: Example[I]) -> int:
        return self.network.size(example.input)

    def cut(self, examples: Sequence[Example[I]]) -> list[MicroBatch[I]]:
        ordered = sorted(examples, key=lambda example: -self._size(example))
        return [self._part(group) for group in make_batches(ordered, self._size, _MAX_PADDED_SIZE)]

    def loss(self, number: int, part: MicroBatch[I], forward: Callable[..., Any], done: float) -> Tensor:
        smoothing = self.setup.training.label_smoothing
        scores = forward(part.inputs).float()
        loss = F.cross_entropy(scores, part.targets, reduction="sum", label_smoothing=smoothing)
        if part.targets.ndim > 1:  # less the entropy of the distributions: the divergence from them (KL)
            loss = loss - torch.special.entr(part.targets).sum()
        return loss

    def validate(self, tokens: int) -> ValidationResult:
        """Return the loss and `accuracy`, the share of labels that are right; of ratings, also `pearson`, or neither
        where it is not defined, as of a single one.

        The best epoch has the highest accuracy or correlation, the figures that people report; of equal ones, the
        lowest loss.
        """
        chosen, processes = self.sample(tokens), self.setup.processes
        own = chosen[processes.rank :: processes.number]
        are_ratings = chosen[0].labels.ndim > 1
        nats, right, moments = 0.0, 0, np.zeros(5)
        if own:
            with self.setup.machine.precision():
                log_probs = np.concatenate(self.network.log_probs([example.input for example in own]))
            shares = self._shares(own)
            nats = -float((log_probs * shares).sum(dtype=np.float64)) - _entropy(shares)
            right = int(np.count_nonzero(log_probs.argmax(1) == shares.argmax(1)))
            if are_ratings:
                numbers = np.array([float(label) for label in self.network.labels])
                moments = _moments(np.exp(log_probs) @ numbers, shares @ numbers)
        labels_read = sum(len(example.labels) for example in own)
        total = torch.tensor([nats, right, labels_read, *moments], dtype=torch.float64)
        processes.add([total])
        nats, right, labels_read, *sums = total.tolist()
        loss, accuracy = nats / max(1, labels_read), right / max(1, labels_read)
        figures, measure = {"accuracy": accuracy, "examples": len(chosen)}, accuracy
        if are_ratings:
            measure = _correlation_of_moments(int(labels_read), *sums)
            if math.isnan(measure):
                return ValidationResult(loss, int(labels_read), {"examples": len(chosen)})
            figures["pearson"] = measure
        return ValidationResult(loss, int(labels_read), figures, -measure + TIE * loss)

    def unigram_loss(self) -> float:
        training, validation = self._shares(self.examples), self._shares(self.held_out)
        frequencies = np.log(training.sum(0) + 1) - np.log(len(training) + training.shape[1])
        return (-float((validation @ frequencies).sum()) - _entropy(validation)) / max(1, len(validation))

    def _shares(self, examples: Sequence[Example[I]]) -> Float64[ndarray, "units C"]:
        """Return the distribution of each unit over labels; a single label has all the mass."""
        labels = np.concatenate([example.labels for example in examples])
        return labels.astype(np.float64) if labels.ndim > 1 else np.eye(len(self.network.labels))[labels]

    def _part(self, examples: Sequence[Example[I]]) -> MicroBatch[I]:
        labels = torch.from_numpy(np.concatenate([example.labels for example in examples]))
        return MicroBatch(
            [example.input for example in examples], labels.to(self.setup.machine.device, non_blocking=True)
        )


def _moments(a: Float64[ndarray, " n"], b: Float64[ndarray, " n"]) -> Float64[ndarray, " sums"]:
    """Return the sums that processes add up: of a, b, their squares and their product."""
    return np.array([a.sum(), b.sum(), a @ a, b @ b, a @ b])


def _correlation_of_moments(n: int, a: float, b: float, aa: float, bb: float, ab: float) -> float:
    """Return Pearson's correlation of n pairs of which `_moments` are known. NaN where it is not defined."""
    variances = (aa - a * a / n) * (bb - b * b / n) if n > 2 else 0.0
    return (ab - a * b / n) / math.sqrt(variances) if variances > 0 else math.nan


def _entropy(shares: Float64[ndarray, "units C"]) -> float:
    """Return the sum of the entropies of distributions, in nats."""
    return -float((shares * np.log(np.where(shares > 0, shares, 1))).sum())


def _digest_of(value: object) -> str:
    """Return a digest that identifies examples: arrays, numbers and strings, in sequences of any depth."""
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
