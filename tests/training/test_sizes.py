"""The size of a network follows its minutes where its settings leave it open. Speeds are simulated."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from test_minutes import LONG, Machine, Stop
from test_minutes import MINUTES as MUON
from training_runs import QUICK, text, trained

from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.neural.config import (
    BidirectionalConfig,
    ConvolutionConfig,
    FeedforwardConfig,
    MaskedRecurrentConfig,
    RecurrentConfig,
    TransformerConfig,
    preset,
)
from chainrule.training import sizes
from chainrule.training.config import TrainingRun
from chainrule.training.job import KnownDistribution, StreamOptions
from chainrule.training.objectives.next_token import next_token_job
from chainrule.training.sizes import Trial, fit_size

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.neural.config import NetworkConfig
    from chainrule.training.reports import Report

SMALL: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "context": 8}
LARGE: dict[str, Any] = {"layers": 1, "width": 16, "heads": 2, "context": 8}
LONG_TEXT = 10**9
MINUTES = replace(MUON, optimiser="adamw")  # which takes no time on a simulated machine


@pytest.fixture
def two_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransformerConfig, "sizes", (SMALL, LARGE))


def size_of(config: Any) -> dict[str, int]:
    return {name: getattr(config, name) for name in SMALL}


def trial_of(tokens: float, tried: list[int] | None = None, vocabulary: int = 50) -> Any:
    """Trials of a machine that reads so many tokens, whatever the network: 12 layers width^2 weights, and 2
    vocabulary width in the tables of tokens.
    """

    def trial(config: Any) -> Trial:
        if tried is not None:
            tried.append(config.width)
        weights = 12 * config.layers * config.width**2
        return Trial(weights, weights + 2 * vocabulary * config.width, tokens)

    return trial


@pytest.mark.parametrize(
    ("tokens", "width"),
    [(0, 32), (3 * 98_304 - 1, 32), (3 * 98_304, 64), (3 * 393_216, 128), (1e12, 256)],
    ids=["no time", "just too few", "just enough", "enough for the next", "as many as you like"],
)
def test_the_largest_size_that_reads_three_tokens_a_weight_is_chosen(tokens: float, width: int) -> None:
    """Two layers of 64: 2 x 12 x 64 x 64 = 98,304 weights; of 128: 393,216."""
    names = frozenset(TransformerConfig.sizes[0])
    fitted = fit_size(TransformerConfig(), names, LONG_TEXT, trial_of(tokens))
    assert fitted is not None
    assert fitted.config.width == width


def test_a_large_vocabulary_wants_tokens_too() -> None:
    """A million words of width 128: 2 x 1,000,000 x 128 + 393,216 = 256,393,216 parameters, 2 % are 5,127,864.32."""
    names = frozenset(TransformerConfig.sizes[0])
    for tokens, width in ((5_127_864, 64), (5_127_865, 128)):
        fitted = fit_size(TransformerConfig(), names, LONG_TEXT, trial_of(tokens, vocabulary=1_000_000))
        assert fitted is not None
        assert fitted.config.width == width


def test_a_short_text_has_a_small_network_however_many_its_minutes() -> None:
    """Two layers of 64 and 50 tokens: 98,304 + 2 x 50 x 64 = 104,704 parameters, 15 for each of 6,981 tokens."""
    names = frozenset(TransformerConfig.sizes[0])
    for text_tokens, width in ((6_980, 32), (6_981, 64)):
        fitted = fit_size(TransformerConfig(), names, text_tokens, trial_of(1e12))
        assert fitted is not None
        assert fitted.config.width == width


def test_a_recurrent_network_has_at_most_five_weights_in_its_layers_for_each_token_of_a_text() -> None:
    names = frozenset(RecurrentConfig.sizes[0])
    for text_tokens, width in ((157_286, 128), (157_287, 256)):  # 12 x 1 x 256 x 256 = 786,432 = 5 x 157,286.4
        fitted = fit_size(RecurrentConfig(), names, text_tokens, trial_of(1e12, vocabulary=1))
        assert fitted is not None
        assert (fitted.config.width, fitted.config.layers) == (width, 1)


def test_no_size_is_tried_beyond_the_first_that_is_too_large() -> None:
    tried: list[int] = []
    fitted = fit_size(TransformerConfig(), frozenset(TransformerConfig.sizes[0]), LONG_TEXT, trial_of(5e5, tried))
    assert fitted is not None
    assert (tried, fitted.config.width) == ([32, 64, 128], 64)
    assert fitted.larger == Trial(393_216, 406_016, 5e5)


def test_settings_that_are_given_stay_and_rule_out_sizes_that_they_do_not_fit() -> None:
    """A window of 100 needs a context of at least 100, so that small sizes have that of the fifth, 128."""
    config = TransformerConfig(width=96, window=100)
    names = frozenset(TransformerConfig.sizes[0])
    fitted = fit_size(config, names - config.given, LONG_TEXT, trial_of(0))
    assert fitted is not None
    assert (fitted.config.width, fitted.config.context, fitted.config.window) == (96, 128, 100)
    tried: list[int] = []
    smallest = fit_size(TransformerConfig(window=100), names, LONG_TEXT, trial_of(0, tried))
    assert smallest is not None
    assert (smallest.config.layers, smallest.config.width, smallest.config.context) == (2, 32, 128)
    assert tried == [32, 64]
    assert fit_size(replace(config, window=1000, context=1000), frozenset({"context"}), LONG_TEXT, trial_of(0)) is None


@pytest.mark.parametrize("family", sorted({**NETWORKS, **BIDIRECTIONAL}))
def test_sizes_rise_and_end_with_the_default(family: str) -> None:
    config = {**NETWORKS, **BIDIRECTIONAL}[family]
    if family == "grid":  # it reads pictures
        assert config.sizes == ()
        return
    default, ladder = config(), [config(**size) for size in config.sizes]
    assert ladder[-1] == default
    assert [size.width for size in ladder] == sorted(size.width for size in ladder)
    assert len({frozenset(size) for size in config.sizes}) == 1


def test_what_was_given_is_known_even_where_it_is_the_default() -> None:
    config = TransformerConfig(width=256)
    assert config == TransformerConfig()
    assert (config.given, TransformerConfig().given) == ({"width"}, frozenset())
    assert pickle.loads(pickle.dumps(config)).given == copy.deepcopy(config).given == {"width"}
    assert preset("gpt2", layers=6).given >= {"layers", "norm"}
    assert not preset("gpt2", layers=6).given & {"width", "heads", "context"}


@pytest.mark.usefixtures("two_sizes")
@pytest.mark.parametrize(("row", "width"), [(0.04, 16), (1.0, 8)], ids=["quick", "slow"])
def test_a_slow_machine_trains_a_smaller_network_and_says_so(
    row: float, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(row).installed(monkeypatch)
    network, _, told = trained(TransformerConfig(), MINUTES, validation=LONG)
    assert size_of(network.config) == (SMALL if width == 8 else LARGE)
    assert f"size for this time: layers=1, width={width}, heads=2, context=8" in (told[0].note or "")
    assert 54 < machine.now < 70


SMALL_FIRST, LARGE_FIRST = (lambda now: 50.0 if now < 16 else 1.0), (lambda now: 1.0 if now < 1.5 else 40.0)


@pytest.mark.usefixtures("two_sizes")
@pytest.mark.parametrize(
    ("slower", "widths"),
    [
        pytest.param(SMALL_FIRST, [8, 16], id="busy in the trial"),
        pytest.param(LARGE_FIRST, [16, 8], id="busy later", marks=pytest.mark.thorough),
    ],
)
def test_a_size_that_a_moment_chose_is_chosen_again_after_a_tenth(
    slower: Any, widths: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows take 0.02 s, but 50 or 40 times as long during or after the trials. The run still takes its minute; one that
    is stopped after it began again keeps the second size.
    """
    machine = Machine(0.02).installed(monkeypatch)
    machine.slower = slower
    network, _, told = trained(TransformerConfig(), MINUTES, validation=LONG)
    notes = [report.note for report in told if "size for this time" in (report.note or "")]
    assert [f"width={width}, heads" in note for note, width in zip(notes, widths, strict=True) if note] == [True, True]
    assert re.match(
        r"training reads [\d,]+ tokens a second, and the trial had expected [\d,]+: it begins", notes[1] or ""
    )
    assert network.config.width == widths[1]
    assert 54 < machine.now < 70

    begun = []

    def stop(report: Report) -> None:
        begun.append("begins again" in (report.note or ""))
        if sum(begun):
            Stop(machine, 0)(report)

    machine.now = 0.0
    again: dict[str, Any] = {"validation": LONG, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        trained(TransformerConfig(), replace(MINUTES, save_every=50), told=stop, **again)
    machine.slower = lambda now: 4.0
    network, _, told = trained(TransformerConfig(), replace(MINUTES, save_every=50), resume=True, **again)
    assert network.config.width == widths[1]
    assert not any("begins again" in (report.note or "") for report in told)


@pytest.mark.usefixtures("two_sizes")
def test_a_speed_within_a_factor_of_two_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one that chooses the same size: the run goes on, and the trial is not tried twice."""
    machine = Machine(0.04).installed(monkeypatch)
    tried = []
    trial = sizes._trial
    monkeypatch.setattr(sizes, "_trial", lambda *arguments: tried.append(None) or trial(*arguments))
    for factor in (1.8, 0.45):
        tried.clear()
        machine.now = 0.0
        machine.slower = lambda now, factor=factor: 1.0 if now < 1.5 else factor
        network, _, told = trained(TransformerConfig(), MINUTES, validation=LONG)
        assert network.config.width == 16
        assert not any("begins again" in (report.note or "") for report in told)
        assert len(tried) == 2


@pytest.mark.parametrize(
    ("stalls", "computed", "seconds"),
    [([], 0.1, 0.1), ([0], 0.1, 0.1), ([1, 2, 3], 0.1, 0.1), (range(99), 4.0, 4.0), (range(99), 0.1, 0.3)],
    ids=["quiet", "one stalls", "some stall", "all are slow", "all wait"],
)
def test_a_trial_is_a_median_and_waiting_counts_twice_as_much_as_computing_at_most(
    stalls: Any, computed: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 0.1 s, on one thread; those that stall take 4 s. computed: seconds of each by the processor."""
    clock, steps = SimpleNamespace(now=0.0, used=0.0), itertools.count()
    times = SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: clock.used)
    monkeypatch.setattr(sizes, "time", times)
    monkeypatch.setattr(sizes, "follow_load", lambda: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)

    def step() -> None:
        clock.now += 4.0 if next(steps) in stalls else 0.1
        clock.used += computed

    setup: Any = SimpleNamespace(machine=SimpleNamespace(wait=lambda: None, device=torch.device("cpu")))
    assert sizes._seconds([step], setup, 2.0) == [pytest.approx(seconds)]


@pytest.mark.usefixtures("two_sizes")
def test_other_budgets_and_sizes_that_are_given_leave_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(1.0).installed(monkeypatch)
    monkeypatch.setattr(sizes, "_trial", lambda *_: pytest.fail("a size is tried"))
    for config, training in (
        (TransformerConfig(), replace(QUICK, steps=1)),
        (TransformerConfig(**LARGE), MINUTES),
    ):
        network, _, told = trained(config, training, text(600))
        assert network.config == config
        assert "size for this time" not in (told[0].note or "")


@pytest.mark.usefixtures("two_sizes")
def test_a_new_run_says_its_size_though_it_was_to_resume_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1.0).installed(monkeypatch)
    again: dict[str, Any] = {"validation": LONG, "folder": tmp_path, "resume": True}
    notes: list[str] = []

    def noting(report: Report) -> None:
        notes.append(report.note or "")
        Stop(machine, 20)(report)

    with pytest.raises(KeyboardInterrupt):
        trained(TransformerConfig(), MINUTES, told=noting, **again)
    assert "size for this time" in notes[0]
    machine.now = 0.0
    _, _, told = trained(TransformerConfig(), MINUTES, **again)
    assert not any("size for this time" in (report.note or "") for report in told)


@pytest.mark.thorough
@pytest.mark.usefixtures("two_sizes")
def test_a_run_that_resumes_keeps_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1.0).installed(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        trained(TransformerConfig(), MINUTES, validation=LONG, folder=tmp_path, told=Stop(machine, 20))
    kept = json.loads((tmp_path / "checkpoints" / "checkpoint.json").read_text())
    assert kept["run"]["network"]["width"] == 8
    Machine(0.02).installed(monkeypatch)
    network, _, _ = trained(TransformerConfig(), MINUTES, validation=LONG, folder=tmp_path, resume=True)
    assert size_of(network.config) == SMALL


@pytest.mark.parametrize(
    ("config", "vocabulary", "output"),
    [
        (TransformerConfig(), 999, "full"),
        (TransformerConfig(), 3_999, "full, tied"),
        (TransformerConfig(), 4_000, "sampled, tied"),
        (TransformerConfig(tied=False), 12_000, "sampled"),
        (TransformerConfig(output="full"), 12_000, "full, tied"),
        (TransformerConfig(), 12_001, "adaptive"),
        (TransformerConfig(output="full"), 12_001, "full, tied"),
        (TransformerConfig(tied=True), 12_001, "full, tied"),
        (FeedforwardConfig(), 12_000, "full"),
    ],
    ids=["small", "middle", "large", "not tied", "full", "very large", "very large, full", "tied", "window"],
)
@pytest.mark.usefixtures("two_sizes")
def test_a_large_vocabulary_has_a_tied_and_sampled_or_an_adaptive_output(
    config: NetworkConfig, vocabulary: int, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "_trial", lambda *_: Trial(1, 1, 10))
    options = StreamOptions(training=MINUTES)
    fitted, _, _ = sizes.with_size(next_token_job, text(), vocabulary, config, options, TrainingRun())
    assert fitted.output + ", tied" * fitted.tied == output


def test_what_learns_a_residual_is_not_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output begins at 0."""
    monkeypatch.setattr(sizes, "_trial", lambda *_: Trial(1, 1, 10))
    rows = lambda positions: np.zeros((len(positions), 10_000), np.float32)  # noqa: E731
    nothing = KnownDistribution(rows, rows, "")
    for known, is_tied in ((None, True), (nothing, False)):
        options = StreamOptions(training=MINUTES, known=known)
        fitted, _, _ = sizes.with_size(next_token_job, text(), 10_000, RecurrentConfig(), options, TrainingRun())
        assert fitted.tied == is_tied


@pytest.mark.parametrize(
    ("config", "tokens", "dropout"),
    [
        (TransformerConfig(), 400 * 10, 0.2),
        (TransformerConfig(), 400 * 10 - 1, 0.0),
        (TransformerConfig(dropout=0.0), 400 * 10, 0.0),
    ],
    ids=["many times", "fewer", "given"],
)
@pytest.mark.usefixtures("two_sizes")
def test_what_could_learn_its_text_by_heart_has_dropout(
    config: TransformerConfig, tokens: int, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "_trial", lambda *_: Trial(1, 1600, tokens))
    options = StreamOptions(training=MINUTES)
    fitted, notes, _ = sizes.with_size(next_token_job, text(400), 11, config, options, TrainingRun())
    assert fitted.dropout == dropout
    assert (
        "dropout=0.2, since there is time to read the text 10 times, with 4 parameters, vectors and output included, "
        "for each of its tokens" in notes
    ) == bool(dropout)


def test_a_transformer_of_many_tokens_has_dropout_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,600 parameters for 400 tokens are 4, times 3 passes 12; what is not read twice is not memorised."""
    options = StreamOptions(training=MINUTES)
    cases = (1600, 400 * 3 - 1, 0.0), (1600, 400 * 3, 0.1), (1600, 400 * 10, 0.2), (6000, 400 * 2 - 1, 0.0)
    for parameters, tokens, dropout in cases:
        found = Trial(1, parameters, tokens)
        monkeypatch.setattr(sizes, "_trial", lambda *_, found=found: found)
        for settings in ({"tied": True}, {"output": "adaptive"}):
            config = TransformerConfig(**settings)
            fitted, _, _ = sizes.with_size(next_token_job, text(400), 11, config, options, TrainingRun())
            assert fitted.dropout == dropout


def test_a_recurrent_network_has_dropout_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 parameters for 400 tokens are 3.75, times 4 passes 15."""
    options = StreamOptions(training=MINUTES)
    for tokens, dropout in ((400 * 4, (0.1, 0.3)), (400 * 4 - 1, (0.0, 0.0))):
        monkeypatch.setattr(sizes, "_trial", lambda *_, tokens=tokens: Trial(1, 1500, tokens))
        fitted, _, _ = sizes.with_size(next_token_job, text(400), 11, RecurrentConfig(), options, TrainingRun())
        assert (fitted.input_dropout, fitted.output_dropout) == dropout


@pytest.mark.parametrize("kind", [MaskedRecurrentConfig, BidirectionalConfig])
def test_a_recurrent_network_that_reads_both_ways_has_the_dropout_of_few_tokens(
    kind: type[MaskedRecurrentConfig | BidirectionalConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its states cannot be regularised."""
    monkeypatch.setattr(sizes, "_trial", lambda *_: Trial(1, 1500, 400 * 4))
    config, options = kind(output="adaptive"), StreamOptions(training=MINUTES)
    fitted, _, _ = sizes.with_size(next_token_job, text(400), 11, config, options, TrainingRun())
    assert (fitted.input_dropout, fitted.output_dropout, fitted.activation_regularisation) == (0.1, 0.3, 0.0)


def test_a_recurrent_network_of_many_tokens_is_regularised_more_and_after_half_as_many_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1,500 parameters for 400 tokens are 3.75, times 2 passes 7.5, times 16 passes 60, and times 40 passes 150."""
    options = StreamOptions(training=MINUTES)
    none, least, much = (0.0, 0.0, 0.0, 0.0, 0.0), (0.2, 0.0, 0.4, 0.0, 2.0), (0.4, 0.0, 0.6, 0.0, 2.0)
    most = (0.5, 0.3, 0.6, 0.3, 2.0)
    passes = ((2, none, least), (16, least, much), (40, much, most))
    cases = [case for n, before, after in passes for case in ((400 * n - 1, before), (400 * n, after))]
    for tokens, values in cases:
        monkeypatch.setattr(sizes, "_trial", lambda *_, tokens=tokens: Trial(1, 1500, tokens))
        for settings in ({"tied": True}, {"output": "adaptive"}):
            config = RecurrentConfig(temporal_regularisation=0.5, **settings)
            fitted, _, _ = sizes.with_size(next_token_job, text(400), 11, config, options, TrainingRun())
            dropout = fitted.input_dropout, fitted.dropout, fitted.output_dropout, fitted.weight_drop
            assert (*dropout, fitted.activation_regularisation) == values
            assert fitted.temporal_regularisation == 0.5


@pytest.mark.usefixtures("two_sizes")
@pytest.mark.parametrize(
    ("sizes_tried", "said"),
    [
        ([Trial(9, 100, 1e6), Trial(9, 200, 1e6)], "1 minute has time for 1,000,000 tokens for 200 parameters"),
        (
            [Trial(9, 100, 1e6), Trial(9, 6001, 1e6)],
            "tokens for 100 parameters; the next size is too large for the text: 6,001 parameters, more than 15 for "
            "each of its tokens",
        ),
        (
            [Trial(9, 6001, 1e6), Trial(9, 7000, 1e6)],
            "tokens for 6,001 parameters: many for so short a text, and there is no smaller size",
        ),
        (
            [Trial(9, 100, 1e6), Trial(9, 200, 26)],
            "1,000,000 tokens for 100 parameters, and in the next size 26 tokens for 200 parameters",
        ),
    ],
    ids=["the largest", "a short text", "a text too short for any", "little time"],
)
def test_the_note_says_what_decided(sizes_tried: list[Trial], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 400 tokens takes 6,000 parameters, and 9 weights want 27 tokens."""
    tried = iter(sizes_tried)
    monkeypatch.setattr(sizes, "_trial", lambda *_: next(tried))
    options = StreamOptions(training=MINUTES)
    _, notes, _ = sizes.with_size(next_token_job, text(400), 11, TransformerConfig(), options, TrainingRun())
    assert notes[1].endswith(said)


def test_heads_are_those_of_a_width_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """And sizes that are the same are tried once: three contexts are open."""
    tried = []

    def trial(*_: Any) -> Trial:
        tried.append(None)
        return Trial(1, 1, 100)

    monkeypatch.setattr(sizes, "_trial", trial)
    config, options = TransformerConfig(width=64, layers=2), StreamOptions(training=MINUTES)
    fitted, notes, _ = sizes.with_size(next_token_job, text(400), 11, config, options, TrainingRun())
    assert (fitted.heads, fitted.context, len(tried)) == (4, 256, 3)
    assert notes[0] == "size for this time: context=256; to change it, set these options"


def test_what_has_passed_before_is_no_time_for_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 s, 20 have passed, and 7 % of the rest validate; where 50 have, half of the minutes are left."""
    machine = Machine(0.1).installed(monkeypatch)
    machine.now = 1000.0
    budgets: list[float] = []

    def trial(_: Any, budget: float) -> Trial:
        budgets.append(budget)
        return Trial(1, 1, 0.0)

    monkeypatch.setattr(sizes, "_trial", trial)
    for passed in (20, 50):
        run = TrainingRun(began=machine.now - passed)
        sizes.with_size(next_token_job, text(400), 11, TransformerConfig(), StreamOptions(training=MINUTES), run)
    assert sorted(set(budgets)) == [pytest.approx(0.93 * 30), pytest.approx(0.93 * 40)]


def test_a_size_that_does_not_fit_into_memory_is_none_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Trial:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8192 bytes")

    monkeypatch.setattr(sizes, "_trial", full)
    options = StreamOptions(training=MINUTES)
    chosen = sizes.with_size(next_token_job, text(400), 11, TransformerConfig(), options, TrainingRun())
    assert chosen == (TransformerConfig(), (), None)


@pytest.mark.parametrize(("passed", "least", "most"), [(20, 36, 42), (300, 27, 33)], ids=["some", "more than all"])
def test_minutes_count_from_where_the_command_began(
    passed: float, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 s, 20 have passed: 40 are left. However long a text took to read, half of the minutes train."""
    machine = Machine(0.1).installed(monkeypatch)
    machine.now = 1000.0
    config = TransformerConfig(**SMALL)
    _, _, told = trained(config, MINUTES, validation=LONG, began=machine.now - passed)
    assert least < machine.now - 1000 < most
    notes = "".join(report.note or "" for report in told)
    assert f"{passed:.0f} of 60 s passed before training" in notes
    assert ("training and its validation still get half of the minutes" in notes) == (passed > 30)


def test_families_without_heads_have_sizes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(100.0).installed(monkeypatch)
    for config in (RecurrentConfig(), ConvolutionConfig()):
        network, _, _ = trained(config, replace(MINUTES, minutes=10.0), text(600))
        assert {name: getattr(network.config, name) for name in config.sizes[0]} == config.sizes[0]
