"""The objective of pairs of answers: direct preference optimisation (DPO, Rafailov et al. 2023, equation 7).

    -log sigmoid(beta ((log P - log Q)(chosen) - (log P - log Q)(rejected)))

P is the network in training, Q the network as it was, both of an answer given its prompt. Q of each answer is computed
once, where it is needed first, and each row by itself, so that a resumed run has the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from chainrule.errors import SettingError, TextError
from chainrule.neural.adapters import adapter_matrices, add_adapters, without_adapters
from chainrule.neural.build import build
from chainrule.neural.config import settings_of
from chainrule.neural.network import Network
from chainrule.neural.quantization import check_trainable
from chainrule.neural.scoring import make_batches, pad
from chainrule.protocol import END
from chainrule.training.batches import ExampleObjective
from chainrule.training.defaults import Recipe, refuse_settings_of_text, with_adapter_defaults, with_budget
from chainrule.training.job import TrainingJob, ValidationResult
from chainrule.training.objectives.stream import blocks_of, flops_per_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float, Int64
    from numpy import ndarray

    from chainrule.training.config import AdapterConfig, TrainingConfig
    from chainrule.training.job import Setup

_BATCH, _WARM_UP = 16, 20
_RATE, _ADAPTER_RATE = 2e-6, 5e-5  # of AdamW; those that others use
_MAX_TOKENS = 1 << 13  # that the network reads at once


class Row(NamedTuple):
    """What is read of an answer. tokens: the prompt, as it is read, then the answer with its </s>. prompt: how many of
    them are the prompt's.
    """

    tokens: Int64[ndarray, " T"]
    prompt: int


class Pair(NamedTuple):
    """Two answers, each with the prompt."""

    chosen: Row
    rejected: Row

    @property
    def size(self) -> int:
        """In tokens."""
        return len(self.chosen.tokens) + len(self.rejected.tokens)


def preference_job(
    start: Network,
    pairs: Sequence[Pair],
    held_out: Sequence[Pair],
    training: TrainingConfig,
    beta: float,
    text: dict[str, Any],
    adapter: AdapterConfig | None,
) -> TrainingJob[Network]:
    """A job that trains a network on pairs. start: the network as it is. text: what identifies the pairs.

    Raises SettingError; TextError if there is no pair.
    """
    refuse_settings_of_text(training)
    if start.config.output != "full" or start.config.is_bidirectional:
        raise SettingError("preferred is for networks that continue texts, with a full output")
    if not pairs:
        raise TextError("there is no pair to train on; give more, or a lower valid_share")
    training = with_adapter_defaults(with_budget(training), adapter)
    training = replace(training, optimiser=training.optimiser or "adamw", compile="no")
    if adapter is None:
        check_trainable(start)
    known: dict[bytes, float] = {}

    def build_network() -> Network:
        if adapter is not None:
            add_adapters(start, adapter.rank, adapter.scale, adapter.lora_layers)
            return start
        network = build(start.config, start.vocabulary_size)
        network.load_state_dict(start.state_dict())
        return network

    return TrainingJob(
        training=training,
        recipe=Recipe.of(training, _BATCH, _RATE if adapter is None else _ADAPTER_RATE, _WARM_UP),
        network={**settings_of(start.config), "beta": beta, **({} if adapter is None else asdict(adapter))},
        text=text,
        build=build_network,
        matrices=Network.matrices if adapter is None else adapter_matrices,
        objective=lambda network, setup: Preferences(network, start, setup, pairs, held_out, beta, known),
        step=f"{training.batch or _BATCH} pairs",
        memory_hint="batch",
        blocks=blocks_of if start.config.blocks else None,
    )


class MicroBatch(NamedTuple):
    """Some pairs of a step: the rows of the chosen answers, then those of the rejected ones, and log Q of each."""

    inputs: Tensor  # (2 pairs, T)
    targets: Tensor  # (2 pairs, T)
    counts: Tensor  # (2 pairs, T), 1 for the answers' tokens, else 0
    before: Tensor  # (2 pairs,)


class Preferences(ExampleObjective[Pair]):
    """An Objective: DPO."""

    def __init__(
        self,
        network: Network,
        reference: Network,
        setup: Setup,
        pairs: Sequence[Pair],
        held_out: Sequence[Pair],
        beta: float,
        known: dict[bytes, float],
    ) -> None:
        """reference: the network as it was; with adapters, the same one. known: log Q of rows, which is filled.

        Raises SettingError if a step cannot be divided among processes and parts.
        """
        self.network, self.reference, self.beta, self.known = network, reference, beta, known
        flops = 4 / 3 * flops_per_token(network)  # Q, and logits twice
        super().__init__(
            setup,
            pairs,
            held_out,
            "pairs",
            size=lambda pair: pair.size,
            predictions=lambda pair: 1,
            flops_per_token=flops,
        )

    def cut(self, examples: Sequence[Pair]) -> list[MicroBatch]:
        ordered = sorted(examples, key=lambda pair: -pair.size)
        return [self._part(group) for group in make_batches(ordered, lambda pair: pair.size, _MAX_TOKENS)]

    def _part(self, pairs: Sequence[Pair]) -> MicroBatch:
        rows = [*(pair.chosen for pair in pairs), *(pair.rejected for pair in pairs)]
        before = torch.tensor([self._log_prob_before(row) for row in rows], device=self.setup.machine.device)
        return MicroBatch(*_padded(rows, self.setup.machine.device), before)

    def _log_prob_before(self, row: Row) -> float:
        """log Q of an answer, in nats."""
        key = row.prompt.to_bytes(4, "big") + row.tokens.tobytes()
        if key not in self.known:
            device = self.setup.machine.device
            reference, was_training = self.reference.to(device).eval(), self.network.training
            # With gradients on, as in training, so that quantised weights are multiplied alike; nothing has any here.
            frozen = [weight for weight in reference.parameters() if weight.requires_grad]
            with without_adapters(reference), self.setup.machine.precision():
                for weight in frozen:
                    weight.requires_grad_(False)
                inputs, targets, counts = _padded([row], device)
                with torch.enable_grad():
                    hidden, _ = reference.read(inputs)
                self.known[key] = float(_log_probs(reference, hidden, targets, counts)[0])
                for weight in frozen:
                    weight.requires_grad_(True)
            self.network.train(was_training)
        return self.known[key]

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        hidden, _ = self.network.read(part.inputs)
        margins = self._margins(hidden, part)
        # The gradient of -log sigmoid(beta m) is that of the rows' log P, weighed by these numbers, which need not
        # hold the logits of all positions.
        weight = self.beta * torch.sigmoid(-self.beta * margins)
        by_row = torch.cat([weight, -weight])[:, None] * part.counts
        carrier = self.network.output.loss(hidden, part.targets, weights=by_row)
        nats = -F.logsigmoid(self.beta * margins).sum()
        return carrier + (nats - carrier).detach()

    def _margins(self, hidden: Float[Tensor, "2P T D"], part: MicroBatch) -> Float[Tensor, " P"]:
        """(log P - log Q)(chosen) - (log P - log Q)(rejected), without gradients."""
        gains = _log_probs(self.network, hidden.detach(), part.targets, part.counts) - part.before
        chosen, rejected = gains.chunk(2)
        return chosen - rejected

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        """The mean loss of a pair; accuracy: the share of pairs whose chosen answer has gained more."""
        chosen, processes = self.sample(tokens), self.setup.processes
        total = torch.zeros(2, dtype=torch.float64)
        for part in self.cut(chosen[processes.rank :: processes.number]):
            with self.setup.machine.precision():
                with torch.no_grad():
                    hidden, _ = self.network.read(part.inputs)
                margins = self._margins(hidden, part)
            nats = -F.logsigmoid(self.beta * margins).sum()
            total += torch.tensor([float(nats), float((margins > 0).sum())], dtype=torch.float64)
        processes.add([total])
        return ValidationResult(float(total[0]) / len(chosen), len(chosen), {"accuracy": float(total[1]) / len(chosen)})

    def unigram_loss(self) -> float:
        """That of a network that has not changed."""
        return math.log(2)


def _padded(rows: Sequence[Row], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets and which of these are the answers', (rows, T). What follows a row changes nothing before it."""
    inputs, targets = (pad([row.tokens[part] for row in rows], END) for part in (slice(None, -1), slice(1, None)))
    counts = np.zeros(targets.shape, np.float32)
    for of_row, row in zip(counts, rows, strict=True):
        of_row[row.prompt - 1 : len(row.tokens) - 1] = 1
    return tuple(torch.from_numpy(array).to(device) for array in (inputs, targets, counts))  # type: ignore[return-value]


@torch.no_grad()
def _log_probs(
    network: Network, hidden: Float[Tensor, "R T D"], targets: Int64[Tensor, "R T"], counts: Float[Tensor, "R T"]
) -> Float[Tensor, " R"]:
    """log P of each row's answer, in nats."""
    rows = zip(hidden.detach(), targets, counts > 0, strict=True)
    return torch.stack([-network.output.loss(own[kept][None], wanted[kept][None]) for own, wanted, kept in rows])
