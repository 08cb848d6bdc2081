"""The log-probability of each document of a text, in whole arrays: no Python object for each document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.protocol import END, UNKNOWN, Scorer

if TYPE_CHECKING:
    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray


@dataclass(frozen=True)
class SentenceScores:
    """The scores of documents."""

    log_probs: Float64[ndarray, " documents"]  # nats, </s> included, unknown tokens as <unk>
    tokens: Int64[ndarray, " documents"]  # </s> included
    unknown: Int64[ndarray, " documents"]  # unknown tokens


def score_sentences(model: Scorer, stream: Int32[ndarray, " T"]) -> SentenceScores:
    """Scores the documents of a stream, each ending with </s>."""
    stops = np.flatnonzero(stream == END) + 1
    if not stops.size:
        return SentenceScores(np.empty(0), stops, stops)
    starts = np.concatenate([[0], stops[:-1]])
    scores = model.score_stream(stream)
    return SentenceScores(
        np.add.reduceat(scores, starts, dtype=np.float64),
        stops - starts,
        np.add.reduceat(stream == UNKNOWN, starts, dtype=np.int64),
    )
