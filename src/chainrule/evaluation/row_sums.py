"""Sums of whole distributions. If they are not one, the model is not a distribution, and has no perplexity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

_CONTEXTS = 64
_MAX_PROBS = 1 << 24  # computed in all
_BATCH_PROBS = 1 << 20  # computed at a time
_MAX_CONTEXT = 32  # tokens; more than any n-gram has


class RowSums(NamedTuple):
    """The mean of the sums of the distributions after some contexts, and the number of contexts."""

    mean: float
    contexts: int


def row_sums(model: LanguageModel[Any], stream: Int32[ndarray, " T"]) -> RowSums | None:
    """The sums at evenly spaced positions of a stream of documents, each ending with </s>; None for an empty stream."""
    if not stream.size:
        return None
    contexts = min(stream.size, _CONTEXTS, max(4, _MAX_PROBS // model.vocabulary_size))
    starts = np.concatenate([[0], np.flatnonzero(stream == END) + 1])
    prefixes = []
    for position in np.linspace(0, stream.size, contexts, endpoint=False).astype(np.int64).tolist():
        start = int(starts[np.searchsorted(starts, position, side="right") - 1])
        prefixes.append(stream[max(start, position - _MAX_CONTEXT) : position])
    rows = max(1, _BATCH_PROBS // model.vocabulary_size)
    sums: list[float] = []
    for start in range(0, contexts, rows):
        log_probs = model.next_log_probs(model.start(prefixes[start : start + rows]))
        sums += np.exp(log_probs, dtype=np.float64).sum(axis=1).tolist()
    return RowSums(float(np.mean(sums)), contexts)
