"""Positions against the papers' formulas, one number at a time."""

from __future__ import annotations

import math

import pytest
import random_networks  # noqa: F401  (one thread)
import torch

from chainrule.neural.layers.positions import ALiBi, Rotary, Sinusoidal, alibi_slopes, distance_buckets, rotate


def test_sinusoids_are_those_of_the_paper() -> None:
    width, positions = 6, [0, 1, 7, 1000]
    found = Sinusoidal(width)(torch.tensor([positions]))[0]
    for row, position in zip(found, positions, strict=True):
        for i in range(width // 2):
            angle = position / 10_000 ** (2 * i / width)
            assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    assert Sinusoidal(5)(torch.tensor([positions])).shape == (1, 4, 5)


def test_a_rotation_turns_pairs_and_products_depend_on_distances_alone() -> None:
    width, base = 8, 100.0
    x, y = torch.randn(2, 1, 1, 1, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rotary = Rotary(width, base)

    def at(position: int, vector: torch.Tensor) -> torch.Tensor:
        return rotate(vector, rotary(torch.tensor([[position]]), vector))[0, 0, 0]

    for i in range(width // 2):
        angle = 5 * base ** (-2 * i / width)
        a, b = x[0, 0, 0, i].item(), x[0, 0, 0, i + width // 2].item()
        assert at(5, x)[i].item() == pytest.approx(a * math.cos(angle) - b * math.sin(angle))
        assert at(5, x)[i + width // 2].item() == pytest.approx(a * math.sin(angle) + b * math.cos(angle))
    near, far = at(9, x) @ at(4, y), at(1_000_009, x) @ at(1_000_004, y)
    assert near.item() == pytest.approx(far.item(), abs=1e-6)


def test_alibi_slopes_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(4) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]
    assert alibi_slopes(6) == [*alibi_slopes(4), 2.0**-1, 2.0**-3]  # every other one of those for 8
    found = ALiBi(2)(torch.tensor([[0, 1, 5]]))
    assert found.tolist() == [[[0, -(2.0**-4), -5 * 2.0**-4]], [[0, -(2.0**-8), -5 * 2.0**-8]]]


def test_buckets_hold_single_distances_first_and_then_ever_more() -> None:
    buckets = distance_buckets(torch.arange(1000)).tolist()
    assert buckets[:17] == list(range(17))
    assert buckets == sorted(buckets)
    assert set(buckets) == set(range(32))
    for distance in (20, 45, 90, 127):
        assert buckets[distance] == 16 + int(math.log(distance / 16) / math.log(128 / 16) * 16)
    assert set(buckets[128:]) == {31}
