"""What is masked: how much, whole words, spans, what becomes of it; and the two losses of directions that are apart."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training_runs import QUICK, VOCABULARY, trained

from chainrule.neural.build import build
from chainrule.neural.config import BidirectionalConfig, MaskedConfig
from chainrule.protocol import BEGIN, END
from chainrule.training.objectives.masked import MaskedObjective, mask_rows

TARGETS = np.random.default_rng(0).integers(2, 50, (40, 250))
BEGINS = np.arange(50) % 3 == 0


def chance() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("masks", ["tokens", "words", "spans"])
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_about_the_share_is_masked_and_most_of_it_hidden(masks: str, share: float) -> None:
    config = MaskedConfig(masks=masks, masked_share=share, random_share=0.2, kept_share=0.1)
    rows = mask_rows(TARGETS, config, BEGINS, chance())
    assert np.array_equal(rows.targets, TARGETS)
    assert np.array_equal(rows.inputs[~rows.predicted], TARGETS[~rows.predicted])
    assert rows.predicted[TARGETS != END].mean() == pytest.approx(share, abs=0.05)
    assert not rows.predicted[TARGETS == END].any()
    hidden = rows.inputs[rows.predicted]
    assert (hidden == BEGIN).mean() == pytest.approx(0.7, abs=0.04)
    assert (hidden == TARGETS[rows.predicted]).mean() == pytest.approx(0.1 + 0.2 / 47, abs=0.04)
    assert hidden.min() >= BEGIN


@given(
    st.sampled_from(["words", "spans"]), st.lists(st.integers(2, 9), min_size=2, max_size=30), st.integers(0, 1 << 30)
)
def test_words_are_masked_whole_and_one_at_least(masks: str, tokens: list[int], seed: int) -> None:
    begins = np.arange(10) < 6
    rows = mask_rows(np.array([tokens]), MaskedConfig(masks=masks), begins, np.random.default_rng(seed))
    assert rows.predicted.any()
    for place in range(1, len(tokens)):
        goes_on = not begins[tokens[place]] and tokens[place - 1] != END
        assert tokens[place] != END or not rows.predicted[0, place] or set(tokens) == {END}
        assert not goes_on or rows.predicted[0, place] == rows.predicted[0, place - 1]


def test_spans_are_longer_than_words() -> None:
    def run(masks: str) -> float:
        predicted = mask_rows(TARGETS, MaskedConfig(masks=masks), np.ones(50, np.bool_), chance()).predicted.ravel()
        return float(predicted.sum() / np.count_nonzero(np.diff(predicted.astype(np.int8)) == 1))

    assert run("words") < 2
    assert 4 < run("spans") < 8


def test_the_same_step_has_the_same_masks_and_another_one_others() -> None:
    config = MaskedConfig(layers=1, width=16, heads=2, context=8, masks="tokens")
    first, record, told = trained(config)
    second, _, _ = trained(config)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert "bits_per_byte" not in record["validation"]
    assert told[-1].bits_per_byte is None


def test_a_masked_network_learns_what_both_sides_say() -> None:
    """Tokens go round in a circle, so that either side tells the one between; with chance alone it is log 9."""
    stream = (2 + np.arange(400) % (VOCABULARY - 2)).astype(np.int32)
    config = MaskedConfig(layers=1, width=16, heads=2, context=8, memory="stream", masked_share=0.2)
    training = replace(QUICK, steps=120, batch=16, validate_every=None)
    _, _, told = trained(config, training, stream)
    assert told[-1].loss < np.log(9) / 2


def test_a_note_warns_where_documents_are_much_shorter_than_the_context() -> None:
    lines = np.tile(np.array([4, 5, 6, END], np.int32), 50)
    config = MaskedConfig(layers=1, width=8, heads=2, context=16)
    _, _, told = trained(config, stream=lines)
    assert told[0].note is not None
    assert told[0].note.startswith("documents have 4 tokens on average, the context 16")
    for other in (replace(config, memory="stream"), replace(config, context=12)):
        _, _, told = trained(other, stream=lines)
        assert told[0].note is None
    _, _, told = trained(config, stream=lines, start=build(config, VOCABULARY))  # whose memory is what it is
    assert told[0].note is None


def test_directions_apart_are_trained_by_the_mean_of_their_two_losses() -> None:
    config = BidirectionalConfig(layers=1, width=12, context=6, loss="apart", memory="stream")
    network = build(config, VOCABULARY)
    tokens = torch.tensor([[3, 4, 5, 6, 7, 8]])
    before, behind = network.encoder.sides(network.embedding(tokens))
    losses = [-network.output.log_probs_of(side, tokens).sum() for side in (before, behind)]

    part = (tokens, tokens, torch.ones_like(tokens, dtype=torch.bool))
    rows = MaskedObjective._loss(SimpleNamespace(network=network), part, network, 0.0)
    torch.testing.assert_close(rows, sum(losses) / 2)
