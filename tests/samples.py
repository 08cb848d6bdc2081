"""Which parameters of a test `make test` takes, where all of them take long: `make thorough` takes all."""

from __future__ import annotations

import zlib
from collections import defaultdict
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


def spread(items: Iterable[pytest.Item]) -> None:
    """Leave to `make thorough` all but as many parameters of a test as its mark says: `@pytest.mark.spread(8)`.

    They are evenly spread over the list, from a place that the name of the test decides. So tests of one list take
    different parameters, and each parameter is in some of them.
    """
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("spread") and not item.get_closest_marker("thorough"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for name, own in tests.items():
        mark = own[0].get_closest_marker("spread")
        assert mark is not None
        first, most = zlib.crc32(name.encode()), min(mark.args[0], len(own))
        taken = {(first + number * len(own) // most) % len(own) for number in range(most)}
        for place, item in enumerate(own):
            if place not in taken:
                item.add_marker(pytest.mark.thorough)
