"""The figures of results as dictionaries; and numbers in JSON, which has no infinity and no NaN."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def finite(number: float) -> float | None:
    """Return the number, or None (null in JSON) where it is infinite or NaN."""
    return number if math.isfinite(number) else None


def named_figures(result: object, names: Iterable[str]) -> dict[str, Any]:
    """Return fields and properties of a result, by name."""
    return {name: getattr(result, name) for name in names}


def finite_figures(value: Any) -> Any:
    """Return a value for JSON, or several in dictionaries, lists and tuples, with each number passed through
    `finite`.
    """
    if isinstance(value, dict):
        return {name: finite_figures(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [finite_figures(own) for own in value]
    return finite(value) if isinstance(value, float) else value


def parse_json(text: str | bytes) -> Any:
    """Parse a text in JSON. Raises ValueError, which names the key, where a number is NaN: Python's `json` reads
    that.
    """
    read = json.loads(text)
    if (key := nan_key(read)) is not None:
        raise ValueError(f"{key} is NaN; expected a number")
    return read


def nan_key(read: Any, key: str = "") -> str | None:
    """Return where NaN is in what was read, such as settings.network.dropout; None if there is none."""
    if isinstance(read, dict | list):
        entries = read.items() if isinstance(read, dict) else enumerate(read)
        places = (nan_key(entry, f"{key}.{name}" if key else str(name)) for name, entry in entries)
        return next((place for place in places if place is not None), None)
    return key if isinstance(read, float) and math.isnan(read) else None
