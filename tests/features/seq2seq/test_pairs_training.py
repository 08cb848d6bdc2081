"""Training on pairs: buckets, losses by hand, forcing, and runs that go on bit for bit."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from samples import examples
from training_runs import numbers

from chainrule.errors import SettingError, TextError
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.objective import Buckets, MicroBatch, TokenPairs, attention_penalty, pairs_job
from chainrule.features.seq2seq.training import train_pairs
from chainrule.neural.scoring import round_up
from chainrule.protocol import END
from chainrule.text.parallel import Pairs
from chainrule.training.config import TrainingConfig, TrainingRun
from chainrule.training.run import run_job

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.reports import Report

pytestmark = pytest.mark.usefixtures("one_thread")  # the networks are tiny

SIZE = 12
SMALL = Seq2SeqConfig(encoder_layers=1, decoder_layers=1, width=16, heads=2, dropout=0.1)
LSTM = replace(SMALL, encoder="lstm", decoder="lstm", score="additive")
QUICK = TrainingConfig(steps=12, batch=8, validate_every=5, save_every=3, precision="float32", compile="no")


def copies(number: int, seed: int) -> TokenPairs:
    """Targets that say their source backwards."""
    chance = np.random.default_rng(seed)
    rows = [chance.integers(3, SIZE, chance.integers(1, 7)).astype(np.int32) for _ in range(number)]
    return TokenPairs(rows, [row[::-1] for row in rows])


def run_of(config: Seq2SeqConfig, training: TrainingConfig = QUICK, **more: Any) -> tuple[Any, Any, list[Report]]:
    told: list[Report] = []
    job = pairs_job(copies(60, 1), copies(20, 2), (SIZE, SIZE), config, training, {})
    network, record = run_job(job, TrainingRun(**{"on_report": told.append, **more}))
    return network, record, told


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@given(lengths, st.integers(1, 200), st.integers(1, 4), st.integers(0, 3))
@example([(1, 1)] * 4 + [(1, 25)], 8, 2, 0)  # the longest pair beside many short ones
@example([(6, 6)] * 15 + [(30, 30)] * 2, 200, 1, 0)  # long pairs beside those that were left of a multiple of 8
@examples(1.2)
def test_each_epoch_has_every_pair_once_in_buckets_of_about_as_many_tokens(pairs, tokens, least, seed) -> None:
    sources, targets = np.array(pairs).T
    buckets = Buckets(sources, targets, tokens, least, seed)
    for epoch in range(2):
        steps = range(epoch * len(buckets), (epoch + 1) * len(buckets))
        chosen = [buckets.pairs(step) for step in steps]
        assert sorted(np.concatenate(chosen).tolist()) == list(range(len(pairs)))
        for step, rows in zip(steps, chosen, strict=True):
            assert buckets.tokens(step + 1) - buckets.tokens(step) == targets[rows].sum()
            assert len(rows) >= min(least, len(pairs))
            if len(rows) >= 2 * least:  # fewer are not cut in two, however long
                assert len(rows) * (sources[rows].max() + targets[rows].max()) <= tokens
    again = Buckets(sources, targets, tokens, least, seed)
    last = 2 * len(buckets) - 1
    assert again.pairs(last).tolist() == buckets.pairs(last).tolist()  # asked without those before


def test_buckets_of_many_lengths_have_few_shapes() -> None:
    """Each new shape of a product costs milliseconds."""
    chance = np.random.default_rng(0)
    sources = chance.integers(5, 80, 4000)
    targets = np.clip(sources + chance.integers(-4, 5, 4000), 1, None)
    buckets = Buckets(sources, targets, 2000, 1, 0)
    shapes, filled = Counter(), 0
    for step in range(len(buckets)):
        rows = buckets.pairs(step)
        shape = len(rows), round_up(int(sources[rows].max())), round_up(int(targets[rows].max()))
        shapes[shape] += 1
        filled += shape[0] * (shape[1] + shape[2])
    assert len(shapes) < 50 < len(buckets)
    assert len({rows * length for rows, length, _ in shapes}) < 30
    assert filled < 1.2 * (sources + targets).sum()


def test_lengths_are_rounded_up_to_four_in_an_octave() -> None:
    found = [round_up(length) for length in range(1, 65)]
    assert sorted(set(found)) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert all(length <= rounded <= length * 1.25 for length, rounded in zip(range(1, 65), found, strict=True))


@pytest.mark.parametrize("config", [SMALL, LSTM], ids=["transformer", "lstm"])
def test_the_first_loss_is_that_of_the_network_token_by_token(config: Seq2SeqConfig) -> None:
    still = replace(config, dropout=0.0)
    job = pairs_job(copies(60, 1), None, (SIZE, SIZE), still, replace(QUICK, steps=1), {})
    torch.manual_seed(0)
    network = job.build().eval()
    pairs = copies(60, 1)
    sources, targets = (np.array([len(row) + 1 for row in side]) for side in pairs)
    chosen = Buckets(sources, targets, int(8 * (sources.mean() + targets.mean())), 1, 0).pairs(0)
    nats = 0.0
    for i in chosen.tolist():
        source = torch.tensor([[*pairs.sources[i].tolist(), END]])
        target = pairs.targets[i].tolist()
        hidden = network(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[END, *target]]))
        log_probs = network.output.log_probs(hidden)[0]
        nats -= sum(log_probs[t, token].item() for t, token in enumerate([*target, END]))
    told: list[Report] = []
    run_job(job, TrainingRun(on_report=told.append))
    assert told[0].loss == pytest.approx(nats / targets[chosen].sum(), rel=1e-5)


def test_a_step_in_parts_is_the_same_step() -> None:
    whole, parts = (
        run_of(replace(SMALL, dropout=0.0), replace(QUICK, accumulate=accumulate, optimiser="sgd"))[2]
        for accumulate in (1, 2)
    )
    assert [each.loss for each in parts] == pytest.approx([each.loss for each in whole], rel=1e-4)


@pytest.mark.parametrize(
    ("config", "training"),
    [
        (SMALL, replace(QUICK, label_smoothing=0.1, ema=0.9)),
        (LSTM, replace(QUICK, forcing="scheduled")),
        (replace(LSTM, attention="hard"), QUICK),
        (replace(SMALL, encoder="convolution", decoder="convolution"), replace(QUICK, forcing="student")),
    ],
    ids=["transformer", "lstm", "hard", "convolution"],
)
def test_an_interrupted_run_goes_on_bit_for_bit(
    config: Seq2SeqConfig, training: TrainingConfig, tmp_path: Path
) -> None:
    whole, _, _ = run_of(config, training)

    def stop(report: Report) -> None:
        if report.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_of(config, training, folder=tmp_path, on_report=stop)
    resumed, record, _ = run_of(config, training, folder=tmp_path, resume=True)
    assert numbers(resumed) == numbers(whole)
    assert record["steps"] == 12


@pytest.mark.parametrize(
    "config",
    [SMALL, LSTM, replace(LSTM, attention="hard", estimator="straight_through"), replace(LSTM, attention="local")],
    ids=["transformer", "lstm", "hard", "local"],
)
def test_a_network_learns(config: Seq2SeqConfig) -> None:
    _, record, told = run_of(config, replace(QUICK, steps=60, learning_rate=1e-2, validate_every=30))
    first = next(report.loss for report in told)
    assert record["validation"]["loss"] < first - 0.15


def test_the_penalty_on_attention_by_hand() -> None:
    """Two steps over three places, of which the second step is padding in the second pair."""
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], [[1.0, 0.0, 0.0], [0.3, 0.3, 0.4]]])
    recorded = [weights[:, None, :1], weights[:, None, 1:]]  # a piece for each step
    mask = torch.tensor([[True, True], [True, False]])
    part = MicroBatch(weights, torch.ones(2, 3, dtype=torch.bool), mask, mask, mask)
    sums = (1 - 0.7) ** 2 + (1 - 0.8) ** 2 + (1 - 0.5) ** 2 + 0 + 1 + 1
    entropies = np.log(2) - sum(p * np.log(p) for p in (0.2, 0.3, 0.5))
    both = Seq2SeqConfig(decoder="lstm", attention="hard", doubly_stochastic=2.0, entropy=0.1)
    assert attention_penalty(recorded, part, both).item() == pytest.approx(2 * sums - 0.1 * entropies)


def test_no_pairs_and_settings_that_do_not_go_together_are_errors() -> None:
    with pytest.raises(TextError, match="there are no pairs"):
        pairs_job(TokenPairs([], []), None, (SIZE, SIZE), SMALL, QUICK, {})
    with pytest.raises(SettingError, match="label_smoothing does not work with hard attention"):
        run_of(replace(LSTM, attention="hard"), replace(QUICK, label_smoothing=0.1))


@pytest.mark.parametrize("has_own", [False, True])
def test_no_more_tokens_are_validated_on_than_wanted(has_own: bool) -> None:
    """Each target is 4 tokens and </s>: four pairs are 20 tokens, and a fifth would be 25."""
    texts = [f"{n} a b c" for n in range(100)]
    pairs = Pairs(texts, texts)
    training = replace(QUICK, steps=1, valid_share=0.5, valid_tokens=24)
    config = replace(SMALL, dropout=0.0)
    model = train_pairs(pairs, config, tokenizer="whitespace", training=training, validation=pairs if has_own else None)
    assert model.record["validation"]["text_tokens"] == 20
    assert model.record["validation"]["pairs"] == 4
    assert model.record["documents"] == (100 if has_own else 96)
