"""The objectives of networks that see both sides of a token: what was masked, or what neither direction has seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from chainrule.neural.config.two_sided import Masking, TwoSidedConfig
from chainrule.protocol import BEGIN, END
from chainrule.training.batches import Windows, blocks
from chainrule.training.objective import Validated
from chainrule.training.stream_job import counts_of, flops_per_token, stream_job
from chainrule.training.validation import unigram_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.encoders.directions import SeparateDirections
    from chainrule.neural.network import Network
    from chainrule.training.job import Setup, TrainingJob
    from chainrule.training.options import StreamOptions

_SPAN_END, _LONGEST_SPAN = 0.2, 10  # words: lengths are geometric, as in Joshi 2020
_MEAN_SPAN = (1 - (1 - _SPAN_END) ** _LONGEST_SPAN) / _SPAN_END
_VALIDATION, _TRAINING = 0, 1  # what random numbers are for
_TOKENS_AT_ONCE = 1 << 13


class Masked(NamedTuple):
    """Rows of tokens, what is read in place of them, and where the tokens are to be found."""

    inputs: Int64[ndarray, "B T"]
    targets: Int64[ndarray, "B T"]
    asked: Bool[ndarray, "B T"]


def two_sided_job(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NetworkConfig, options: StreamOptions
) -> TrainingJob[Network]:
    """A network that is to see both sides of a token. Raises TextError, SettingError."""
    begins = np.ones(vocabulary_size, np.bool_) if options.begins_word is None else options.begins_word
    kept = None if options.validation is None else options.validation.stream
    return stream_job(
        stream,
        vocabulary_size,
        config,
        options,
        lambda network, setup: BothSides(network, setup, stream, kept, begins),
    )


class BothSides:
    """An Objective: -log P(token | both sides), of what is masked; or of all tokens, where nothing needs to be."""

    def __init__(
        self,
        network: Network,
        setup: Setup,
        stream: Int32[ndarray, " tokens"],
        validation: Int32[ndarray, " tokens"] | None,
        begins: Bool[ndarray, " vocab"],
    ) -> None:
        """Raises SettingError where a batch cannot be shared out."""
        setup.processes.check_batch(setup.recipe.batch, setup.training.accumulate)
        self.network, self.setup, self.validation, self.begins = network, setup, validation, begins
        self.batches = Windows(stream, setup.recipe.batch, network.config.context, setup.training.seed)
        self.epoch = stream.size
        self.flops_per_token = flops_per_token(network)
        self.row_tokens: float = network.config.context
        self.validation_tokens = 0 if validation is None else validation.size
        self._last: tuple[int, Masked] | None = None

    def tokens(self, steps: int) -> int:
        return steps * self.batches.batch * self.batches.length

    def parts(self, step: int) -> list[tuple[Tensor, ...]]:
        own = slice(*self.setup.processes.rows(self.batches.batch))
        columns = (self._on_device(each[own]).chunk(self.setup.training.accumulate) for each in self._masked(step))
        return list(zip(*columns, strict=True))

    def weight(self, step: int) -> float:
        return float(np.count_nonzero(self._masked(step).asked))

    def loss(self, number: int, part: tuple[Tensor, ...], forward: Callable[..., Any], done: float) -> Tensor:
        return self._loss(part, forward, self.setup.training.label_smoothing)

    def carried(self) -> list[Tensor]:
        return []

    def carry(self, tensors: list[Tensor]) -> None:
        """Nothing is carried from step to step."""

    @torch.no_grad()
    def validated(self, tokens: int) -> Validated:
        total = torch.zeros(2, dtype=torch.float64)
        for number, masked in enumerate(self._masked_validation(tokens)):
            if number % self.setup.processes.number == self.setup.processes.rank:
                with self.setup.machine.precision():
                    nats = self._loss(tuple(map(self._on_device, masked)), self.network, 0.0)
                total += torch.tensor([float(nats), np.count_nonzero(masked.asked)])
        self.setup.processes.add([total])
        return Validated(float(total[0] / total[1]), int(total[1]))

    def unigram_loss(self) -> float:
        """</s> is never asked for."""
        assert self.validation is not None
        counts = counts_of(self.batches.stream, self.network.vocabulary_size)
        counts[END] = 0
        return unigram_loss(counts, self.validation[_ever_asked(self.validation)])

    def _loss(self, part: tuple[Tensor, ...], forward: Callable[..., Any], smoothing: float) -> Tensor:
        inputs, targets, asked = part
        config, output = self.network.config, self.network.output
        if isinstance(config, TwoSidedConfig) and config.loss == "apart":
            starts = inputs == END if self.network.memory == "document" else None
            sides = cast("SeparateDirections", self.network.encoder).sides(self.network.embedding(inputs), starts)
            before, after = (output.loss(side[asked], targets[asked], label_smoothing=smoothing) for side in sides)
            return (before + after) / 2
        hidden, _ = forward(inputs)
        return output.loss(hidden[asked], targets[asked], label_smoothing=smoothing)

    def _masked(self, step: int) -> Masked:
        """All rows of a step: every process must know how much is masked in all of them."""
        if self._last is None or self._last[0] != step:
            rows = self.batches.rows(step, 0, self.batches.batch).targets
            self._last = step, self._with_masks(rows, (_TRAINING, step))
        return self._last[1]

    def _masked_validation(self, tokens: int) -> Iterator[Masked]:
        assert self.validation is not None
        rows = max(1, _TOKENS_AT_ONCE // self.batches.length)
        for number, part in enumerate(blocks(self.validation, self.batches.length, rows, tokens)):
            yield self._with_masks(part.targets, (_VALIDATION, number))

    def _with_masks(self, targets: Int64[ndarray, "B T"], purpose: tuple[int, int]) -> Masked:
        config = self.network.config
        if not isinstance(config, Masking):
            return Masked(targets, targets, _ever_asked(targets))
        chance = np.random.default_rng([self.setup.training.seed, *purpose])
        return masked(targets, config, self.begins, chance)

    def _on_device(self, array: ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.setup.machine.device, non_blocking=True)


def masked(
    targets: Int64[ndarray, "B T"], config: Masking, begins: Bool[ndarray, " vocab"], chance: np.random.Generator
) -> Masked:
    """Rows with masks; one token at least is asked for, and </s> never is, so that documents keep their borders.

    begins: whether a token begins a word. Of what is asked for, most becomes the mask, <s>, some any token, and some
    stays (Devlin 2019).
    """
    units = _units(targets, config, begins)
    chosen = _chosen(int(units[-1]) + 1, config, chance)
    may_be_asked = np.flatnonzero(_ever_asked(targets))
    if not chosen[units[may_be_asked]].any():
        chosen[units[chance.choice(may_be_asked)]] = True
    asked = np.zeros(targets.shape, np.bool_)
    asked.flat[may_be_asked] = chosen[units[may_be_asked]]
    fate = chance.random(targets.shape)
    inputs = np.where(asked & (fate >= config.kept_share), BEGIN, targets)
    at_random = asked & (fate >= config.kept_share) & (fate < config.kept_share + config.random_share)
    inputs[at_random] = chance.integers(min(END + 1, begins.size - 1), begins.size, int(at_random.sum()))
    return Masked(inputs, targets, asked)


def _ever_asked(targets: Int64[ndarray, "*shape"] | Int32[ndarray, "*shape"]) -> Bool[ndarray, "*shape"]:
    """All but </s>; where there is nothing else, that."""
    is_text = targets != END
    return is_text if is_text.any() else ~is_text


def _units(
    targets: Int64[ndarray, "B T"], config: Masking, begins: Bool[ndarray, " vocab"]
) -> Int64[ndarray, " tokens"]:
    """The number of what is masked together with each token, of all rows one after the other: it never falls."""
    if config.masks == "tokens":
        return np.arange(targets.size)
    begun = begins[targets]
    begun[:, 0] = True
    begun[:, 1:] |= targets[:, :-1] == END
    return np.cumsum(begun.ravel()) - 1


def _chosen(units: int, config: Masking, chance: np.random.Generator) -> Bool[ndarray, " units"]:
    """Which of some units are masked."""
    if config.masks == "spans":  # these may overlap: so many begin that the share is right
        rate = -math.log1p(-config.masked_share) / _MEAN_SPAN
        begins = np.flatnonzero(chance.random(units) < rate)
        lengths = np.minimum(chance.geometric(_SPAN_END, begins.size), _LONGEST_SPAN)
        changes = np.bincount(begins, minlength=units + 1) - np.bincount(
            np.minimum(begins + lengths, units), minlength=units + 1
        )
        return np.asarray(np.cumsum(changes)[:-1] > 0)
    return np.asarray(chance.random(units) < config.masked_share)
