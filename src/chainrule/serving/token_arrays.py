"""The four arrays of log-probabilities in an answer of completions, as JSON.

They are most of what a server writes, so a kernel writes those of all texts of an answer together.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.serving.json_bytes import json_fragment, json_numbers
from chainrule.serving.token_array_kernels import MOST_OF_ALTERNATIVE, MOST_OF_TOKEN, SPARE, write_arrays
from chainrule.serving.token_names import IMPOSSIBLE
from chainrule.text.corpus.block import byte_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.serving.token_names import TokenNames

    Tops = tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]

# As `write_arrays` takes them.
_FIELDS = (b"null", b'{"tokens":[', b'],"token_logprobs":[', b'],"top_logprobs":[', b'],"text_offset":[', b"]}")
_FIELD_BYTES = byte_array(b"".join(_FIELDS) + bytes(SPARE))
_FIELD_BEGINS = np.array([*accumulate(map(len, _FIELDS), initial=0)])


class TokenRows(NamedTuple):
    """Tokens, a row each. log_probs: in nats. tops: log-probabilities and ids of the k likeliest in the place of each;
    None where k is 0.

    offsets: where the tokens begin, in characters. unknown: how many of the first log-probabilities are null.
    """

    ids: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " T"] | Float64[ndarray, " T"]
    tops: Tops | None
    offsets: Int64[ndarray, " T"]
    unknown: int = 0


def joined(texts: Sequence[TokenRows]) -> TokenRows:
    """The rows of some texts together."""
    written = [text for text in texts if len(text.ids)] or texts[:1]
    ids, log_probs, tops, offsets, _ = zip(*written, strict=True)
    columns = None
    if tops[0] is not None:
        best, others = zip(*tops, strict=True)
        columns = np.concatenate(best), np.concatenate(others)
    return TokenRows(np.concatenate(ids), np.concatenate(log_probs), columns, np.concatenate(offsets))


def token_arrays(names: TokenNames, texts: Sequence[TokenRows]) -> list[Any]:
    """The arrays of some texts, with the same k, as values for `json_bytes`.

    A token's log-probability is one number in both fields, so that clients can compare them.
    """
    rows = joined(texts)
    best, others = rows.tops or (np.empty(0, np.float32), np.empty((rows.ids.size, 0), np.int32))
    log_probs = np.concatenate([rows.log_probs, best.ravel()], dtype=np.float64)
    finite = np.where(log_probs > IMPOSSIBLE, log_probs, IMPOSSIBLE)  # NaN, too
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
