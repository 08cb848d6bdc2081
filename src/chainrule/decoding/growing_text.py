"""Text that grows token by token: pieces that no later token can change are released, and stop strings end the text.

Stop strings are matched in the text, so that token boundaries do not matter. Of the tokenizer, only its detokenization
is used.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Restore = Callable[[bytes], bytes]  # tokens separated by spaces -> the text


class GrowingText:
    """The text after a prompt.

    good:  for token in tokens: print(text.add(token), end="")      # then: print(text.rest())
    """

    def __init__(self, restore: Restore, before: Sequence[bytes], stops: Sequence[str] = ()) -> None:
        """before: the prompt's tokens. stops: strings that end the text and are not part of it."""
        self._restore, self._stops = restore, stops
        self._last = b"".join(before[-1:])  # a token's text depends only on the token before it
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""  # text that may be the beginning of a stop string
        self.is_stopped = False
        self.length = 0  # characters, those held back too

    def add(self, token: bytes) -> str:
        """Adds a token; the text that is now certain. Empty once the text has stopped."""
        if self.is_stopped:
            return ""
        before = self._restore(self._last) if self._last else b""
        both = self._restore(self._last + b" " + token if self._last else token)
        self._last = token
        return self._release(self._decode(both[len(before) :]))

    def rest(self) -> str:
        """The text still held back, to be called after the last token."""
        if self.is_stopped:
            return ""
        rest = self._release(self._decode(b"", True))
        held, self._held = self._held, ""
        return rest + ("" if self.is_stopped else held)

    def _release(self, new: str) -> str:
        text = self._held + new
        self.length += len(new)
        stop = first_stop(text, self._stops)
        if stop >= 0:
            self.is_stopped, self._held = True, ""
            return text[:stop]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def first_stop(text: str, stops: Sequence[str]) -> int:
    """The index of the first stop string in the text, or -1."""
    return min((index for stop in stops if (index := text.find(stop)) >= 0), default=-1)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest prefix of `stop` that `text` ends with."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
