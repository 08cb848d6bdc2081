"""The log-probability of each document of a text, however many there are: whole arrays, no object a document."""

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
    """By document."""

    log_probs: Float64[ndarray, " documents"]  # nats, </s> included, <unk> for an unknown token
    tokens: Int64[ndarray, " documents"]  # </s> counted
    unknown: Int64[ndarray, " documents"]


def sentence_scores(model: Scorer, stream: Int32[ndarray, " T"]) -> SentenceScores:
    """The documents of a stream, </s> after each."""
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
