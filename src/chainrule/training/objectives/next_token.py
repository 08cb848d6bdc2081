"""The objective of a language model, the next token of a stream; with carried states and scheduled sampling.

Carried states are flat lists of tensors, batch first: for checkpoints, and for steps split into parts. With scheduled
sampling, a network reads some of its own predictions (Williams and Zipser 1989; Bengio 2015).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from chainrule.errors import SettingError
from chainrule.neural.layers.cross_entropy import KnownLogProbs
from chainrule.neural.layers.state import Cache, detach
from chainrule.training.batches import ContiguousBatches, ShuffledWindows
from chainrule.training.defaults import row_length
from chainrule.training.objectives.stream import (
    counts_of,
    flops_per_token,
    loss_of,
    stream_job,
    unigram_loss,
    validation_loss,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.encoders.recurrent import Recurrent
    from chainrule.neural.layers.output import FullSoftmax, Output
    from chainrule.neural.network import Network
    from chainrule.training.job import (
        KnownDistribution,
        Setup,
        StreamOptions,
        TrainingJob,
        Validation,
        ValidationResult,
    )

    Forward = Callable[[Tensor, Any], tuple[Tensor, Any]]  # tokens (B, T), state -> hidden states, next state


def leaves(state: Any) -> list[Tensor]:
    """Return the tensors of a state, in order."""
    if isinstance(state, torch.Tensor):
        return [state]
    return [leaf for branch in state or () for leaf in leaves(branch)]


def with_leaves(state: Any, tensors: list[Tensor]) -> Any:
    """Return a state of the same structure with other tensors, which are popped off the list."""
    if isinstance(state, torch.Tensor):
        return tensors.pop(0)
    return None if state is None else tuple(with_leaves(branch, tensors) for branch in state)


def in_float32(state: Any) -> Any:
    """Return the same state with its bfloat16 in float32, since neither files nor all-gathers support that.

    Nothing is rounded, so a resumed run carries the same numbers as one that was never interrupted.
    """
    return with_leaves(state, [leaf.float() if leaf.is_floating_point() else leaf for leaf in leaves(state)])


def with_rows_of(state: Any, other: Any, rows: Tensor) -> Any:
    """Return a state with some rows of another of the same structure. rows: (B,), True where `other` is used."""
    pairs = zip(leaves(state), leaves(other), strict=True)
    return with_leaves(state, [torch.where(rows.view(-1, *[1] * (own.ndim - 1)), others, own) for own, others in pairs])


def join_rows(states: list[Any]) -> Any:
    """Return one state with the rows of several."""
    rows = [torch.cat(parts) for parts in zip(*map(leaves, states), strict=True)]
    return with_leaves(states[0], rows)


def split_rows(like: Any, tensors: list[Tensor], parts: int) -> list[Any]:
    """Return `parts` states of equally many rows, structured like `like`, that together hold these tensors."""
    chunks = [tensor.chunk(parts) for tensor in tensors]
    return [with_leaves(like, [chunk[part] for chunk in chunks]) for part in range(parts)]


@torch.no_grad()
def scheduled_inputs(network: Forward, output: Output, inputs: Tensor, state: Any, share: float) -> Tensor:
    """Return the inputs, (B, T), with guesses in place of a random share of the tokens; the first token stays.

    A guess is sampled from what the network predicts after all that it has read, earlier guesses included. No gradient
    flows through guesses, so one pass over the result has the gradient of sampling step by step.
    """
    read = inputs.clone()
    for i in range(inputs.size(1) - 1):
        hidden, state = network(read[:, i : i + 1], state)
        state = detach(state)
        guesses = torch.multinomial(output.log_probs(hidden[:, 0]).float().exp(), 1)[:, 0]
        is_guessed = torch.rand(len(read), device=read.device) < share
        read[:, i + 1] = torch.where(is_guessed, guesses, read[:, i + 1])
    return read


_RESET_CHANCE = 1 / 64  # that a row starts from a fresh state at a step
_MOST_PASSES = 40.0  # after which reading a text again teaches little (Muennighoff et al. 2023)


def next_token_job(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NetworkConfig, options: StreamOptions
) -> TrainingJob[Network]:
    """Return a job that trains a language model on a stream. Raises TextError, SettingError."""
    if options.training.forcing != "teacher" and not config.takes_forcing:
        raise SettingError(f"forcing is {options.training.forcing}, which is for recurrent networks; choose teacher")
    return stream_job(
        stream,
        vocabulary_size,
        config,
        options,
        lambda network, setup: NextToken(network, setup, stream, options.validation, teacher=options.teacher),
    )


class MicroBatch(NamedTuple):
    """Some rows of a step."""

    inputs: Tensor  # (B, T)
    targets: Tensor  # (B, T)
    resets: Tensor  # (B,), whether a row starts from a fresh state, though it has one to continue from
    positions: Tensor  # (B, T), of the targets in the text; on the processor


class NextToken:
    """An Objective: -log P(token | those before it). If the state has a fixed size, rows continue from step to step.

    Now and then a row starts from a fresh state, as every scored text does: a recurrent network that has not started
    from one for long would predict badly from it.
    """

    def __init__(
        self,
        network: Network,
        setup: Setup,
        stream: Int32[ndarray, " tokens"],
        validation: Validation | None,
        known: KnownDistribution | None = None,
        exponent: Tensor | None = None,
        teacher: Callable[[Int64[ndarray, " R"], Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        """Prepare the batches.

        known, exponent: a distribution beside the network's logits; see `objectives/residual.py`. teacher: as in
        `StreamOptions`. Raises SettingError if a batch cannot be divided among processes and parts.
        """
        training, batch, length = setup.training, setup.recipe.batch, row_length(network.config, setup.training)
        setup.processes.check_batch(batch, training.accumulate)
        self.network, self.setup, self.validation = network, setup, validation
        self.known, self.exponent, self.teacher = known, exponent, teacher
        self.regularised = any(getattr(network.encoder, "regularisation", ()))  # of recurrent networks
        self.validates_on = network.encoder.context is None  # the state is carried, as evaluation does
        has_cache = isinstance(network.encoder.start(1), Cache)  # which takes no gradients
        self.carries = self.validates_on and not has_cache
        self.batches = (
            ContiguousBatches(stream, batch, length)
            if self.carries
            else ShuffledWindows(stream, batch, length, training.seed)
        )
        self.states: list[Any] = [None] * training.accumulate  # for each part of a step, of its rows
        self.epoch, self.most_passes = stream.size, _MOST_PASSES
        self.flops_per_token = flops_per_token(network)
        self.row_tokens: float = length
        self.validation_tokens = 0 if validation is None else validation.stream.size

    def tokens(self, steps: int) -> int:
        return steps * self.batches.batch * self.batches.length

    def parts(self, step: int) -> list[MicroBatch]:
        first, last = self.setup.processes.rows(self.batches.batch)
        rows = self.batches.rows(step, first, last)
        chance = np.random.default_rng([self.setup.training.seed, step]).random(self.batches.batch)
        inputs, targets, resets = (
            torch.from_numpy(array)
            .to(self.setup.machine.device, non_blocking=True)
            .chunk(self.setup.training.accumulate)
            for array in (rows.inputs, rows.targets, chance[first:last] < _RESET_CHANCE)
        )
        positions = torch.from_numpy(rows.positions).chunk(self.setup.training.accumulate)
        return [MicroBatch(*columns) for columns in zip(inputs, targets, resets, positions, strict=True)]

    def weight(self, step: int) -> float:
        return self.tokens(1)

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        training, (inputs, targets, resets, positions) = self.setup.training, part
        state = self.states[number]
        if self.carries:
            fresh = self.network.start(len(inputs))
            state = fresh if state is None else with_rows_of(state, fresh, resets)
        if training.forcing != "teacher":
            share = 1.0 if training.forcing == "student" else done
            inputs = scheduled_inputs(self.network, self.network.output, inputs, state, share)
        hidden, state = forward(inputs, state)
        self.states[number] = in_float32(detach(state)) if self.carries else None
        known = None if self.known is None else self._beside(self.known.training, positions.numpy())
        if self.teacher is not None:
            flat, taught, output = positions.numpy().reshape(-1), self.teacher, cast("FullSoftmax", self.network.output)
            nats = output.loss(hidden, targets, taught=lambda span, *rows: taught(flat[span], *rows))
        else:
            nats = loss_of(self.network, hidden, targets, known, label_smoothing=training.label_smoothing)
        if not self.regularised:
            return nats
        penalty = targets.numel() * cast("Recurrent", self.network.encoder).penalty(hidden.float())
        return nats + (penalty - penalty.detach())  # its gradient alone: the loss stays that of the text

    def _beside(
        self, distribution: Callable[[Int64[ndarray, " R"]], ndarray], positions: Int64[ndarray, "B T"]
    ) -> KnownLogProbs:
        """Return the known distribution at some positions, which is computed where it is used, a few at a time."""
        assert self.exponent is not None
        flat, device = positions.reshape(-1), self.setup.machine.device

        def rows(span: slice) -> Tensor:
            with torch.autocast(device.type, enabled=False):  # a known network computes as it does alone
                return torch.from_numpy(distribution(flat[span])).to(device)

        return KnownLogProbs(rows, self.exponent)

    def state(self) -> list[Tensor]:
        return leaves(join_rows(self.states)) if self.carries and self.states[0] is not None else []

    def load_state(self, tensors: list[Tensor]) -> None:
        if not tensors:
            return
        first, last = self.setup.processes.rows(self.batches.batch)
        own = [tensor[first:last].to(self.setup.machine.device) for tensor in tensors]
        self.states = split_rows(self.network.start(last - first), own, self.setup.training.accumulate)

    def validate(self, tokens: int) -> ValidationResult:
        assert self.validation is not None
        result = validation_loss(
            self.network,
            self.validation.stream,
            self.batches.length,
            self.setup.machine,
            self.setup.processes,
            carried=self.validates_on,
            tokens=tokens,
            known=None if self.known is None else partial(self._beside, self.known.validation),
        )
        figures = {"bits_per_byte": self.validation.bits_per_byte(result.loss), "bytes": self.validation.bytes}
        return result._replace(figures=figures)

    def unigram_loss(self) -> float:
        assert self.validation is not None
        return unigram_loss(counts_of(self.batches.stream, self.network.vocabulary_size), self.validation.stream)
