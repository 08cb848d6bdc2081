"""Numbers for JSON, which has no infinity and no NaN."""

from __future__ import annotations

import math


def finite(number: float) -> float | None:
    """The number, or None (null in JSON) where it is infinite."""
    return number if math.isfinite(number) else None
