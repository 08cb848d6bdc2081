"""A language model that talks: messages in, an answer out, piece by piece.

Knows no kind of model beyond `LanguageModel` and, for prompts with control tokens, `PromptReader`.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from chainrule.decoding.chat.messages import Message, as_messages, exchanges, split_system
from chainrule.decoding.config import Limits
from chainrule.decoding.options import CHAT_SAMPLING
from chainrule.decoding.shared_prefixes import PromptStateCache
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.decoding.chat.template import ChatFormat
    from chainrule.decoding.config import SamplingConfig
    from chainrule.decoding.sampling import Ending
    from chainrule.decoding.text_generator import Piece, TextDecoder

    Tokens = Int32[ndarray, " T"]

CHAT_LIMITS = Limits(max_tokens=512)
DROPPED_TOGETHER = 4  # exchanges, so that a conversation longer than the context is not read anew at every turn


class ChatPrompt(NamedTuple):
    """The prompt that the model reads. text: as the template writes it. dropped: earlier messages that did not fit."""

    text: str
    tokens: Tokens
    dropped: int


class Answer:
    """An answer as it is generated: iterate over it for its parts.

    text: the parts so far. ending: why it ended; None while it continues. dropped: as in `ChatPrompt`.
    """

    def __init__(self, pieces: Iterator[Piece], dropped: int) -> None:
        self._pieces, self.dropped = pieces, dropped
        self.text = ""
        self.ending: Ending | None = None

    def __iter__(self) -> Iterator[str]:
        for piece in self._pieces:
            self.text += piece.text
            self.ending = piece.ending
            if piece.text:
                yield piece.text


class Answering(Protocol):
    """A Protocol: answers conversations."""

    def answer(
        self,
        messages: Iterable[Mapping[str, Any] | Message],
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        number: int = 0,
    ) -> Answer:
        """Return the answer to the last message. Without a seed, each call gives another.

        number: the index of the answer among those with the same seed. Raises SettingError.
        """


class ChatModel:
    """A model with its chat format. It remembers the last prompt, so that the next turn reads only what is new."""

    def __init__(
        self,
        decoder: TextDecoder,
        chat_format: ChatFormat,
        *,
        context: int | None,
        reads_prompts: bool,
        begins_texts: bool,
    ) -> None:
        """Prepare to remember the last prompt, if the model reads prompts.

        context: the most tokens that the model reads at once. reads_prompts: whether the model is a `PromptReader`.
        begins_texts: whether a prompt is the beginning of a text, as <s> says; if not, it is read exactly as written.
        """
        self.decoder, self.format, self.context = decoder, chat_format, context
        reader: Any = decoder.model
        self._last_prompt = PromptStateCache(reader, begins_texts=begins_texts) if reads_prompts else None

    def with_variables(self, variables: Mapping[str, Any]) -> ChatModel:
        """Return the same model, whose template has these variables, too. It remembers no prompt."""
        own = copy(self)
        own.format = self.format.with_variables(variables)
        return own

    def prompt(
        self, messages: Iterable[Mapping[str, Any] | Message], max_tokens: int, *, most: int | None = None
    ) -> ChatPrompt:
        """Return the prompt that the model reads of a conversation.

        The earliest messages are left out if they do not fit. max_tokens: the most tokens of the answer, for which at
        most half of the context is kept free. most: the most tokens of the prompt, in place of what that leaves. Raises
        SettingError if the last message does not fit either, and as `as_messages` and `ChatFormat.encode`.
        """
        given = as_messages(messages)
        if self.context is None and most is None:
            return self.whole_prompt(given)
        system, rest = split_system(given)
        begins = [0, *(begin for begin in exchanges(rest) if begin)]
        begins = [*begins[:-1:DROPPED_TOGETHER], begins[-1]]
        room = self.context - min(max_tokens, self.context // 2) if most is None and self.context is not None else most
        assert room is not None

        def fits(begin: int) -> bool:
            return len(self.format.encode([*system, *rest[begin:]]).tokens) <= room

        begin = begins[min(bisect_left(begins, True, key=fits), len(begins) - 1)]
        rendered = self.format.encode([*system, *rest[begin:]])
        if len(rendered.tokens) > room:
            limit = f"at most {room:,} are read"
            if most is None and self.context is not None:
                limit = f"the model reads {self.context:,}, of which {self.context - room:,} are for the answer"
            raise SettingError(
                f"the {'system message and the last message have' if system else 'last message has'} "
                f"{len(rendered.tokens):,} tokens; {limit}; shorten it"
            )
        return ChatPrompt(rendered.text, rendered.tokens, begin)

    def whole_prompt(self, messages: Iterable[Mapping[str, Any] | Message]) -> ChatPrompt:
        """Return the prompt of all messages, as `prompt` does, whether they fit or not."""
        rendered = self.format.encode(as_messages(messages))
        return ChatPrompt(rendered.text, rendered.tokens, 0)

    def answer(
        self,
        messages: Iterable[Mapping[str, Any] | Message],
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        number: int = 0,
    ) -> Answer:
        """Implement `Answering.answer`."""
        seed = secrets.randbits(32) if seed is None else seed
        limits = limits or CHAT_LIMITS
        prompt = self.prompt(messages, limits.max_tokens)
        if limits.begin:
            raise SettingError("an answer cannot begin with given words; leave begin out")
        return Answer(self._pieces(prompt, sampling or CHAT_SAMPLING, limits, seed, number), prompt.dropped)

    def _pieces(
        self, prompt: ChatPrompt, sampling: SamplingConfig, limits: Limits, seed: int, number: int
    ) -> Iterator[Piece]:
        state = self._state_after(prompt.tokens)
        yield from self.decoder.stream_from(state, prompt.tokens, sampling, limits, seed=seed, number=number)

    def _state_after(self, tokens: Tokens) -> Any:
        if self._last_prompt is not None:
            return self._last_prompt.state_after(tokens)
        return self.decoder.model.start([tokens])
