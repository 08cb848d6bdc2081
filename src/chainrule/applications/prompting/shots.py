"""Few-shot prompts: solved examples before the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class FewShotPrompt(NamedTuple):
    """A prompt, and how many examples were left out because it would have been too long."""

    text: str
    dropped: int


def draw_shots(examples: int, shots: int, seed: int, order: int) -> list[int]:
    """Which examples stand before the questions, in their order. seed: chooses them. order: shuffles them.

    The same seed with another order has the same examples. Raises SettingError if there are not enough.
    """
    if shots > examples:
        raise SettingError(f"{shots} shots need as many examples, and there are {examples}")
    chosen = np.random.default_rng(seed).permutation(examples)[:shots]
    return [int(i) for i in chosen[np.random.default_rng([seed, order]).permutation(shots)]]


def few_shot_prompt(solved: Sequence[str], question: str, between: str, fits: Callable[[str], bool]) -> FewShotPrompt:
    """The solved examples and the question. fits: whether the model can read a prompt at once.

    Where it cannot, the first examples are left out, never the question.
    """
    low, high = 0, len(solved)  # the fewest examples to leave out
    while low < high:
        middle = (low + high) // 2
        if fits(between.join([*solved[middle:], question])):
            high = middle
        else:
            low = middle + 1
    return FewShotPrompt(between.join([*solved[low:], question]), low)
