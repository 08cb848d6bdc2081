"""The likeliest tokens at each position of given texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

    Tokens = Int32[ndarray, " T"]
    Tops = tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]


def position_tops(model: LanguageModel[Any], sequences: Sequence[Tokens], k: int) -> list[Tops]:
    """For each sequence, the log-probabilities and ids of the k likeliest tokens at each position, step by step."""
    k = min(k, model.vocabulary_size)
    tops = [
        (np.empty((len(sequence), k), np.float32), np.empty((len(sequence), k), np.int32)) for sequence in sequences
    ]
    rows = np.array([row for row, sequence in enumerate(sequences) if len(sequence)], np.int32)
    if not rows.size:
        return tops
    state = model.start([np.empty(0, np.int32)] * rows.size)
    position = 0
    while True:
        best, ids = model.top(state, k)
        for i, row in enumerate(rows.tolist()):
            tops[row][0][position], tops[row][1][position] = best[i], ids[i]
        kept = np.flatnonzero([len(sequences[row]) > position + 1 for row in rows.tolist()]).astype(np.int32)
        if not kept.size:
            return tops
        rows = rows[kept]
        tokens = np.array([sequences[row][position] for row in rows.tolist()], np.int32)
        state = model.advance(model.select(state, kept), tokens)
        position += 1
