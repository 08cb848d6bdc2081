"""The figures of results as dictionaries; and numbers for JSON, which has no infinity and no NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def finite(number: float) -> float | None:
    """The number, or None (null in JSON) where it is infinite or NaN."""
    return number if math.isfinite(number) else None


def named_figures(result: object, names: Iterable[str]) -> dict[str, Any]:
    """Fields and properties of a result, by name."""
    return {name: getattr(result, name) for name in names}


def finite_figures(value: Any) -> Any:
    """A value for JSON, or several in dictionaries, lists and tuples: as it is, but each number as `finite`."""
    if isinstance(value, dict):
        return {name: finite_figures(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [finite_figures(own) for own in value]
    return finite(value) if isinstance(value, float) else value
