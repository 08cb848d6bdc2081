"""Prompts: templates, such as "{text} Overall, the movie was", with solved examples (few-shot) before the question.

Only names of fields may stand in braces: no attributes, indices or formats, so that a template can run nothing. {{ and
}} are literal braces.
"""

from __future__ import annotations

from itertools import islice
from string import Formatter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.text.corpus.records import Record

Part = tuple[str, str | None]  # literal text, and the field that follows it, if any


class Template:
    """A prompt with gaps for the fields of an example."""

    def __init__(self, text: str) -> None:
        """Split the template into its parts.

        Raises SettingError if the text names no field, or has anything but names in braces.
        """
        self.text = text
        self.parts = _parts(text)
        self.fields = tuple(dict.fromkeys(field for _, field in self.parts if field is not None))
        if not self.fields:
            raise SettingError(
                f"the template {text!r} names no field, so that all prompts would be the same; put one in braces, "
                "such as {text}"
            )

    def fill(self, record: Record) -> str:
        """Return the prompt for an example. Raises TextError with its location if it lacks a field."""
        return "".join(literal + self._value(record, field) for literal, field in self.parts)

    def fill_all_with(self, value: str) -> str:
        """Return the prompt with the same value in every field."""
        return "".join(literal + (value if field is not None else "") for literal, field in self.parts)

    @property
    def tail(self) -> str:
        """The text after the last field: the part of a prompt that is the same for all examples."""
        last = max(i for i, (_, field) in enumerate(self.parts) if field is not None)
        return "".join(literal for literal, _ in self.parts[last + 1 :])

    def _value(self, record: Record, field: str | None) -> str:
        if field is None:
            return ""
        if field not in record.fields:
            names = ", ".join(repr(name) for name in record.fields) or "none"
            raise TextError(f"{record.location}: there is no field {field!r} for the template; the fields are {names}")
        return record.fields[field]


def _parts(text: str) -> list[Part]:
    """Return the parts of a template. Raises SettingError."""
    try:
        parts = [(literal, field, spec, conversion) for literal, field, spec, conversion in Formatter().parse(text)]
    except ValueError as error:
        raise SettingError(
            f"the template {text!r} cannot be read: {error}; write {{{{ and }}}} for literal braces"
        ) from error
    for _, field, spec, conversion in parts:
        if field is not None and (not field.isidentifier() or spec or conversion):
            raise SettingError(
                f"the template {text!r} has {{{field}}}; expected the name of a field, such as {{text}}: letters, "
                "digits and _"
            )
    return [(literal, field) for literal, field, _, _ in parts]


class FewShotPrompt(NamedTuple):
    """A prompt, and how many examples were left out because it would have been too long."""

    text: str
    dropped: int


class Shots:
    """A random selection of examples in a random order.

    The same seed with another order has the same examples.
    """

    def __init__(self, examples: int, shots: int, seed: int, order: int) -> None:
        """Choose the examples, and their order. Raises SettingError if there are not enough."""
        if shots > examples:
            raise SettingError(f"{shots} shots need as many examples, and there are {examples}")
        self._ranked = [int(i) for i in np.random.default_rng(seed).permutation(examples)] if shots else []
        self._places = np.random.default_rng([seed, order]).permutation(shots).tolist()

    def draw(self, is_allowed: Callable[[int], bool]) -> list[int]:
        """Return the examples of a prompt, in their order.

        is_allowed: a function that says whether an example may be in it. Prompts that allow the same examples get the
        same ones. Raises SettingError if too few are allowed.
        """
        chosen = list(islice(filter(is_allowed, self._ranked), len(self._places)))
        if len(chosen) < len(self._places):
            raise SettingError(
                f"{len(self._places)} shots need as many examples besides the question itself, and there are "
                f"{len(chosen)}"
            )
        return [chosen[place] for place in self._places]


def few_shot_prompt(solved: Sequence[str], question: str, between: str, fits: Callable[[str], bool]) -> FewShotPrompt:
    """Return the solved examples and the question. fits: whether the model can read a prompt at once.

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
