"""Choices as people write them, and their log-probabilities divided by their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.evaluation.choices import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.evaluation.choices import ChoiceScores
    from chainrule.features.prompt.config import ChoiceNormalisation


def parse_choices(written: Iterable[str]) -> list[Choice]:
    """Return choices from "great=positive", or "great", which is its own label. Raises SettingError."""
    choices = []
    for choice in written:
        text, equals, label = choice.partition("=")
        choices.append(Choice(text, label if equals else text))
    return choices


def prefixes_among(choices: Sequence[Choice]) -> list[tuple[str, str]]:
    """Return pairs of choices of which the first is a prefix of the second: whatever the model, the shorter wins."""
    return [
        (one.text, other.text)
        for one in choices
        for other in choices
        if one is not other and other.text.startswith(one.text)
    ]


def normalise(
    scores: ChoiceScores, choices: Sequence[str], by: ChoiceNormalisation
) -> Float64[ndarray, "prompts choices"]:
    """Return the log-probabilities divided by the sizes of the choices: in tokens, characters or UTF-8 bytes."""
    sizes: Any = {
        "none": 1.0,
        "tokens": np.maximum(scores.tokens, 1),
        "characters": np.array([len(choice) for choice in choices]),
        "bytes": np.array([len(choice.encode("utf-8", "replace")) for choice in choices]),
    }[by]
    return np.asarray(scores.log_probs / sizes)
