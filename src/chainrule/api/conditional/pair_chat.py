"""A model of pairs that answers: the history of a conversation is its source."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from chainrule.applications.chat import CHAT_LIMITS, Answer
from chainrule.applications.config import CHAT_SAMPLING
from chainrule.applications.messages import Message, as_messages, exchanges, split_system
from chainrule.decoding.text_generator import TextDecoder
from chainrule.errors import SettingError
from chainrule.text.parallel import source_of_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.api.conditional.pair_generator import PairGenerator
    from chainrule.decoding.config import SamplingConfig
    from chainrule.decoding.limits import Limits

_NOTHING = np.empty(0, np.int32)


class PairChat:
    """Answers as a `ChatModel` does. It reads as many of the last messages as it can, at least the last."""

    def __init__(self, generator: PairGenerator) -> None:
        self.generator = generator
        self.longest = generator.model.network.config.max_source - 1  # without </s>

    def answer(
        self,
        messages: Iterable[Mapping[str, Any] | Message],
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        number: int = 0,
    ) -> Answer:
        """As `ChatModel.answer`; of a last message that is too long, the end is read."""
        seed = secrets.randbits(32) if seed is None else seed
        limits = limits or CHAT_LIMITS
        if limits.begin:
            raise SettingError("an answer cannot begin with given words; leave begin out")
        source, dropped = self.source(messages)
        decoder = TextDecoder(self.generator.model.given([source]), self.generator.target, _no_speller)
        state = decoder.model.start([_NOTHING])
        pieces = decoder.stream_from(state, _NOTHING, sampling or CHAT_SAMPLING, limits, seed=seed, number=number)
        return Answer(pieces, dropped)

    def source(self, messages: Iterable[Mapping[str, Any] | Message]) -> tuple[Int32[ndarray, " T"], int]:
        """The ids that the model reads of a conversation, and how many of its first messages it does not read.

        A system message is kept as long as the last message leaves room for it. Raises SettingError as `as_messages`.
        """
        given = as_messages(messages)
        system, turns = split_system(given)
        for first in exchanges(turns):
            [tokens] = self.generator.encode_whole([source_of_turns([*system, *turns[first:]])])
            if len(tokens) <= self.longest:
                return tokens, first
        return tokens[len(tokens) - self.longest :], first


def _no_speller() -> NoReturn:
    raise SettingError("a model of pairs does not spell unknown words; leave <unk> banned")
