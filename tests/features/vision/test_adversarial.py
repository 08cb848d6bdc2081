"""A model of paragraphs against a discriminator of sentences and of their order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from samples import sampled
from torch import Tensor, nn

import chainrule
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.features.seq2seq.objective import TokenPairs
from chainrule.features.vision.adversarial import (
    AdversarialObjective,
    Discriminator,
    GeneratorAndDiscriminator,
    SentenceRows,
    rewards,
    sentence_rows,
)
from chainrule.protocol import END
from chainrule.training.defaults import Recipe
from chainrule.training.device import machine_on
from chainrule.training.distributed import Processes
from chainrule.training.job import Setup

pytestmark = pytest.mark.usefixtures("one_thread")  # the networks are tiny

RED, BLUE, STOP, SIZE = 3, 4, 5, 6
WRITER = Seq2SeqConfig(
    encoder="none",
    decoder="hierarchical",
    decoder_layers=1,
    width=12,
    dropout=0.0,
    input_feeding=False,
    sentence_end=STOP,
)


def rows_of(paragraphs: list[list[int]]) -> SentenceRows:
    longest = max(map(len, paragraphs))
    tokens = torch.tensor([[*row, *[END] * (longest - len(row))] for row in paragraphs])
    lengths = torch.tensor([[len(row)] for row in paragraphs])
    return sentence_rows(tokens, torch.arange(longest) < lengths, STOP)


def test_paragraphs_are_cut_into_sentences() -> None:
    """Two sentences; one that has not ended; none at all. The last token of a paragraph is its </s>."""
    rows = rows_of([[RED, STOP, BLUE, BLUE, STOP, END], [RED, RED], [END]])
    assert rows.words.tolist() == [
        [[RED, STOP, END], [BLUE, BLUE, STOP]],
        [[RED, RED, END], [END] * 3],
        [[END] * 3] * 2,
    ]
    assert rows.lengths.tolist() == [[2, 3], [2, 0], [0, 0]]
    assert rows.of_tokens.tolist() == [[0, 0, 1, 1, 1, 1], [0] * 6, [0] * 6]
    logits = torch.tensor([[[9.0, 9.0], [9.0, -9.0]], [[-9.0, -9.0], [9.0, 9.0]], [[9.0, 9.0], [9.0, 9.0]]])
    expected = [[1, 1, 0.5, 0.5, 0.5, 0.5], [0] * 6, [0] * 6]
    assert torch.allclose(rewards(logits, rows), torch.tensor(expected).float(), atol=1e-3)


def test_order_is_told_by_the_sentences_before_and_by_nothing_else() -> None:
    """Both kinds of paragraphs have the same sentences."""
    torch.manual_seed(0)
    judge = Discriminator(SIZE, 8)
    kinds = [rows_of([[RED, STOP, BLUE, STOP, END]] * 4), rows_of([[BLUE, STOP, RED, STOP, END]] * 4)]
    optimiser = torch.optim.Adam(judge.parameters(), 0.02)
    for _ in range(60):
        costs = [nn.functional.softplus(-sign * judge(rows)).mean() for sign, rows in zip((1, -1), kinds, strict=True)]
        optimiser.zero_grad()
        sum(costs).backward()  # type: ignore[union-attr]
        optimiser.step()
    given, other = (judge(rows).sigmoid().mean(0) for rows in kinds)  # (2 sentences, 2)
    assert given[:, 1].min() > 0.9
    assert other[:, 1].max() < 0.1
    assert torch.cat((given[:, 0], other[:, 0])).sub(0.5).abs().max() < 0.1


class LikesRed(nn.Module):
    """A judge that has made up its mind."""

    def forward(self, rows: SentenceRows) -> Tensor:
        return torch.where((rows.words == RED).any(2), 9.0, -9.0)[..., None].expand(-1, -1, 2)


@pytest.mark.parametrize("weight", sampled([0.0, 4.0], [4.0]))
def test_what_is_rewarded_is_written_more_often(weight: float) -> None:
    """Half of the given sentences are red. With the reward's weight w, the gradient of the log-odds of red is
    1/2 - p + w p (1 - p), which is zero at the p below.
    """
    torch.manual_seed(0)
    pairs = TokenPairs([np.array([RED], np.int32)] * 64, [np.array([own, STOP], np.int32) for own in (RED, BLUE)] * 32)
    network = GeneratorAndDiscriminator(build_seq2seq(WRITER, SIZE, SIZE))
    network.judge = LikesRed()  # type: ignore[assignment]
    training = chainrule.TrainingConfig(steps=1)
    setup = Setup(training, Recipe(64, 0.1, 0.1, 0), machine_on("cpu", "float32"), Processes())
    objective = AdversarialObjective(network, setup, pairs, weight)
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    for step in range(100):
        [part] = objective.parts(step)
        optimiser.zero_grad()
        (objective.loss(0, part, network, 0.0) / objective.weight(step)).backward()
        optimiser.step()
    [log_probs] = NeuralSeq2SeqModel(network.writer).given(pairs.sources[:1]).score([np.array([RED, STOP], np.int32)])
    expected = 0.5 if not weight else (weight - 1 + math.sqrt((weight - 1) ** 2 + 2 * weight)) / (2 * weight)
    assert np.exp(log_probs[0]) == pytest.approx(expected, abs=0.08)
