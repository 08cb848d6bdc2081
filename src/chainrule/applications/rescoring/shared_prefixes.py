"""Log-probabilities of texts, with common prefixes read once: the texts form a tree, which is scored level by level.

In lists of 50 hypotheses, distinct prefixes are a third of the tokens. That makes networks 2.3 to 4 times as fast, but
not n-grams, for which a whole distribution costs more than the few probabilities that are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

_NUMBERS_AT_ONCE = 1 << 24  # of distributions


def shared_log_probs(
    model: LanguageModel[Any], sequences: Sequence[Int32[ndarray, " tokens"]]
) -> Float64[ndarray, " sequences"]:
    """log P of each sequence with its </s>, in nats. Raises SettingError where an id is outside the vocabulary."""
    totals = np.zeros(len(sequences))
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    rows_at_once = max(1, _NUMBERS_AT_ONCE // model.vocabulary_size)
    state = model.start([np.empty(0, np.int32)])
    nodes = np.zeros(len(sequences), np.int64)  # the row of the state that each sequence has reached
    going = np.arange(len(sequences))
    for depth in range(lengths.max(initial=-1) + 1):
        going = going[lengths[going] >= depth]
        tokens = np.array([sequences[i][depth] if depth < lengths[i] else model.end for i in going.tolist()], np.int32)
        parents = nodes[going]
        rows = np.unique(parents)
        for first in range(0, rows.size, rows_at_once):
            some = rows[first : first + rows_at_once]
            log_probs = model.next_log_probs(model.select(state, some.astype(np.int32)))
            here = (parents >= some[0]) & (parents <= some[-1])
            totals[going[here]] += log_probs[np.searchsorted(some, parents[here]), tokens[here]]
        is_inner = depth < lengths[going]
        going, parents, tokens = going[is_inner], parents[is_inner], tokens[is_inner]
        if not going.size:
            break
        children, nodes[going] = np.unique(parents * model.vocabulary_size + tokens, return_inverse=True)
        above, below = (children // model.vocabulary_size).astype(np.int32), children % model.vocabulary_size
        state = model.advance(model.select(state, above), below.astype(np.int32))
    return totals
