"""Experiments on what layers cost: against formulas."""

from __future__ import annotations

import pytest

from chainrule.features.lectures.experiments.cost import KINDS, cost, growth_of, paths, sequential_steps, throughput
from chainrule.features.lectures.experiments.cost import WIRINGS as KINDS_OF_PATHS


def test_cost_measures_every_layer_and_finds_powers() -> None:
    findings = cost(lengths=(64, 128), widths=(8, 16), length=64, width=8, seconds=0)
    assert len(findings.lines) == len(findings.says) == len(KINDS)
    assert all(second > 0 for line in findings.lines for second in line.y)
    assert growth_of([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_paths_are_those_of_the_formulas() -> None:
    lines = {line.label: dict(zip(line.x, line.y, strict=True)) for line in paths(lengths=(4, 9, 27, 57)).lines}
    assert set(lines["self-attention"].values()) == {1}
    assert lines["recurrence"] == {4: 4, 9: 9, 27: 27, 57: 57}
    assert lines["attention in a window of 8"] == {4: 1, 9: 2, 27: 4, 57: 8}  # (n - 1) / 7, rounded up
    assert lines["dilated convolution of 3"] == {4: 2, 9: 2, 27: 3, 57: 4}  # log_3 n, rounded up
    steps = {label: sequential_steps(kind.reads, 9) for label, kind in KINDS_OF_PATHS.items()}
    assert sorted(steps.values()) == [1, 1, 1, 9]
    assert steps["recurrence"] == 9


def test_throughput_measures_reading_and_writing() -> None:
    findings = throughput(lengths=(4, 8), width=16, tokens=16, seconds=0.0)
    assert [line.label for line in findings.lines] == [
        "LSTM, read",
        "LSTM, written",
        "Transformer, read",
        "Transformer, written",
    ]
    assert all(speed > 0 for line in findings.lines for speed in line.y)
    assert "8 steps one after the other" in findings.finding
