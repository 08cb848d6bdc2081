"""The objective of a language model: the next token of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from chainrule.errors import SettingError
from chainrule.neural.config import RecurrentConfig
from chainrule.neural.encoder_states import detach
from chainrule.training.batches import Lanes, Windows
from chainrule.training.carried_states import in_float32, joined, leaves, parted, with_rows_of
from chainrule.training.scheduled_sampling import own_guesses
from chainrule.training.stream_job import counts_of, flops_per_token, stream_job
from chainrule.training.validation import unigram_loss, validation_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.training.job import Setup, TrainingJob
    from chainrule.training.objective import Validated
    from chainrule.training.options import StreamOptions
    from chainrule.training.validation import Validation

_ANEW = 1 / 64  # the chance of a row to begin anew at a step


def next_token_job(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NetworkConfig, options: StreamOptions
) -> TrainingJob[Network]:
    """A language model that is to be trained on a stream. Raises TextError, SettingError."""
    if options.training.forcing != "teacher" and not isinstance(config, RecurrentConfig):
        raise SettingError(f"forcing is {options.training.forcing}, which is for recurrent networks; choose teacher")
    return stream_job(
        stream,
        vocabulary_size,
        config,
        options,
        lambda network, setup: NextToken(network, setup, stream, options.validation),
    )


class Part(NamedTuple):
    """Some rows of a step."""

    inputs: Tensor  # (B, T), what is read
    targets: Tensor  # (B, T), what is to be predicted
    anew: Tensor  # (B,), whether a row that could go on where it ended does not


class NextToken:
    """An Objective: -log P(token | those before it). Where a state never fills, rows go on where they ended.

    Now and then one begins anew, as every text does that is scored: a recurrent network that has not seen that for long
    would be at a loss there.
    """

    def __init__(
        self, network: Network, setup: Setup, stream: Int32[ndarray, " tokens"], validation: Validation | None
    ) -> None:
        """Raises SettingError where a batch cannot be shared out."""
        training, batch, length = setup.training, setup.recipe.batch, network.config.context
        setup.processes.check_batch(batch, training.accumulate)
        self.network, self.setup, self.validation = network, setup, validation
        self.carries = network.encoder.context is None  # training sees what evaluation will
        self.batches = Lanes(stream, batch, length) if self.carries else Windows(stream, batch, length, training.seed)
        self.states: list[Any] = [None] * training.accumulate  # of the rows of each part of a step
        self.epoch = stream.size
        self.flops_per_token = flops_per_token(network)
        self.row_tokens: float = length
        self.validation_tokens = 0 if validation is None else validation.stream.size

    def tokens(self, steps: int) -> int:
        return steps * self.batches.batch * self.batches.length

    def parts(self, step: int) -> list[Part]:
        first, last = self.setup.processes.rows(self.batches.batch)
        rows = self.batches.rows(step, first, last)
        chance = np.random.default_rng([self.setup.training.seed, step]).random(self.batches.batch)
        inputs, targets, anew = (
            torch.from_numpy(each)
            .to(self.setup.machine.device, non_blocking=True)
            .chunk(self.setup.training.accumulate)
            for each in (rows.inputs, rows.targets, chance[first:last] < _ANEW)
        )
        return [Part(*each) for each in zip(inputs, targets, anew, strict=True)]

    def weight(self, step: int) -> float:
        return self.tokens(1)

    def loss(self, number: int, part: Part, forward: Callable[..., Any], done: float) -> Tensor:
        training, (inputs, targets, anew) = self.setup.training, part
        state = self.states[number]
        if self.carries:
            fresh = self.network.start(len(inputs))
            state = fresh if state is None else with_rows_of(state, fresh, anew)
        if training.forcing != "teacher":
            share = 1.0 if training.forcing == "student" else done
            inputs = own_guesses(self.network, self.network.output, inputs, state, share)
        hidden, state = forward(inputs, state)
        self.states[number] = in_float32(detach(state)) if self.carries else None
        return self.network.output.loss(hidden, targets, label_smoothing=training.label_smoothing)

    def carried(self) -> list[Tensor]:
        return leaves(joined(self.states)) if self.carries and self.states[0] is not None else []

    def carry(self, tensors: list[Tensor]) -> None:
        if not tensors:
            return
        first, last = self.setup.processes.rows(self.batches.batch)
        own = [each[first:last].to(self.setup.machine.device) for each in tensors]
        self.states = parted(self.network.start(last - first), own, self.setup.training.accumulate)

    def validated(self, tokens: int) -> Validated:
        assert self.validation is not None
        found = validation_loss(
            self.network,
            self.validation.stream,
            self.batches.length,
            self.setup.machine,
            self.setup.processes,
            carried=self.carries,
            tokens=tokens,
        )
        figures = {"bits_per_byte": self.validation.bits_per_byte(found.loss), "bytes": self.validation.bytes}
        return found._replace(figures=figures)

    def unigram_loss(self) -> float:
        assert self.validation is not None
        return unigram_loss(counts_of(self.batches.stream, self.network.vocabulary_size), self.validation.stream)
