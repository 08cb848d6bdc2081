"""Conversations as token ids, in which no message can forge a role or an end.

Special tokens are control tokens only where the template writes them. Where a message spells one, a mark is put after
its first character before the template runs; afterwards the text is cut at the marks, and its parts are encoded one by
one, so that the spelling stays text. A template could still join parts of messages to a special token. So the
conversation is rendered a second time, with a mark after every character with which a special token begins; if the two
differ in their special tokens, the second is taken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from chainrule.applications.chat.messages import Message
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.applications.chat.template import ChatTemplate


class PromptEncoder(Protocol):
    """Token ids of rendered conversations. special: texts that are control tokens. added: others that are one token."""

    special: Sequence[str]
    added: Sequence[str]

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """The ids of a text, control tokens included; nothing is added. Raises MarkerError."""


class Rendered(NamedTuple):
    """text: as the model reads it. tokens: its ids."""

    text: str
    tokens: Int32[ndarray, " T"]


class ChatFormat:
    """A template and an encoder."""

    def __init__(self, template: ChatTemplate, encoder: PromptEncoder) -> None:
        """Raises ModelFormatError if the template fails."""
        self.template, self.encoder = template, encoder
        try:
            written = template.render([Message("user", "Hello")])
        except SettingError:  # it wants other messages
            written = ""
        # Some checkpoints do not call their control tokens special: those that this template writes are.
        self._control = sorted({*encoder.special, *(text for text in encoder.added if text in written)} - {""})
        self._occurs = _any_of(self._control)

    def encode(self, messages: Sequence[Message]) -> Rendered:
        """Raises SettingError if the template refuses the messages, ModelFormatError if it fails; MarkerError."""
        mark = _unused_character([self.template.source, *(message.content for message in messages)])
        text, strict = (
            self.template.render([Message(role, spell(content, mark)) for role, content in messages])
            for spell in (self._marked_where_spelled, self._marked_everywhere)
        )
        if self._control_tokens(text, mark) != self._control_tokens(strict, mark):
            text = strict
        parts = [self.encoder.encode(part) for part in text.split(mark) if part]
        return Rendered(text.replace(mark, ""), np.concatenate([np.empty(0, np.int32), *parts]))

    def _marked_where_spelled(self, content: str, mark: str) -> str:
        """Raises SettingError for a control token of a single character, which cannot be cut."""
        short = next((text for text in self._control if len(text) == 1 and text in content), None)
        if short is not None:
            raise SettingError(f"a message has {short!r}, which is a control token of the model; leave it out")
        return re.sub(f"(?={self._occurs.pattern})(.)", rf"\1{mark}", content, flags=re.DOTALL)

    def _marked_everywhere(self, content: str, mark: str) -> str:
        return re.sub(_any_of(sorted({text[0] for text in self._control})), rf"\g<0>{mark}", content)

    def _control_tokens(self, text: str, mark: str) -> list[str]:
        return [token for part in text.split(mark) for token in self._occurs.findall(part)]


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Matches the longest of the texts; without any, nothing."""
    alternatives = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    return re.compile(f"(?:{alternatives})" if texts else "(?!)")


def _unused_character(texts: Sequence[str]) -> str:
    """A character that no text has, of those that Unicode leaves to private use."""
    used = set().union(*texts)
    return next(character for character in map(chr, range(0xE000, 0xF900)) if character not in used)
