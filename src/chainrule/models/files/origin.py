"""What the record of a model says of the files of others that it was opened from: the ids of its tokens, and its chats.

`TokenIdMap` says which token id of the others is which of ours, and which of their tokens are our markers. Ours begin
with <unk>, <s> and </s>; theirs have these anywhere, or lack some. So a network's rows are put in another order: three
rows first, then all others as they were, those too that no text can reach, since they count in the normaliser. A marker
that theirs lack gets a row of zeros, and no probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.protocol import UNKNOWN
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.text.tokenization.subword import Subword
    from chainrule.text.tokenization.vocabulary import Vocabulary

    Json = dict[str, Any]


class TokenIdMap(NamedTuple):
    """The ids of others, numbered as ours.

    rows: how many ids they have. unknown, begin, end: their ids of our markers; None where they have no such token.
    other_ends: further ids of theirs that end a text. masked: whether `begin` is the mask, and `end` the token that is
    read before a text, as </s> is here. closing: for such a model, the token that is read after a text; None for none.
    before: the token that is read before a text, where it is neither `begin` nor `end`; None where it is one of them.
    adds_begin: whether their own tokenizer adds it.
    """

    rows: int
    unknown: int | None
    begin: int | None
    end: int | None
    other_ends: tuple[int, ...] = ()
    masked: bool = False
    closing: int | None = None
    before: int | None = None
    adds_begin: bool = False

    @property
    def first(self) -> int | None:
        """Their id of what is read before a text."""
        if self.before is not None:
            return self.before
        return self.end if self.masked or self.begin is None else self.begin

    def theirs(self) -> Int64[ndarray, " ours"]:
        """Return their id of each token of ours; -1 for none."""
        markers = [-1 if number is None else number for number in (self.unknown, self.begin, self.end)]
        others = np.delete(np.arange(self.rows), [number for number in markers if number >= 0])
        return np.concatenate([markers, others])

    def ours(self) -> Int64[ndarray, " theirs"]:
        """Return our id of each token of theirs."""
        theirs = self.theirs()
        ours = np.empty(self.rows, np.int64)
        ours[theirs[theirs >= 0]] = np.flatnonzero(theirs >= 0)
        return ours

    def settings(self) -> Json:
        """Return the settings of a network that follow from it."""
        missing = [number for number, theirs in enumerate(self.theirs()[:3].tolist()) if theirs < 0 and number != 1]
        if self.masked:
            closing = None if self.closing is None else int(self.ours()[self.closing])
            return {"closed_by": closing, "banned": tuple(missing)}
        return {
            "begins_with": "</s>" if self.begin is None else "<s>",
            **({} if self.before is None else {"first_read": int(self.ours()[self.before])}),
            "ends": tuple(self.ours()[list(self.other_ends)].tolist()),
            "banned": tuple(missing),
        }


def name_before(record: Json, splitter: Subword, chosen: int | None = None) -> str | None:
    """Return the others' name of the token that their model reads before a text; None for a model of ours.

    chosen: our id of the token that was asked for in its place, if any.
    """
    if (origin := record.get("hugging_face")) is None:
        return None
    numbering = TokenIdMap(**origin["tokens"])
    number = numbering.first if chosen is None else int(numbering.theirs()[chosen])
    return next((name for name, own in splitter.numbers.items() if own == number), None)


def id_of_name(record: Json, splitter: Any, vocabulary: Vocabulary, name: str) -> int | None:
    """Return our id of a token by its name, in a checkpoint of others by theirs; None if there is no such token."""
    numbers: Mapping[str, int] = getattr(splitter, "numbers", {})
    if (origin := record.get("hugging_face")) is not None and name in numbers:
        return int(TokenIdMap(**origin["tokens"]).ours()[numbers[name]])
    number = vocabulary.id_of(name)
    return None if number == UNKNOWN and name != MARKER_TOKENS[UNKNOWN] else number


def template_of(origin: Json) -> str | None:
    """Return the chat template of a model that was opened; None if it has none.

    origin: its record of Hugging Face's files.
    """
    template = origin.get("chat_template") or (origin.get("tokenizer_config") or {}).get("chat_template")
    if isinstance(template, list):  # several by name
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default") or next(iter(named.values()), None)
    return template if isinstance(template, str) and template else None


def variables_of(origin: Json, splitter: Subword) -> dict[str, str]:
    """Return the special tokens that a template may write by their names, such as bos_token."""
    numbering = TokenIdMap(**origin["tokens"])
    names: dict[int | None, str] = {number: name for name, number in splitter.numbers.items()}
    begin = numbering.end if numbering.begin is None else numbering.begin
    variables = {"bos_token": names.get(begin), "eos_token": names.get(numbering.end)}
    for name, token in (origin.get("tokenizer_config") or {}).items():
        if name.endswith("_token"):
            variables[name] = token.get("content") if isinstance(token, dict) else token
    return {name: token for name, token in variables.items() if isinstance(token, str)}


class OpenPromptEncoder:
    """A `PromptEncoder`, by a model's own tokenizer."""

    def __init__(self, origin: Json, splitter: Subword) -> None:
        self.special: Sequence[str] = splitter.special_tokens
        self.added: Sequence[str] = splitter.added_tokens
        self._splitter, self._ours = splitter, TokenIdMap(**origin["tokens"]).ours()

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """Implement `PromptEncoder.encode`."""
        numbers = self._splitter.encode_with_special_tokens(text)
        return self._ours[np.array(numbers, np.int64)].astype(np.int32)
