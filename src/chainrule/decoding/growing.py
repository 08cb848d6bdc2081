"""Text that grows token by token: what no further token can change is given out, and stop strings end it.

Of the tokenizer it knows only how to undo the cutting; so a stop string is found wherever the borders of tokens lie.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Restore = Callable[[bytes], bytes]  # tokens with one space between -> the text


class GrowingText:
    """What comes after a prompt.

    good:  for token in tokens: print(text.add(token), end="")      # then: print(text.rest())
    """

    def __init__(self, restore: Restore, before: Sequence[bytes], stops: Sequence[str] = ()) -> None:
        """before: the prompt's tokens. stops: what ends the text, itself not a part of it."""
        self._restore, self._stops = restore, stops
        self._last = b"".join(before[-1:])  # a token's text depends on none but the one before it
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""  # may be the beginning of a stop string
        self.is_stopped = False

    def add(self, token: bytes) -> str:
        """The text that has become certain with one more token; nothing once the text has stopped."""
        if self.is_stopped:
            return ""
        before = self._restore(self._last) if self._last else b""
        both = self._restore(self._last + b" " + token if self._last else token)
        self._last = token
        return self._released(self._decode(both[len(before) :]))

    def rest(self) -> str:
        """What was still held back, when no more tokens come."""
        if self.is_stopped:
            return ""
        rest = self._released(self._decode(b"", True))
        held, self._held = self._held, ""
        return rest + ("" if self.is_stopped else held)

    def _released(self, new: str) -> str:
        text = self._held + new
        found = first_stop(text, self._stops)
        if found >= 0:
            self.is_stopped, self._held = True, ""
            return text[:found]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Where the first stop string begins, or -1."""
    return min((place for stop in stops if (place := text.find(stop)) >= 0), default=-1)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest beginning of `stop` that `text` ends with."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
