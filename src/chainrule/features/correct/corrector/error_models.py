"""Error models: log P(observed word | meant word), from a channel of characters or of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.correct.channel.learning import MARKS, SPACE, USUAL_LENGTH, mark_ends, marks_as_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.features.correct.channel.character_channel import Channel

_SENTENCE_MARKS = frozenset(".,;:!?")
_SPACE_SHARE = 0.02  # of all errors lose or insert a space, if the pairs have no such errors


class ErrorModel(Protocol):
    """A corrector's error model."""

    name: str
    knows_marks: bool  # whether marks go wrong, too, as in a scan

    def log_probs_of_marks(self, observed: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Return log P(observed | meant) of the marks before or after a word, or between two, in nats."""

    def log_probs(self, observed: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Return log P(observed | meant) of pairs of words, in nats. A space in one of the two was inserted or lost."""


class CharacterErrorModel:
    """A channel in which every character can go wrong, such as a keyboard's."""

    def __init__(self, channel: Channel) -> None:
        self.name, self._channel = channel.name, channel
        self.knows_marks = bool(_SENTENCE_MARKS & channel.characters)

    def log_probs_of_marks(self, observed: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Implement `ErrorModel.log_probs_of_marks`."""
        return self._channel.log_probs(observed, meant)

    def log_probs(self, observed: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Implement `ErrorModel.log_probs`."""
        return self._channel.log_probs(observed, meant)


class WordErrorModel:
    """A channel learned from wrong words alone, and the share of words that are wrong.

    P(observed | meant) = 1 - rate if they are the same, else rate Q(observed | meant) / (1 - Q(meant | meant)).
    """

    def __init__(self, channel: Channel, rate: float, *, by_length: bool = False) -> None:
        """Store the channel and the rate of errors.

        rate: above 0, below 1. by_length: whether it is that of words of 5 letters, and longer ones are wrong more
        often: the share of right ones is (1 - rate)^(letters / 5). Raises SettingError.
        """
        if not 0 < rate < 1:
            raise SettingError(f"rate is {rate}, the share of words that are wrong; expected above 0 and below 1")
        self.name, self._channel, self._rate, self._by_length = channel.name, channel, rate, by_length
        self.knows_marks = MARKS in channel.characters
        learned = [rule.prob for rule in channel.rules if (rule.source, rule.observed) == (SPACE, "")]
        self._space_share = learned[0] if learned else _SPACE_SHARE
        self._copied: dict[str, float] = {}  # log of the probability of anything but a copy, by word

    def log_probs_of_marks(self, observed: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Implement `ErrorModel.log_probs_of_marks`.

        The channel has learned from right marks, too, so the rate is its own.
        """
        sides = ([mark_ends(marks_as_word(marks)) for marks in side] for side in (observed, meant))
        return self._channel.log_probs(*sides)

    def log_probs(self, observed: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Implement `ErrorModel.log_probs`."""
        without = [mark_ends(text.replace(" ", "")) for text in meant]
        seen = [mark_ends(text.replace(" ", "")) for text in observed]
        log_probs = self._channel.log_probs(seen, without)
        new = [text for text in dict.fromkeys(without) if text not in self._copied]
        copied = np.exp(self._channel.log_probs(new, new))
        self._copied.update(zip(new, np.log1p(-np.minimum(copied, 1 - 1e-9)).tolist(), strict=True))
        lengths = np.array([len(text) for text in meant], np.float64) / USUAL_LENGTH if self._by_length else 1.0
        log_right = np.log1p(-self._rate) * lengths
        log_wrong = np.log(-np.expm1(log_right))
        changed = log_wrong - np.array([self._copied[text] for text in without])
        spaces = np.array([a.count(" ") != b.count(" ") for a, b in zip(observed, meant, strict=True)], np.bool_)
        same = np.array([a == b for a, b in zip(observed, meant, strict=True)], np.bool_)
        log_probs = log_probs + np.where(spaces, log_wrong + np.log(self._space_share), changed)
        return np.where(same, log_right, log_probs)
