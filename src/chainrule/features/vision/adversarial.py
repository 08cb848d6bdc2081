"""Adversarial training of a model that writes paragraphs: a discriminator judges them, and each learns from the other.

Liang et al. 2017, Recurrent Topic-Transition GAN for Visual Paragraph Generation. One discriminator reads the words of
a sentence, another the vectors of the sentences so far (section 3.2). The reward of a sentence is the probability that
the discriminators give it of being a given one; the model learns from what it wrote by REINFORCE (Williams 1992),
besides the given paragraphs.
Legend: B paragraphs, T tokens, N sentences, L tokens of a sentence, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.features.seq2seq.network.model import SourceConditionedNetwork
from chainrule.features.seq2seq.objective import Seq2SeqObjective, seq2seq_recipe
from chainrule.protocol import END
from chainrule.training.job import StatelessObjective, TrainingJob, ValidationResult
from chainrule.training.objectives.next_token import scheduled_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float, Int64

    from chainrule.features.seq2seq.network.network import Seq2SeqNetwork
    from chainrule.features.seq2seq.objective import TokenPairs
    from chainrule.training.config import TrainingConfig
    from chainrule.training.job import Setup


class SentenceRows(NamedTuple):
    """The sentences of paragraphs. words: padded with </s>. lengths: 0 where there is no sentence. of_tokens: the
    sentence of each token of a paragraph; that of its </s> is the last one.
    """

    words: Int64[Tensor, "B N L"]
    lengths: Int64[Tensor, "B N"]
    of_tokens: Int64[Tensor, "B T"]


def sentence_rows(tokens: Int64[Tensor, "B T"], is_token: Bool[Tensor, "B T"], sentence_end: int) -> SentenceRows:
    """Cut paragraphs after each sentence end. is_token: False after </s>."""
    is_word = is_token & (tokens != END)
    ends = (tokens == sentence_end) & is_word
    number = ends.cumsum(1) - ends.long()  # of sentences that ended before
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    begins = torch.where(ends, steps + 1, 0).cummax(1).values
    begins = torch.cat((torch.zeros_like(begins[:, :1]), begins[:, :-1]), 1)
    place = steps - begins
    sentences, longest = int((number * is_word).max()) + 1, int((place * is_word).max()) + 1
    words = tokens.new_full((len(tokens), sentences, longest), END)
    rows = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(tokens)
    words[rows[is_word], number[is_word], place[is_word]] = tokens[is_word]
    lengths = (words != END).sum(2)
    last = ((lengths > 0).sum(1) - 1).clamp(min=0)
    return SentenceRows(words, lengths, torch.minimum(number, last[:, None]))


class Discriminator(nn.Module):
    """Two LSTMs: over the words of each sentence, and over the vectors of sentences."""

    def __init__(self, vocabulary_size: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.words, self.sentences = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.of_sentence, self.of_transition = (nn.Linear(width, 1) for _ in range(2))

    def forward(self, rows: SentenceRows) -> Float[Tensor, "B N 2"]:
        """Return the logits that a sentence was given, by its words, and by the sentences before it."""
        (paragraphs, sentences), width = rows.lengths.shape, self.words.hidden_size
        hidden, _ = self.words(self.embedding(rows.words.flatten(0, 1)))  # (B N, L, D)
        last = (rows.lengths.flatten() - 1).clamp(min=0)
        vectors = hidden[torch.arange(len(hidden), device=hidden.device), last].view(paragraphs, sentences, width)
        followed, _ = self.sentences(vectors)
        return torch.cat((self.of_sentence(vectors), self.of_transition(followed)), 2)


def rewards(logits: Float[Tensor, "B N 2"], rows: SentenceRows) -> Float[Tensor, "B T"]:
    """Return the reward of each token: the probability that its sentence was a given one, as the mean of both
    discriminators; 0 where there is no sentence.
    """
    judged = logits.detach().float().sigmoid().mean(2) * (rows.lengths > 0)
    return judged.gather(1, rows.of_tokens)


class GeneratorAndDiscriminator(nn.Module):
    """A model of paragraphs and its discriminator."""

    def __init__(self, writer: Seq2SeqNetwork) -> None:
        super().__init__()
        self.writer = writer
        self.judge = Discriminator(writer.vocabulary_size, writer.decoder.width)

    def forward(self, *inputs: Any) -> Tensor:
        """Return what the writer returns."""
        return self.writer(*inputs)


def adversarial_job(
    build: Callable[[], Seq2SeqNetwork],
    pairs: TokenPairs,
    training: TrainingConfig,
    origin: dict[str, Any],
    *,
    weight: float,
) -> TrainingJob[GeneratorAndDiscriminator]:
    """Train a model of paragraphs that has learned from pairs, and a discriminator.

    build: makes a copy of the trained model. weight: that of the rewards, relative to the log-probabilities of given
    paragraphs.
    """
    config = build().config
    recipe = seq2seq_recipe(config, training)
    return TrainingJob(
        training=training,
        recipe=recipe,
        network={"discriminator": weight},
        text={**origin, "ids": pairs.digest(), "validation_tokens": None},
        build=lambda: GeneratorAndDiscriminator(build()),
        matrices=lambda _: [],
        objective=lambda network, setup: AdversarialObjective(network, setup, pairs, weight),
        step=f"about {recipe.batch} pairs",
        memory_hint="batch or width",
    )


class AdversarialObjective(StatelessObjective):
    """An Objective with three losses: of given paragraphs, of paragraphs that the model writes, and of the
    discriminator.
    """

    def __init__(self, network: GeneratorAndDiscriminator, setup: Setup, pairs: TokenPairs, weight: float) -> None:
        self.network, self.reward_weight = network, weight
        self.given = Seq2SeqObjective(network.writer, setup, pairs, None)
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
        """Return what the decoder reads and writes, </s> first, and which of the tokens after it are of the
        paragraph.
        """
        writer = self.network.writer
        bound = SourceConditionedNetwork(writer, writer.read(part.sources, part.source_mask))
        read = scheduled_inputs(
            lambda tokens, state: bound(bound.embed(tokens), state),
            bound.output,
            part.inputs,
            bound.start(len(part.inputs)),
            1.0,
        )
        written = read[:, 1:] == END
        return read, (written.cumsum(1) - written.long()) == 0

    def validate(self, tokens: int) -> ValidationResult:
        raise NotImplementedError  # there is no validation: the last weights are the result

    def unigram_loss(self) -> float:
        raise NotImplementedError


def _cost(logits: Tensor, label: float) -> Tensor:
    """Return -log P(label) of all sentences, in nats. label: 1 for given ones, 0 for the model's."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label), reduction="sum")
