"""Tokens and their log-probabilities as JSON.

Records are ASCII only, since U+2028 and the like break readers of lines; parts of a record may be JSON already. orjson
writes numbers many times faster than `json`, and the same ones: the shortest that read back equal. No two tokens are
written alike, and each as valid UTF-8. The four arrays of log-probabilities in an answer of completions are most of
what a server writes, so a kernel writes those of all texts of an answer together.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from chainrule.features.serve.generation.token_array_kernels import (
    MOST_OF_ALTERNATIVE,
    MOST_OF_TOKEN,
    SPARE,
    write_arrays,
)
from chainrule.protocol import END
from chainrule.text.corpus.block import byte_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tops = tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def json_bytes(record: Any) -> bytes:
    """Return the JSON of a record, in which some values may be of `json_fragment`."""
    data = orjson.dumps(record)
    if data.isascii():
        return data
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], data.decode()).encode()


def json_text(text: str) -> bytes:
    """Return the JSON of a text."""
    return json.dumps(text).encode()


def json_numbers(
    numbers: Float64[ndarray, " N"], spare: int
) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " N+1"]]:
    """Return the JSON of numbers, with a byte between two of them; and where each begins, with one byte after the end
    of the last.

    spare: how many bytes to leave after all of them.
    """
    data = orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)
    array = byte_array(data + bytes(spare))
    if not numbers.size:
        return array, np.ones(1, np.int64)
    return array, np.concatenate([[0], np.flatnonzero(array == ord(",")), [len(data) - 1]]) + 1


def json_fragment(data: bytes) -> Any:
    """Return text that is JSON already, as a value for `json_bytes`."""
    return orjson.Fragment(data)


_PAIRS = 1 << 12  # of tokens, half of which come again in a text; four times as many, 62 %
IMPOSSIBLE = -9999.0  # in place of -inf, which JSON lacks


class TokenNames:
    """The names of a vocabulary's tokens; as JSON, each is written once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._bytes, self._size = np.empty(1 << 12, np.uint8), 0
        self._begins, self._ends = np.zeros((2, tokenizer.vocabulary_size), np.int32)
        self.restore = lru_cache(_PAIRS)(tokenizer.restore)

    def name(self, token: int) -> str:
        """Return the token as the vocabulary spells it; bytes that are no UTF-8 as escapes."""
        return _text_or_escapes(self._vocabulary.token_bytes(token))

    def text(self, token: int, before: int | None) -> tuple[str, bytes]:
        """Return what a token adds to a text, and its bytes; if these are no UTF-8, the text has escapes.

        </s> is itself. before: the token before it, None at the beginning of the text.
        """
        spelled = self._vocabulary.token_bytes(token)
        if token == END or before in (None, END):
            data = self.restore(spelled)
        else:
            prefix = self._vocabulary.token_bytes(before)
            data = self.restore(prefix + b" " + spelled).removeprefix(self.restore(prefix))
        return _text_or_escapes(data or (spelled if token == END else data)), data

    def json(
        self, tokens: Int32[ndarray, " T"]
    ) -> tuple[UInt8[ndarray, " bytes"], Int32[ndarray, " V"], Int32[ndarray, " V"]]:
        """Return the JSON of names, those of the tokens among them; where that of each token begins and ends."""
        unwritten = tokens[self._ends[tokens] == 0]
        for token in np.unique(unwritten).tolist():
            data = byte_array(json_text(self.name(token)))
            begin, end = self._size, self._size + data.size
            if end + SPARE > self._bytes.size:
                self._bytes = np.append(self._bytes, np.empty(end + SPARE, np.uint8))
            self._bytes[begin:end] = data
            self._begins[token], self._ends[token], self._size = begin, end, end
        return self._bytes, self._begins, self._ends


def _text_or_escapes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def finite(log_prob: float) -> float:
    """Return the log-probability, or a number that stands for -inf."""
    return log_prob if math.isfinite(log_prob) else IMPOSSIBLE  # a long text may have less


# As `write_arrays` takes them.
_FIELDS = (b"null", b'{"tokens":[', b'],"token_logprobs":[', b'],"top_logprobs":[', b'],"text_offset":[', b"]}")
_FIELD_BYTES = byte_array(b"".join(_FIELDS) + bytes(SPARE))
_FIELD_BEGINS = np.array([*accumulate(map(len, _FIELDS), initial=0)])


class TokenRows(NamedTuple):
    """Tokens, a row for each. log_probs: in nats. tops: log-probabilities and ids of the k likeliest tokens in the
    place of each; None where k is 0.

    offsets: where the tokens begin, in characters. unknown: how many of the first log-probabilities are null.
    """

    ids: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " T"] | Float64[ndarray, " T"]
    tops: Tops | None
    offsets: Int64[ndarray, " T"]
    unknown: int = 0


def join_rows(texts: Sequence[TokenRows]) -> TokenRows:
    """Return the rows of some texts together."""
    written = [text for text in texts if len(text.ids)] or texts[:1]
    ids, log_probs, tops, offsets, _ = zip(*written, strict=True)
    columns = None
    if tops[0] is not None:
        best, others = zip(*tops, strict=True)
        columns = np.concatenate(best), np.concatenate(others)
    return TokenRows(np.concatenate(ids), np.concatenate(log_probs), columns, np.concatenate(offsets))


def token_arrays(names: TokenNames, texts: Sequence[TokenRows]) -> list[Any]:
    """Return the arrays of some texts, with the same k, as values for `json_bytes`.

    A token's log-probability is one number in both fields, so that clients can compare them.
    """
    rows = join_rows(texts)
    best, others = rows.tops or (np.empty(0, np.float32), np.empty((rows.ids.size, 0), np.int32))
    log_probs = np.concatenate([rows.log_probs, best.ravel()], dtype=np.float64)
    finite = np.where(log_probs > IMPOSSIBLE, log_probs, IMPOSSIBLE)  # NaN, too; no token is so unlikely
    numbers, number_begins = json_numbers(finite, SPARE)
    shown = np.concatenate([rows.ids, rows.ids, others.ravel()])
    name_bytes, name_begins, name_ends = names.json(shown)
    size = int((name_ends[shown] - name_begins[shown]).sum()) + 2 * numbers.size + len(texts) * _FIELD_BYTES.size
    size += MOST_OF_TOKEN * rows.ids.size + MOST_OF_ALTERNATIVE * others.size + SPARE
    out, ends = np.empty(size, np.uint8), np.empty(len(texts), np.int64)
    write_arrays(
        _FIELD_BYTES,
        _FIELD_BEGINS,
        np.array([*accumulate((len(text.ids) for text in texts), initial=0)]),
        np.array([text.unknown for text in texts]),
        rows.ids,
        others,
        name_bytes,
        name_begins,
        name_ends,
        numbers,
        number_begins,
        rows.offsets,
        out,
        ends,
    )
    data = out[: ends[-1]].tobytes()
    return [json_fragment(data[begin:end]) for begin, end in pairwise([0, *ends.tolist()])]
