"""Prompts of requests, texts or token ids, as what the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.serve.bodies import ApiError
from chainrule.protocol import BEGIN, END
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, MarkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer


class Prompt(NamedTuple):
    """A prompt.

    ids: as given, a leading <s> or </s> included. is_marked: whether there is such a marker, which the model does not
    read twice. text: the normalised text. offsets: for each id, how many characters of the text are before it.
    surfaces: the last token as written, which affects the spacing of the text after it.
    """

    ids: Int32[ndarray, " T"]
    is_marked: bool
    text: str
    offsets: Int64[ndarray, " T"]
    surfaces: list[bytes]

    @property
    def read(self) -> Int32[ndarray, " T"]:
        """What the model reads after <s>."""
        return self.ids[1:] if self.is_marked else self.ids

    def last(self, most: int) -> Prompt:
        """Return the last tokens of the prompt, at most so many, as a prompt; a marker before them is not one of
        them.
        """
        if len(self.read) <= most:
            return self
        first = len(self.ids) - most
        begin = int(self.offsets[first])
        offsets = self.offsets[first:] - begin
        return Prompt(
            self.ids[first:], is_marked=False, text=self.text[begin:], offsets=offsets, surfaces=self.surfaces
        )


def encode_prompts(value: Any, tokenizer: Tokenizer, most: int, *, param: str = "prompt") -> list[Prompt]:
    """Return the prompts of a request: a text, several texts, token ids, or several lists of them.

    [] or "" is an empty prompt: the text begins. most: the most prompts. Raises ApiError.
    """
    if value is None or value == []:
        value = ""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise ApiError(400, f"{param} is {_kind(value)}; expected a text, a list of texts, or token ids", param=param)
    if not isinstance(value[0], str | list):
        value = [value]
    if len(value) > most:
        raise ApiError(400, f"{param} has {len(value):,} entries; expected at most {most:,}", param=param)
    if all(isinstance(entry, str) for entry in value):
        return _of_texts(value, tokenizer, param)
    if all(isinstance(entry, list) for entry in value):
        return _of_ids([_checked_ids(entry, tokenizer, param) for entry in value], tokenizer)
    raise ApiError(400, f"{param} mixes texts and token ids; expected one kind", param=param)


def encode_text(text: str, tokenizer: Tokenizer, *, param: str = "prompt") -> list[int]:
    """Return the ids of a text; a text that is nothing but <s> or </s> is that marker. Raises ApiError."""
    if text in MARKER_TOKENS[1:]:
        return [MARKER_TOKENS.index(text)]
    return encode_prompts(text, tokenizer, 1, param=param)[0].ids.tolist()


def marker_error(marker: str, param: str, way_out: str = "") -> ApiError:
    """Return the error of a field whose text has a literal marker. way_out: what the user can do other than
    remove it.
    """
    message = f"{param} has a literal {marker}, which is a marker of the model; remove it{way_out}"
    return ApiError(400, message, param=param, code="marker_in_text")


def _kind(value: Any) -> str:
    return {bool: "a truth value", int: "a number", float: "a number", dict: "an object"}.get(type(value), "no text")


def _checked_ids(ids: list[Any], tokenizer: Tokenizer, param: str) -> Int32[ndarray, " T"]:
    for token in ids:
        if type(token) is not int:
            raise ApiError(400, f"{param} has {_kind(token)} among token ids; expected whole numbers", param=param)
        if not 0 <= token < tokenizer.vocabulary_size:
            raise ApiError(
                400,
                f"{param} has token id {token}, but the vocabulary has {tokenizer.vocabulary_size:,}, from 0. The "
                "client uses another tokenizer: send texts, or ids from /tokenize",
                param=param,
                code="token_out_of_vocabulary",
            )
    return np.array(ids, np.int32)


def _of_texts(texts: Sequence[str], tokenizer: Tokenizer, param: str) -> list[Prompt]:
    try:
        encoded = tokenizer.encode_texts(texts)
    except MarkerError as error:
        raise marker_error(error.marker, param, ", or send token ids") from None
    except SettingError as error:
        raise ApiError(400, str(error), param=param) from None
    return _aligned(encoded.ids, tokenizer.align(encoded), encoded.text.tobytes(), np.flatnonzero(encoded.ids == END))


def _of_ids(rows: Sequence[Int32[ndarray, " T"]], tokenizer: Tokenizer) -> list[Prompt]:
    lines = [b" ".join(map(tokenizer.vocabulary.token_bytes, row.tolist())) for row in rows]
    written = b"".join(line + b"\n" for line in lines)
    ids = np.concatenate([np.append(row, END) for row in rows]).astype(np.int32)
    ends = np.cumsum([len(row) + 1 for row in rows]) - 1
    return _aligned(ids, tokenizer.splitter.align(byte_array(written)), written, ends)


def _aligned(ids: Int32[ndarray, " T"], alignment: Alignment, written: bytes, ends: np.ndarray) -> list[Prompt]:
    """Cut an alignment of several documents into prompts. written: the tokens, a line for each prompt."""
    begins_character = (alignment.text & 0xC0) != 0x80
    characters = np.concatenate([[0], np.cumsum(begins_character)])
    text = alignment.text.tobytes()
    begins = np.append(0, ends[:-1] + 1)
    text_begins = np.append(0, alignment.stops[ends[:-1]])
    before = np.append(0, alignment.stops[:-1])
    offsets = characters[before] - characters[text_begins].repeat(ends + 1 - begins)
    is_marked = (ids[begins] == BEGIN) | ((ids[begins] == END) & (begins < ends))
    rows = zip(
        begins.tolist(),
        ends.tolist(),
        is_marked.tolist(),
        text_begins.tolist(),
        alignment.starts[ends].tolist(),
        written.split(b"\n"),
        strict=False,
    )
    return [
        Prompt(
            ids[begin:end],
            marked,
            text[first:last].decode("utf-8", "replace"),
            offsets[begin:end],
            [line.rpartition(b" ")[2]] if line else [],
        )
        for begin, end, marked, first, last, line in rows
    ]
