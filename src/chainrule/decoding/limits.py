"""Limits on generated texts: in words, as users give them, and in token ids; stop strings, matched as a text grows.

Limits are the same for sampling and beam search. A GrowingText releases pieces that no later token can change. Stop
strings are matched in the text, so that token boundaries do not matter; of the tokenizer, only its detokenization is
used.
"""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import check_tokens
from chainrule.decoding.config import Limits, SamplingConfig, check_lengths, first_stop
from chainrule.decoding.form import form_of
from chainrule.decoding.next_token import Rules
from chainrule.errors import SettingError
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.decoding.config import SamplingConfig
    from chainrule.decoding.form import Form, FormState
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Restore = Callable[[bytes], bytes]  # tokens separated by spaces -> the text


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Constraints on each text after its prefix.

    begin: tokens that each text begins with; they are scored and counted.
    min_tokens: no </s> before this many. max_tokens: a text is cut after this many, not counting </s>.
    banned: tokens that may not occur. allowed: the only tokens that may occur, besides </s>.
    no_repeat: no n-gram of this length may occur twice, prefix included; 0 for no such rule.
    form: that each text has.

    Raises SettingError if they contradict each other.
    """

    begin: Sequence[int] = ()
    min_tokens: int = 0
    max_tokens: int = 100
    banned: Sequence[int] = ()
    allowed: Sequence[int] | None = None
    no_repeat: int = 0
    form: Form | None = None

    def __post_init__(self) -> None:
        for name in ("min_tokens", "max_tokens", "no_repeat"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name} is {getattr(self, name)}; expected 0 or more")
        check_lengths(self.min_tokens, self.max_tokens)
        if len(self.begin) > self.max_tokens:
            raise SettingError(
                f"begin has {len(self.begin)} tokens, more than max_tokens, {self.max_tokens}; raise max_tokens"
            )
        if self.allowed is not None and not len(self.allowed):
            raise SettingError("no token is allowed; allow some, or leave allowed out to allow all")
        forbidden = set(self.begin) & set(self.banned)
        if self.allowed is not None:
            forbidden |= set(self.begin) - set(self.allowed)
        if forbidden:
            raise SettingError(f"texts must begin with token {min(forbidden)}, which is not allowed; allow it")

    def check(self, model: LanguageModel[Any]) -> None:
        """Raise SettingError if an id is not in the model's vocabulary, or none is left."""
        for tokens in (self.begin, self.banned, self.allowed or ()):
            check_tokens(np.array(tokens, np.int64), model.vocabulary_size)
        if model.end in self.begin:
            raise SettingError(f"begin has the token {model.end}, which ends a text; leave it out")
        forbidden = {BEGIN, *self.banned, *([model.end] if self.min_tokens else [])}
        if self.allowed is None:
            left = model.vocabulary_size - len(forbidden)
        else:
            left = len({*self.allowed, model.end} - forbidden)
        if not left and self.max_tokens:
            raise SettingError("there is no token to choose from: every one is banned or not allowed; ban fewer")

    def rules(self, length: int, end: int, config: SamplingConfig) -> Rules:
        """Return the rules for the token after `length` tokens of a text. end: the id of </s>."""
        banned = (*self.banned, end) if length < self.min_tokens else tuple(self.banned)
        allowed = None if self.allowed is None else tuple(self.allowed)
        return Rules(banned, allowed, self.no_repeat, config, self.form is not None)

    def begin_form(self) -> FormState | None:
        """Return the form of a new text, after the tokens that it begins with.

        Raises SettingError if they do not fit it.
        """
        if self.form is None:
            return None
        state = self.form.begin()
        for token in self.begin:
            if not state.mask()[token]:
                raise SettingError(f"begin does not fit {self.form.name} after {state.text!r}; change one of the two")
            state.add(token)
        return state


class GrowingText:
    """The text after a prompt.

    good:  for token in tokens: print(text.add(token), end="")      # then: print(text.rest())
    """

    def __init__(self, restore: Restore, before: Sequence[bytes], stops: Sequence[str] = ()) -> None:
        """Begin an empty text. before: the prompt's tokens. stops: strings that end the text and are not part of it."""
        self._restore, self._stops = restore, stops
        self._last = b"".join(before[-1:])  # a token's text depends only on the token before it
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""  # text that may be the beginning of a stop string
        self.is_stopped = False
        self.length = 0  # characters, those held back too

    def add(self, token: bytes) -> str:
        """Add a token, and return the text that is now certain. Empty once the text has stopped."""
        if self.is_stopped:
            return ""
        before = self._restore(self._last) if self._last else b""
        both = self._restore(self._last + b" " + token if self._last else token)
        self._last = token
        return self._release(self._decode(both[len(before) :]))

    def rest(self) -> str:
        """Return the text still held back, to be called after the last token."""
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


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest prefix of `stop` that `text` ends with."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)


def constraints_for(limits: Limits, tokenizer: Tokenizer, prompt: str) -> Constraints:
    """Return the limits as token ids. Raises SettingError if the tokenizer or its vocabulary cannot fulfil them."""
    banned = [] if limits.unknown == "spelled" else [UNKNOWN]
    allowed = None
    if limits.stop or limits.allowed is not None or limits.banned:
        forms = _forms(tokenizer)
        for stop in limits.stop:
            _check_stop(stop, tokenizer, forms)
        by_form: dict[str, list[int]] = {}
        for token, form in enumerate(forms):
            by_form.setdefault(form.strip(), []).append(token)
        banned += [token for word in limits.banned for token in _ids_of(word, by_form, "banned")]
        if limits.allowed is not None:
            allowed = [token for word in limits.allowed for token in _ids_of(word, by_form, "allowed")]
            if limits.unknown == "spelled":
                allowed.append(UNKNOWN)
    return Constraints(
        begin=_ids_to_begin_with(limits.begin, tokenizer, prompt),
        min_tokens=limits.min_tokens,
        max_tokens=limits.max_tokens,
        banned=banned,
        allowed=allowed,
        no_repeat=limits.no_repeat,
        form=form_of(limits, tokenizer, prompt) if limits.has_form else None,
    )


def possible_stops(stops: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """Return the stop strings that the tokenizer's tokens can produce; `constraints_for` refuses the others."""
    forms = _forms(tokenizer) if stops else []
    possible = []
    for stop in stops:
        with suppress(SettingError):
            _check_stop(stop, tokenizer, forms)
            possible.append(stop)
    return possible


def _forms(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each token of the vocabulary by itself."""
    tokens = tokenizer.vocabulary.tokens()
    lines = tokenizer.restore(b"".join(token + b"\n" for token in tokens)).split(b"\n")[:-1]
    if len(lines) != len(tokens):  # some token stands for a newline
        lines = [tokenizer.restore(token) for token in tokens]
    return [line.decode("utf-8", "replace") for line in lines]


def _ids_of(word: str, by_form: dict[str, list[int]], what: str) -> list[int]:
    """Return the tokens whose text is a word: one, or several that differ in the spaces around it."""
    tokens = [token for token in by_form.get(word.strip(), []) if token > UNKNOWN]
    if not tokens:
        is_marker = word.startswith("<") and word.endswith(">")
        more = "; min_tokens keeps texts from ending, if it is an end" if is_marker else ""
        raise SettingError(f"the {what} word {word!r} is not a token of the vocabulary; leave it out{more}")
    return tokens


def _ids_to_begin_with(begin: str, tokenizer: Tokenizer, prompt: str) -> list[int]:
    if not begin:
        return []
    space = " " if prompt and not begin[0].isspace() and not prompt[-1].isspace() else ""
    before, both = (tokenizer.encode_texts([text]).ids[:-1].tolist() for text in (prompt, prompt + begin))
    if both[: len(before)] != before or len(both) == len(before):
        before, both = (tokenizer.encode_texts([text]).ids[:-1].tolist() for text in (prompt, prompt + space + begin))
    if both[: len(before)] != before or len(both) == len(before):
        raise SettingError(f"{begin!r} cannot follow {prompt!r}: it would change the prompt's last token; put it there")
    if UNKNOWN in both[len(before) :]:
        raise SettingError(
            f"texts must begin with {begin!r}, but the vocabulary lacks a word of it; choose other words"
        )
    return both[len(before) :]


def _check_stop(stop: str, tokenizer: Tokenizer, forms: list[str]) -> None:
    """Raise SettingError if no sequence of tokens can produce the stop string."""
    probe = f"a{stop}a"
    encoded = tokenizer.encode_texts([probe])
    surfaces = [encoded.surface(i) for i in range(encoded.ids.size - 1)]
    restored = tokenizer.restore(b" ".join(surfaces)).decode("utf-8", "replace")
    if restored != probe:
        raise SettingError(
            f"the stop string {stop!r} never occurs: the {tokenizer.name} tokenizer turns it into {restored[1:-1]!r}; "
            "use that"
        )
    encoded = tokenizer.encode_texts([stop])
    words = [tokenizer.restore(encoded.surface(i)).decode("utf-8", "replace") for i in range(encoded.ids.size - 1)]
    ids = encoded.ids[:-1].tolist()
    possible = True
    if len(words) == 1:
        possible = any(words[0] in form for form in forms)
    elif words:
        possible = (
            UNKNOWN not in ids[1:-1]
            and any(form.endswith(words[0]) for form in forms)
            and any(form.startswith(words[-1]) for form in forms)
        )
    if not possible:
        raise SettingError(f"the stop string {stop!r} never occurs: the vocabulary lacks a word of it; choose another")
