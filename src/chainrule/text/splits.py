"""Cutting a text into a part to train on and a part to measure on, the same on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN = 50  # lines that stay together, so that most held-out lines have no neighbour in the training part
SHARE = 10  # every tenth run is held out


def train_and_heldout(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Every tenth run of 50 lines is held out; of a shorter text, every tenth line.

    Raises TextError where there are fewer than ten lines.
    """
    run = RUN if len(lines) >= RUN * SHARE else 1
    train = [line for i, line in enumerate(lines) if i // run % SHARE != SHARE - 1]
    heldout = [line for i, line in enumerate(lines) if i // run % SHARE == SHARE - 1]
    if not heldout:
        raise TextError(f"the text has {len(lines)} lines; at least {SHARE} are needed to hold some out for measuring")
    return train, heldout
