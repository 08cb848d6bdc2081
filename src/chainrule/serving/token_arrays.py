"""The four arrays of log-probabilities in an answer of completions, as JSON.

They are most of what a server writes, so they are not built as Python objects first, and those of all texts of an
answer are written together.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.serving.json_bytes import json_fragment, json_numbers
from chainrule.serving.token_names import IMPOSSIBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.serving.token_names import TokenNames
    from chainrule.serving.work import Top

    Json = dict[str, Any]


class TokenRows(NamedTuple):
    """Tokens, a row each. log_probs: in nats. tops: the likeliest in the place of each; None where none are asked for.

    offsets: where the tokens begin, in characters. unknown: how many of the first log-probabilities are null.
    """

    ids: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " T"] | Float64[ndarray, " T"]
    tops: Sequence[Top | None]
    offsets: Int64[ndarray, " T"]
    unknown: int = 0

    def followed_by(self, other: TokenRows) -> TokenRows:
        """Both, one after the other."""
        if not len(other.ids):
            return self
        return TokenRows(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.log_probs, other.log_probs]),
            [*self.tops, *other.tops],
            np.concatenate([self.offsets, other.offsets]),
            self.unknown,
        )


def token_arrays(names: TokenNames, texts: Sequence[TokenRows]) -> list[Json]:
    """The arrays of some texts.

    A token's log-probability is one number in both fields, so that clients can compare them.
    """
    own_names = names.all_json(np.concatenate([text.ids for text in texts]).tolist())
    numbers = _numbers(np.concatenate([text.log_probs for text in texts]))
    offsets = json_numbers(np.concatenate([text.offsets for text in texts]))
    tops = list(map(b":".join, zip(own_names, numbers, strict=True)))
    for i, top in enumerate(chain.from_iterable(text.tops for text in texts)):
        if top is not None:
            tops[i] = _top(names, own_names[i], tops[i], top)
    cuts = accumulate((len(text.ids) for text in texts), initial=0)
    return [
        {
            "tokens": _array(own_names[begin:end]),
            "token_logprobs": _array(numbers[begin:end], text.unknown),
            "top_logprobs": _array([b"{" + top + b"}" for top in tops[begin:end]], text.unknown),
            "text_offset": _array(offsets[begin:end]),
        }
        for text, (begin, end) in zip(texts, pairwise(cuts), strict=True)
    ]


def _array(parts: list[bytes], unknown: int = 0) -> Any:
    """An array of JSON values, the first `unknown` of them null."""
    parts[:unknown] = [b"null"] * len(parts[:unknown])
    return json_fragment(b"[" + b",".join(parts) + b"]")


def _top(names: TokenNames, name: bytes, own: bytes, top: Top) -> bytes:
    """The likeliest tokens with their log-probabilities, and the token that is there, whose pair is `own`."""
    log_probs, ids = top
    pairs = zip(names.all_json(ids.tolist()), _numbers(log_probs), strict=True)
    return b",".join([*(other + b":" + its for other, its in pairs if other != name), own])


def _numbers(log_probs: Float32[ndarray, " T"] | Float64[ndarray, " T"]) -> list[bytes]:
    """The JSON of log-probabilities; IMPOSSIBLE in place of -inf and NaN."""
    wide = np.asarray(log_probs, np.float64)
    return json_numbers(np.where(wide > IMPOSSIBLE, wide, IMPOSSIBLE))
