"""The four arrays of log-probabilities in an answer of completions, as JSON.

They are most of what a server writes, so they are not built as Python objects first, and those of all texts of an
answer are written together.
"""

from __future__ import annotations

from itertools import accumulate, compress, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.serving.json_bytes import json_fragment, json_numbers
from chainrule.serving.token_names import IMPOSSIBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.serving.token_names import TokenNames

    Json = dict[str, Any]
    Tops = tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]


class TokenRows(NamedTuple):
    """Tokens, a row each. log_probs: in nats. tops: log-probabilities and ids of the k likeliest in the place of each.

    offsets: where the tokens begin, in characters. unknown: how many of the first log-probabilities are null.
    """

    ids: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " T"] | Float64[ndarray, " T"]
    tops: Tops
    offsets: Int64[ndarray, " T"]
    unknown: int = 0


def joined(texts: Sequence[TokenRows]) -> TokenRows:
    """The rows of some texts together."""
    texts = [text for text in texts if len(text.ids)] or texts[:1]  # an empty one may not know its k
    log_probs, ids = (np.concatenate(column) for column in zip(*(text.tops for text in texts), strict=True))
    return TokenRows(
        np.concatenate([text.ids for text in texts]),
        np.concatenate([text.log_probs for text in texts]),
        (log_probs, ids),
        np.concatenate([text.offsets for text in texts]),
    )


def token_arrays(names: TokenNames, texts: Sequence[TokenRows]) -> list[Json]:
    """The arrays of some texts, with the same k.

    A token's log-probability is one number in both fields, so that clients can compare them.
    """
    rows = joined(texts)
    own_names, numbers = names.json(rows.ids), _numbers(rows.log_probs)
    own = list(map(b":".join, zip(own_names, numbers, strict=True)))
    tops, offsets = _tops(names, rows, own), json_numbers(rows.offsets)
    cuts = list(accumulate((len(text.ids) for text in texts), initial=0))
    for text, begin in zip(texts, cuts, strict=False):
        numbers[begin : begin + text.unknown] = tops[begin : begin + text.unknown] = [b"null"] * text.unknown
    columns = {"tokens": own_names, "token_logprobs": numbers, "top_logprobs": tops, "text_offset": offsets}
    return [
        {field: json_fragment(b"[" + b",".join(column[begin:end]) + b"]") for field, column in columns.items()}
        for begin, end in pairwise(cuts)
    ]


def _tops(names: TokenNames, rows: TokenRows, own: list[bytes]) -> list[bytes]:
    """For each row, the likeliest tokens with their log-probabilities, and its own token with its own."""
    log_probs, ids = rows.tops
    k = ids.shape[1]
    if not k:
        return [b"{" + pair + b"}" for pair in own]
    pairs = list(map(b":".join, zip(names.json(ids.ravel()), _numbers(log_probs.ravel()), strict=True)))
    are_others = (ids != rows.ids[:, None]).tolist()
    return [
        b"{" + b",".join([*compress(pairs[i * k : i * k + k], are_others[i]), pair]) + b"}"
        for i, pair in enumerate(own)
    ]


def _numbers(log_probs: Float32[ndarray, " T"] | Float64[ndarray, " T"]) -> list[bytes]:
    """The JSON of log-probabilities; IMPOSSIBLE in place of -inf and NaN."""
    wide = np.asarray(log_probs, np.float64)
    return json_numbers(np.where(wide > IMPOSSIBLE, wide, IMPOSSIBLE))
