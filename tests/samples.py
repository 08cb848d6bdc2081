"""Which parameters of a test `make test` takes, where all of them take long: `make thorough` takes all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from _pytest.mark.structures import ParameterSet


def examples(share: float) -> settings:
    """That many times the examples of the profile, for a property whose examples cost more, or less, than others."""
    return settings(max_examples=max(1, int(share * settings().max_examples)))


def sampled(values: Iterable[Any], quick: Collection[Any]) -> list[ParameterSet]:
    """All values as parameters; those that are not in `quick` are for `make thorough` alone."""
    values = list(values)
    if unknown := [value for value in quick if value not in values]:
        raise ValueError(f"no such parameters: {unknown}")
    return [pytest.param(value, marks=() if value in quick else pytest.mark.thorough) for value in values]
