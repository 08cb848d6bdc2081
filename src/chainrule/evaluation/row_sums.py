"""What whole distributions sum to: one, unless a table is no model, and then its perplexity says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

_CONTEXTS = 64
_MOST = 1 << 24  # probabilities that may be summed for this
_AT_ONCE = 1 << 20
_LONGEST = 32  # tokens of a context that are looked at; more than any n-gram has


class RowSums(NamedTuple):
    """mean: of the sums of the distributions after so many contexts."""

    mean: float
    contexts: int


def row_sums(model: LanguageModel[Any], stream: Int32[ndarray, " T"]) -> RowSums | None:
    """Of the distributions at evenly spaced places of some documents, </s> after each; None where there are none."""
    if not stream.size:
        return None
    wanted = min(stream.size, _CONTEXTS, max(4, _MOST // model.vocabulary_size))
    starts = np.concatenate([[0], np.flatnonzero(stream == END) + 1])
    prefixes = []
    for place in np.linspace(0, stream.size, wanted, endpoint=False).astype(np.int64).tolist():
        start = int(starts[np.searchsorted(starts, place, side="right") - 1])
        prefixes.append(stream[max(start, place - _LONGEST) : place])
    rows = max(1, _AT_ONCE // model.vocabulary_size)
    sums: list[float] = []
    for start in range(0, wanted, rows):
        log_probs = model.next_log_probs(model.start(prefixes[start : start + rows]))
        sums += np.exp(log_probs, dtype=np.float64).sum(axis=1).tolist()
    return RowSums(float(np.mean(sums)), wanted)
