"""The learning rate as a share of its peak, and the number of steps in a budget."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.training.config import Schedule, TrainingConfig


def rate_share(
    schedule: Schedule, step: int, steps: int | None, *, warm_up: int, decay_share: float, final_share: float
) -> float:
    """The learning rate of a step (from 0), as a share of its peak; after the warm-up, 1 until `steps` is known."""
    if step < warm_up:
        return (step + 1) / (warm_up + 1)
    if steps is None or schedule == "plateau":
        return 1.0
    if schedule == "constant":
        left = (steps - step) / max(1.0, decay_share * steps)
        return final_share + (1 - final_share) * min(1.0, left)
    done = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    falling = 0.5 * (1 + math.cos(math.pi * done)) if schedule == "cosine" else 1 - done
    return final_share + (1 - final_share) * falling


def steps_of(config: TrainingConfig, epoch: int, tokens_of: Callable[[int], int]) -> int | None:
    """The number of steps in a budget; None if it is in minutes.

    epoch: tokens in one pass over the text. tokens_of: tokens in the first n steps, at least one in each.
    """
    if config.steps is not None:
        return config.steps
    tokens = config.tokens
    if config.epochs is not None:
        tokens = max(1, math.ceil(config.epochs * epoch))
    if tokens is None:
        return None
    return 1 + bisect_left(range(1, tokens), tokens, key=tokens_of)
