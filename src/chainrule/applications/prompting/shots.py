"""Few-shot prompts: solved examples before the question."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class FewShotPrompt(NamedTuple):
    """A prompt, and how many examples were left out because it would have been too long."""

    text: str
    dropped: int


class Shots:
    """A random selection of examples in a random order.

    The same seed with another order has the same examples.
    """

    def __init__(self, examples: int, shots: int, seed: int, order: int) -> None:
        """Raises SettingError if there are not enough."""
        if shots > examples:
            raise SettingError(f"{shots} shots need as many examples, and there are {examples}")
        self._ranked = [int(i) for i in np.random.default_rng(seed).permutation(examples)] if shots else []
        self._places = np.random.default_rng([seed, order]).permutation(shots).tolist()

    def draw(self, is_allowed: Callable[[int], bool]) -> list[int]:
        """The examples of a prompt, in their order. is_allowed: whether an example may stand in it.

        Prompts that allow the same examples have the same ones. Raises SettingError if too few are allowed.
        """
        chosen = list(islice(filter(is_allowed, self._ranked), len(self._places)))
        if len(chosen) < len(self._places):
            raise SettingError(
                f"{len(self._places)} shots need as many examples besides the question itself, and there are "
                f"{len(chosen)}"
            )
        return [chosen[place] for place in self._places]


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
