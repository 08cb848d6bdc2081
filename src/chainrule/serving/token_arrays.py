"""The four arrays of log-probabilities in an answer of completions, as JSON.

They are most of what a server writes, so they are not built as Python objects first.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.serving.json_bytes import json_array, json_numbers
from chainrule.serving.token_names import IMPOSSIBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from chainrule.serving.token_names import TokenNames
    from chainrule.serving.work import Top

    Json = dict[str, Any]


class TokenRows(NamedTuple):
    """Tokens, a row each. log_probs: in nats. tops: the likeliest in the place of each; None where none are asked for.

    offsets: where the tokens begin, in characters.
    """

    ids: Sequence[int]
    log_probs: ArrayLike
    tops: Sequence[Top | None]
    offsets: Sequence[int]


def token_arrays(names: TokenNames, parts: Sequence[TokenRows], *, first_is_unknown: bool) -> Json:
    """The arrays of some parts, one after the other. first_is_unknown: whether the first log-probability is null.

    A token's log-probability is one number in both fields, so that clients can compare them.
    """
    own_names = [names.json(token) for part in parts for token in part.ids]
    numbers = [number for part in parts for number in _numbers(part.log_probs)]
    rows = zip(own_names, numbers, chain.from_iterable(part.tops for part in parts), strict=True)
    tops = [
        b"{" + name + b":" + number + b"}" if top is None else _top(names, name, number, top)
        for name, number, top in rows
    ]
    if first_is_unknown and numbers:
        numbers[0] = tops[0] = b"null"
    offsets = json_numbers(np.concatenate([np.asarray(part.offsets, np.int64) for part in parts]))
    return {
        "tokens": json_array(own_names),
        "token_logprobs": json_array(numbers),
        "top_logprobs": json_array(tops),
        "text_offset": json_array(offsets),
    }


def _top(names: TokenNames, name: bytes, number: bytes, top: Top) -> bytes:
    """The likeliest tokens with their log-probabilities, and the token that is there."""
    log_probs, ids = top
    pairs = zip(map(names.json, ids.tolist()), _numbers(log_probs), strict=True)
    others = [other + b":" + its for other, its in pairs if other != name]
    return b"{" + b",".join([*others, name + b":" + number]) + b"}"


def _numbers(log_probs: ArrayLike) -> list[bytes]:
    """The JSON of log-probabilities; IMPOSSIBLE in place of -inf and NaN."""
    wide = np.asarray(log_probs, np.float64)
    return json_numbers(np.where(wide > IMPOSSIBLE, wide, IMPOSSIBLE))
