"""CTC's best paths: the likeliest label of each frame, and the likeliest alignment of a given text.

Legend: T frames, U labels of the text, S = 2 U + 1 states: a blank around every label (Graves 2006).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int64
    from numpy import ndarray


class AlignedLabel(NamedTuple):
    """A label with its first frame, and the one after its last."""

    label: int
    start: int
    stop: int


class Alignment(NamedTuple):
    """The labels of a path, without its blanks, and log P of the path in nats."""

    labels: tuple[AlignedLabel, ...]
    log_prob: float


def best_path(log_probs: Float[ndarray, "T labels"], blank: int) -> Alignment:
    """Return the likeliest label of each frame: runs become one label, and blanks go."""
    path = log_probs.argmax(axis=1)
    total = float(log_probs[np.arange(len(path)), path].sum(dtype=np.float64))
    return Alignment(_runs(path, path, blank), total)


def align(log_probs: Float[ndarray, "T labels"], labels: Sequence[int], blank: int) -> Alignment:
    """Return the likeliest path of a text's labels (Viterbi). Raises TextError where there are too few frames for
    them.
    """
    targets = np.asarray(labels, np.int64)
    needed = len(targets) + int(np.count_nonzero(targets[1:] == targets[:-1]))
    if len(log_probs) < needed:
        raise TextError(
            f"the text has {len(targets):,} labels, which need {needed:,} frames, and there are {len(log_probs):,}; "
            "give a text that is said there"
        )
    states, may_skip = _states(targets, blank)
    emitted = log_probs[:, states].astype(np.float64)  # (T, S)
    scores = np.full(len(states), -np.inf)
    scores[:2] = emitted[0, :2]
    steps = np.zeros(emitted.shape, np.int8)  # how many states back the best predecessor is
    for t in range(1, len(emitted)):
        before = np.full((3, len(states)), -np.inf)
        before[0], before[1, 1:], before[2, 2:] = scores, scores[:-1], scores[:-2]
        before[2, ~may_skip] = -np.inf
        steps[t] = before.argmax(axis=0)
        scores = before.max(axis=0) + emitted[t]
    state = len(states) - 1
    if state and scores[state - 1] > scores[state]:
        state -= 1
    total, path = float(scores[state]), np.zeros(len(emitted), np.int64)
    for t in range(len(emitted) - 1, -1, -1):
        path[t] = state
        state -= int(steps[t, state])
    return Alignment(_runs(path, states[path], blank), total)


def log_probability(log_probs: Float[ndarray, "T labels"], labels: Sequence[int], blank: int) -> float:
    """Return log P of a text's labels in some frames, over all alignments (Graves 2006, equation 8)."""
    states, may_skip = _states(np.asarray(labels, np.int64), blank)
    emitted = log_probs[:, states].astype(np.float64)  # (T, S)
    scores = np.full(len(states) + 2, -np.inf)  # two before the first, so that all have predecessors
    scores[2:4] = emitted[0, :2]
    for row in emitted[1:]:
        skipped = np.where(may_skip, scores[:-2], -np.inf)
        scores[2:] = np.logaddexp(np.logaddexp(scores[2:], scores[1:-1]), skipped) + row
    return float(np.logaddexp(scores[-1], scores[-2]))


def _states(targets: Int64[ndarray, " labels"], blank: int) -> tuple[Int64[ndarray, " S"], Bool[ndarray, " S"]]:
    """Return the label of each state, and whether it may follow the state two before it."""
    states = np.full(2 * len(targets) + 1, blank)
    states[1::2] = targets
    may_skip = np.zeros(len(states), bool)
    may_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    return states, may_skip


def _runs(path: Int64[ndarray, " T"], labels: Int64[ndarray, " T"], blank: int) -> tuple[AlignedLabel, ...]:
    """Return the runs of the same place in a path, but for blanks."""
    starts = np.flatnonzero(np.append(True, path[1:] != path[:-1])) if len(path) else np.zeros(0, np.int64)
    stops = np.append(starts[1:], len(path))
    return tuple(
        AlignedLabel(int(labels[start]), int(start), int(stop))
        for start, stop in zip(starts, stops, strict=True)
        if labels[start] != blank
    )
