"""The objective of bidirectional networks: masked tokens, or all tokens where the directions are apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from chainrule.protocol import BEGIN, END
from chainrule.training.batches import ShuffledWindows, blocks
from chainrule.training.defaults import row_length
from chainrule.training.job import StatelessObjective, ValidationResult
from chainrule.training.objectives.stream import counts_of, flops_per_token, stream_job, unigram_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.bidirectional import Masking
    from chainrule.neural.encoders.bidirectional import SeparateDirections
    from chainrule.neural.network import Network
    from chainrule.training.job import Setup, StreamOptions, TrainingJob

_SPAN_END, _LONGEST_SPAN = 0.2, 10  # words: lengths are geometric, as in Joshi 2020
_MEAN_SPAN = (1 - (1 - _SPAN_END) ** _LONGEST_SPAN) / _SPAN_END
_VALIDATION, _TRAINING = 0, 1  # the uses of random numbers
_BATCH_TOKENS = 1 << 13


class Masked(NamedTuple):
    """Rows as the network reads them (masked), their original tokens, and the positions to predict."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]
    predicted: Bool[ndarray, "B T"]


def two_sided_job(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NetworkConfig, options: StreamOptions
) -> TrainingJob[Network]:
    """Return a job that trains a bidirectional network. Raises TextError, SettingError."""
    begins = begins_word(options, vocabulary_size)
    validation = None if options.validation is None else options.validation.stream
    return stream_job(
        stream,
        vocabulary_size,
        config,
        options,
        lambda network, setup: MaskedObjective(network, setup, stream, validation, begins),
    )


def begins_word(options: StreamOptions, vocabulary_size: int) -> Bool[ndarray, " vocab"]:
    """Return whether each token begins a word; if that is not known, all do."""
    return np.ones(vocabulary_size, np.bool_) if options.begins_word is None else options.begins_word


class MaskedObjective(StatelessObjective):
    """An Objective: -log P(token | both sides), of masked tokens; of all tokens if the directions are apart."""

    def __init__(
        self,
        network: Network,
        setup: Setup,
        stream: Int32[ndarray, " tokens"],
        validation: Int32[ndarray, " tokens"] | None,
        begins: Bool[ndarray, " vocab"],
    ) -> None:
        """Prepare the batches. begins: whether a token begins a word. Raises SettingError if a batch cannot be
        divided.
        """
        setup.processes.check_batch(setup.recipe.batch, setup.training.accumulate)
        self.network, self.setup, self.validation, self.begins = network, setup, validation, begins
        length = row_length(network.config, setup.training)
        self.batches = ShuffledWindows(stream, setup.recipe.batch, length, setup.training.seed)
        self.epoch = stream.size
        self.flops_per_token = flops_per_token(network)
        self.row_tokens: float = length
        self.validation_tokens = 0 if validation is None else validation.size
        self._last: tuple[int, Masked] | None = None

    def tokens(self, steps: int) -> int:
        return steps * self.batches.batch * self.batches.length

    def parts(self, step: int) -> list[tuple[Tensor, ...]]:
        own = slice(*self.setup.processes.rows(self.batches.batch))
        columns = (self._on_device(array[own]).chunk(self.setup.training.accumulate) for array in self._masked(step))
        return list(zip(*columns, strict=True))

    def weight(self, step: int) -> float:
        return float(np.count_nonzero(self._masked(step).predicted))

    def loss(self, number: int, part: tuple[Tensor, ...], forward: Callable[..., Any], done: float) -> Tensor:
        return self._loss(part, forward, self.setup.training.label_smoothing)

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        total = torch.zeros(3, dtype=torch.float64)  # nats, predictions, tokens
        for masked, counts in self.setup.processes.turns(self._masked_validation(tokens)):
            with self.setup.machine.precision():
                nats = self._loss(tuple(map(self._on_device, masked)), self.network, 0.0)
            if counts:
                total += torch.tensor([float(nats), np.count_nonzero(masked.predicted), masked.targets.size])
        self.setup.processes.add([total])
        return ValidationResult(float(total[0] / total[1]), int(total[1]), read=int(total[2]))

    def unigram_loss(self) -> float:
        assert self.validation is not None
        return unigram_loss_of_masked(self.batches.stream, self.validation, self.network.vocabulary_size)

    def _loss(self, part: tuple[Tensor, ...], forward: Callable[..., Any], smoothing: float) -> Tensor:
        inputs, targets, predicted = part
        config, output = self.network.config, self.network.output
        if config.learns_directions_apart:
            starts = inputs == END if self.network.memory == "document" else None
            sides = cast("SeparateDirections", self.network.encoder).sides(self.network.embedding(inputs), starts)
            before, after = (
                output.loss(side[predicted], targets[predicted], label_smoothing=smoothing) for side in sides
            )
            return (before + after) / 2
        hidden, _ = forward(inputs)
        return output.loss(hidden[predicted], targets[predicted], label_smoothing=smoothing)

    def _masked(self, step: int) -> Masked:
        """Return all rows of a step: every process must know how many tokens the whole step predicts."""
        if self._last is None or self._last[0] != step:
            rows = self.batches.rows(step, 0, self.batches.batch).targets
            self._last = step, self._with_masks(rows, (_TRAINING, step))
        return self._last[1]

    def _masked_validation(self, tokens: int) -> Iterator[Masked]:
        assert self.validation is not None
        rows = max(1, _BATCH_TOKENS // self.batches.length)
        for block, part in enumerate(blocks(self.validation, self.batches.length, rows, tokens)):
            yield self._with_masks(part.targets, (_VALIDATION, block))

    def _with_masks(self, targets: Int64[ndarray, "B T"], purpose: tuple[int, int]) -> Masked:
        config = self.network.config
        if not config.is_masked:
            return Masked(targets, targets, _may_predict(targets))
        rng = np.random.default_rng([self.setup.training.seed, *purpose])
        return mask_rows(targets, cast("Masking", config), self.begins, rng)

    def _on_device(self, array: ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.setup.machine.device, non_blocking=True)


def unigram_loss_of_masked(
    stream: Int32[ndarray, " tokens"], validation: Int32[ndarray, " tokens"], vocabulary_size: int
) -> float:
    """Return the loss of `Objective.unigram_loss`; </s> does not count, since it is never predicted."""
    counts = counts_of(stream, vocabulary_size)
    counts[END] = 0
    return unigram_loss(counts, validation[_may_predict(validation)])


def mask_rows(
    targets: Int64[ndarray, "B T"], config: Masking, begins: Bool[ndarray, " vocab"], rng: np.random.Generator
) -> Masked:
    """Choose the tokens to predict, at least one, and mask them; never </s>, so that documents keep their borders.

    begins: whether a token begins a word. Of the tokens to predict, most become the mask, <s>, some a random token, and
    some stay (Devlin 2019).
    """
    units = _units(targets, config, begins)
    chosen = _chosen(int(units[-1]) + 1, config, rng)
    candidates = np.flatnonzero(_may_predict(targets))
    if not chosen[units[candidates]].any():
        chosen[units[rng.choice(candidates)]] = True
    predicted = np.zeros(targets.shape, np.bool_)
    predicted.flat[candidates] = chosen[units[candidates]]
    fate = rng.random(targets.shape)
    inputs = np.where(predicted & (fate >= config.kept_share), BEGIN, targets)
    at_random = predicted & (fate >= config.kept_share) & (fate < config.kept_share + config.random_share)
    inputs[at_random] = rng.integers(min(END + 1, begins.size - 1), begins.size, int(at_random.sum()))
    return Masked(inputs, targets, predicted)


def _may_predict(targets: Int64[ndarray, "*shape"] | Int32[ndarray, "*shape"]) -> Bool[ndarray, "*shape"]:
    """Return True for all tokens but </s>; if there are no others, for all."""
    is_text = targets != END
    return is_text if is_text.any() else ~is_text


def _units(
    targets: Int64[ndarray, "B T"], config: Masking, begins: Bool[ndarray, " vocab"]
) -> Int64[ndarray, " tokens"]:
    """Return the index of each token's unit, which is masked as a whole: non-decreasing over the rows, end to end."""
    if config.masks == "tokens":
        return np.arange(targets.size)
    starts = begins[targets]
    starts[:, 0] = True
    starts[:, 1:] |= targets[:, :-1] == END
    return np.cumsum(starts.ravel()) - 1


def _chosen(units: int, config: Masking, rng: np.random.Generator) -> Bool[ndarray, " units"]:
    """Draw the units to mask."""
    if config.masks == "spans":  # spans may overlap; the rate of their beginnings makes the share right
        rate = -math.log1p(-config.masked_share) / _MEAN_SPAN
        begins = np.flatnonzero(rng.random(units) < rate)
        lengths = np.minimum(rng.geometric(_SPAN_END, begins.size), _LONGEST_SPAN)
        changes = np.bincount(begins, minlength=units + 1) - np.bincount(
            np.minimum(begins + lengths, units), minlength=units + 1
        )
        return np.asarray(np.cumsum(changes)[:-1] > 0)
    return np.asarray(rng.random(units) < config.masked_share)
