"""A second phase of training: a model of paragraphs writes, a discriminator judges, and each learns from the other.

Liang et al. 2017: the reward of a sentence is how likely the discriminator finds it given, by its words and after the
sentences before it; the model learns from what it wrote by REINFORCE (Williams 1992), beside the given paragraphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.seq2seq.model import Bound
from chainrule.protocol import END
from chainrule.training.defaults import conditional_recipe
from chainrule.training.job import TrainingJob
from chainrule.training.objective import CarriesNothing, ValidationResult
from chainrule.training.objectives.adversarial import Discriminator, rewards, sentence_rows
from chainrule.training.pairs import GivenSource
from chainrule.training.scheduled_sampling import own_guesses

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Int64

    from chainrule.neural.seq2seq.network import ConditionalNetwork
    from chainrule.training.config import TrainingConfig
    from chainrule.training.job import Setup
    from chainrule.training.pairs import TokenPairs


class JudgedWriter(nn.Module):
    """A model of paragraphs and its discriminator."""

    def __init__(self, writer: ConditionalNetwork) -> None:
        super().__init__()
        self.writer = writer
        self.judge = Discriminator(writer.vocabulary_size, writer.decoder.width)

    def forward(self, *inputs: Any) -> Tensor:
        """As the writer's."""
        return self.writer(*inputs)


def adversarial_job(
    build: Callable[[], ConditionalNetwork],
    pairs: TokenPairs,
    training: TrainingConfig,
    origin: dict[str, Any],
    *,
    weight: float,
) -> TrainingJob[JudgedWriter]:
    """Trains a model of paragraphs that has learned from pairs, and a discriminator.

    build: a copy of the trained model. weight: of the rewards beside the log-probabilities of given paragraphs.
    """
    config = build().config
    recipe = conditional_recipe(config, training)
    return TrainingJob(
        training=training,
        recipe=recipe,
        network={"discriminator": weight},
        text={**origin, "ids": pairs.digest(), "validation_tokens": None},
        build=lambda: JudgedWriter(build()),
        matrices=lambda _: [],
        objective=lambda network, setup: WrittenAndGiven(network, setup, pairs, weight),
        step=f"about {recipe.batch} pairs",
        smaller="batch or width",
    )


class WrittenAndGiven(CarriesNothing):
    """An Objective: given paragraphs, paragraphs that the model writes, and which of both the discriminator sees."""

    def __init__(self, network: JudgedWriter, setup: Setup, pairs: TokenPairs, weight: float) -> None:
        self.network, self.reward_weight = network, weight
        self.given = GivenSource(network.writer, setup, pairs, None)
        self.epoch, self.flops_per_token = self.given.epoch, 3 * self.given.flops_per_token
        self.row_tokens, self.validation_tokens = self.given.row_tokens, 0
        self.sentence_end = network.writer.config.sentence_end
        assert self.sentence_end is not None

    def tokens(self, steps: int) -> int:
        return self.given.tokens(steps)

    def parts(self, step: int) -> list[Any]:
        return self.given.parts(step)

    def weight(self, step: int) -> float:
        return self.given.weight(step)

    def loss(self, number: int, part: Any, forward: Callable[..., Any], done: float) -> Tensor:
        assert self.sentence_end is not None
        written, is_written = self._write(part)
        given = sentence_rows(part.targets, part.target_mask, self.sentence_end)
        own = sentence_rows(written[:, 1:], is_written, self.sentence_end)
        logits = [self.network.judge(rows) for rows in (given, own)]
        judged = _cost(logits[0][given.lengths > 0], 1.0) + _cost(logits[1][own.lengths > 0], 0.0)
        reward = rewards(logits[1], own)[is_written]
        hidden = forward(part.sources, part.source_mask, written[:, :-1])
        nats = -self.network.writer.output.log_probs_of(hidden[is_written], written[:, 1:][is_written])
        chosen = ((reward - reward.mean()) * nats).sum()
        return self.given.loss(number, part, forward, done) + self.reward_weight * chosen + judged

    def _write(self, part: Any) -> tuple[Int64[Tensor, "B T"], Bool[Tensor, "B T-1"]]:
        """What the decoder reads and writes, </s> first, and which of the tokens after it are of the paragraph."""
        writer = self.network.writer
        bound = Bound(writer, writer.read(part.sources, part.source_mask))
        read = own_guesses(
            lambda tokens, state: bound(bound.embed(tokens), state),
            bound.output,
            part.inputs,
            bound.start(len(part.inputs)),
            1.0,
        )
        written = read[:, 1:] == END
        return read, (written.cumsum(1) - written.long()) == 0

    def validated(self, tokens: int) -> ValidationResult:
        raise NotImplementedError  # there is no validation: the last weights are the result

    def unigram_loss(self) -> float:
        raise NotImplementedError


def _cost(logits: Tensor, label: float) -> Tensor:
    """-log P(label) of all sentences, in nats. label: 1 of given ones, 0 of the model's."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label), reduction="sum")
