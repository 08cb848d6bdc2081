"""Scores and searches with a conditional model, for many sources: those of similar length together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.decoding.beam import search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64, Int32, Shaped
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.decoding.beam import Hypothesis
    from chainrule.decoding.config import BeamConfig
    from chainrule.decoding.limits import Constraints
    from chainrule.neural.seq2seq.model import ConditionalModel

BATCH = 64  # sources that are searched for at once
_PREFIX = np.empty(0, np.int32)


def score_targets(
    model: ConditionalModel,
    sources: Sequence[Shaped[ndarray, "S ..."]],
    targets: Sequence[Int32[ndarray, " tokens"]],
    progress: Progress,
) -> Float64[ndarray, " pairs"]:
    """log P of each target with its </s>, given its source, in nats. Raises SettingError."""
    scores = np.zeros(len(targets))
    order = sorted(range(len(targets)), key=lambda i: (len(sources[i]), targets[i].size))
    for first in range(0, len(order), BATCH):
        progress("scoring", first, len(order))
        chosen = order[first : first + BATCH]
        given = model.given([sources[i] for i in chosen])
        token_scores = given.score([targets[i] for i in chosen])
        scores[chosen] = [log_probs.sum(dtype=np.float64) for log_probs in token_scores]
    return scores


def search_sources(
    model: ConditionalModel,
    sources: Sequence[Shaped[ndarray, "S ..."]],
    beam: BeamConfig,
    constraints: Constraints,
    progress: Progress,
    *,
    limit: Callable[[Any], int] | None = None,
    alignments: bool = False,
) -> list[list[Hypothesis]]:
    """The likeliest targets of each source, best first; none for a source without tokens.

    limit: source -> the most tokens of its target, in place of max_tokens. alignments: whether to keep attention
    weights. Raises SettingError.
    """
    hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
    order = sorted((i for i, source in enumerate(sources) if len(source)), key=lambda i: len(sources[i]))
    for first in range(0, len(order), BATCH):
        progress("writing", first, len(order))
        chosen = order[first : first + BATCH]
        given = model.given([sources[i] for i in chosen], alignments=alignments)
        searches = search(
            given,
            [_PREFIX] * len(chosen),
            beam,
            constraints,
            limits=None if limit is None else [limit(sources[i]) for i in chosen],
            attention=given.attention if alignments else None,
        )
        for i, result in zip(chosen, searches, strict=True):
            hypotheses[i] = list(result.hypotheses)
    return hypotheses
