from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from chainrule.errors import ChainruleError, SettingError
from chainrule.ngram.config import MAX_ORDER, NGramConfig


@pytest.mark.parametrize("order", [-1, 0, 25])
def test_an_order_out_of_range_is_an_error_that_names_the_range(order: int) -> None:
    with pytest.raises(SettingError, match=f"order {order} is not possible: .* 1 to 24"):
        NGramConfig(order=order)


@pytest.mark.parametrize("order", [1, MAX_ORDER])
def test_the_orders_at_the_ends_of_the_range_are_possible(order: int) -> None:
    assert NGramConfig(order=order).order == order


@pytest.mark.parametrize(
    ("prune", "reason"),
    [
        ((), "must begin with 0"),
        ((1,), "must begin with 0"),
        ((1, 2), "must begin with 0"),
        ((0, 0, 0, 1), "has 4 thresholds for a model of order 3"),
        ((0, 2, 1), "must not decrease"),
        ((0, 0, -1), "prune has a threshold of -1; n-grams seen at most that often are dropped, so give 0 or more"),
    ],
)
def test_impossible_thresholds_are_an_error_that_says_why(prune: tuple[int, ...], reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        NGramConfig(order=3, prune=prune)


def test_a_wrong_setting_is_an_error_of_the_package_and_a_value_error() -> None:
    for base in (ChainruleError, ValueError):
        with pytest.raises(base):
            NGramConfig(order=0)


def test_the_last_threshold_repeats() -> None:
    config = NGramConfig(order=5, prune=(0, 1, 3))
    assert [config.threshold(order) for order in range(1, 6)] == [0, 1, 3, 3, 3]
    assert [NGramConfig(order=3).threshold(order) for order in range(1, 4)] == [0, 0, 0]


def test_settings_cannot_be_changed_and_go_by_name() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        NGramConfig().order = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        NGramConfig(3)  # type: ignore[misc]


def test_messages_show_numbers_as_the_command_line_takes_them() -> None:
    with pytest.raises(SettingError, match=r"discount is 0\.5 2\.0; expected numbers from 0 to 1 for the orders"):
        NGramConfig(smoothing="absolute", discount=(0.5, 2.0))
    with pytest.raises(SettingError, match="prune 0 2 1 must not decrease"):
        NGramConfig(prune=(0, 2, 1))


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 2.5},
        {"order": True},
        {"order": "5"},
        {"prune": [0, 1]},
        {"prune": (0, 1.5)},
        {"strict_discounts": "no"},
    ],
)
def test_a_setting_of_another_type_is_refused_by_its_name(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(settings))} is .*; expected "):
        NGramConfig(**settings)
