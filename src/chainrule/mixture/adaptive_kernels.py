"""The compiled gate of an adaptive mixture: what is known before a token, as features, and the weights that follow.

Each row is summed in one order, whatever rows there are beside it. Legend: K models, W witnesses, F features, H hidden
units of the gate, S numbers that describe the distributions at a position, or none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.protocol import END

Array = NDArray[Any]

LENGTHS = 9  # of the longest known context: 0 to 7, and more
OF_WITNESS = LENGTHS + 2
DECAYS = (0.8, 0.98)  # of the means of a model's past log-probabilities, a token
_WORST = 8.0  # nats below the best model's, at most
OF_ROW = 3  # numbers that describe a model's distribution


@kernel
def fill_features(memory: Array, evidence: Array, shapes: Array, row: int, features: Array) -> None:
    """Fill in the features of a row. memory: (K, 2). evidence: (W, rows, 3). shapes: (rows, S). features: (F,)."""
    features[0] = 1.0
    at = 1
    for k in range(memory.shape[0]):
        for j in range(memory.shape[1]):
            features[at] = memory[k, j]
            at += 1
    for f in range(at, features.size):
        features[f] = 0.0
    for w in range(evidence.shape[0]):
        features[at + min(int(evidence[w, row, 0]), LENGTHS - 1)] = 1.0
        features[at + LENGTHS] = math.log(1.0 + evidence[w, row, 1])
        features[at + LENGTHS + 1] = math.log(1.0 + evidence[w, row, 2])
        at += OF_WITNESS
    for f in range(shapes.shape[1]):
        features[at + f] = shapes[row, f]


@kernel
def remember(memory: Array, scores: Array) -> None:
    """Add a token's log-probabilities, (K,), to the decaying means, (K, 2); each is less their mean over models."""
    best, mean = -math.inf, 0.0
    for k in range(scores.size):
        best = max(best, np.float64(scores[k]))
    if best == -math.inf:
        return
    for k in range(scores.size):
        mean += max(np.float64(scores[k]), best - _WORST) / scores.size
    for k in range(scores.size):
        own = max(np.float64(scores[k]), best - _WORST) - mean
        memory[k, 0] = DECAYS[0] * memory[k, 0] + (1 - DECAYS[0]) * own
        memory[k, 1] = DECAYS[1] * memory[k, 1] + (1 - DECAYS[1]) * own


@kernel
def fill_log_weights(features: Array, gate: Array, inner: Array, outer: Array, hidden: Array, weights: Array) -> None:
    """Write the logarithms of the weights: log softmax over models of features . gate + tanh(features . inner) . outer.

    gate: (F, K). inner: (F, H). outer: (H, K). hidden: (H,), overwritten.
    """
    hidden[:] = 0.0
    for f in range(features.size if hidden.size else 0):
        if features[f] != 0.0:  # most of those of lengths are
            for h in range(hidden.size):
                hidden[h] += features[f] * inner[f, h]
    for h in range(hidden.size):
        hidden[h] = math.tanh(hidden[h])
    largest, total = -math.inf, 0.0
    for k in range(gate.shape[1]):
        logit = 0.0
        for f in range(gate.shape[0]):
            logit += features[f] * gate[f, k]
        for h in range(hidden.size):
            logit += hidden[h] * outer[h, k]
        weights[k] = logit
        largest = max(largest, logit)
    for k in range(gate.shape[1]):
        total += math.exp(weights[k] - largest)
    for k in range(gate.shape[1]):
        weights[k] -= largest + math.log(total)


@allocating_kernel
def describe_rows(rows: Array, shapes: Array) -> None:
    """Describe each model's distribution: its largest log-probability, its entropy, and its divergence from the mean of
    all.

    rows: log-probabilities, (K, R, V). shapes: (R, S). In nats. The divergences are those of Jensen and Shannon, which
    are finite where a model gives a token no probability: none is above log K.
    """
    models = rows.shape[0]
    probs = np.empty(models)
    for r in range(rows.shape[1]):
        shapes[r] = 0
        for k in range(models):
            shapes[r, OF_ROW * k] = -math.inf
        for v in range(rows.shape[2]):
            mean = 0.0
            for k in range(models):
                probs[k] = math.exp(rows[k, r, v])
                mean += probs[k] / models
                shapes[r, OF_ROW * k] = max(shapes[r, OF_ROW * k], rows[k, r, v])
            log_mean = math.log(mean) if mean > 0 else 0.0
            for k in range(models):
                if probs[k] > 0:
                    shapes[r, OF_ROW * k + 1] -= probs[k] * rows[k, r, v]
                    shapes[r, OF_ROW * k + 2] += probs[k] * (rows[k, r, v] - log_mean)


@allocating_kernel
def features_of_stream(
    scores: Array, stream: Array, evidence: Array, shapes: Array, memory: Array, features: Array
) -> None:
    """Write the features at each position of a stream. memory: that before the stream, (K, 2); becomes that after
    it.
    """
    own = np.empty(scores.shape[0], np.float32)
    for i in range(stream.size):
        fill_features(memory, evidence, shapes, i, features[i])
        for k in range(own.size):
            own[k] = scores[k, i]
        remember(memory, own)
        if stream[i] == END:
            memory[:] = 0.0


@allocating_kernel
def mix_stream(
    scores: Array,
    others: Array,
    stream: Array,
    evidence: Array,
    shapes: Array,
    gate: Array,
    inner: Array,
    outer: Array,
    mixed: Array,
    mixed_others: Array,
) -> None:
    """Mix the log-probabilities of a stream's tokens, (K, T), and others at the same positions, (K, T) or (K, 0)."""
    memory = np.zeros((scores.shape[0], 2))
    features, log_weights = np.empty(gate.shape[0]), np.empty(gate.shape[1])
    hidden = np.empty(inner.shape[1])
    own = np.empty(scores.shape[0], np.float32)
    for i in range(stream.size):
        fill_features(memory, evidence, shapes, i, features)
        fill_log_weights(features, gate, inner, outer, hidden, log_weights)
        mixed[i] = _log_sum(log_weights, scores, i)
        if others.shape[1]:
            mixed_others[i] = _log_sum(log_weights, others, i)
        for k in range(own.size):
            own[k] = scores[k, i]
        remember(memory, own)
        if stream[i] == END:
            memory[:] = 0.0


@kernel
def _log_sum(log_weights: Array, scores: Array, i: int) -> float:
    best, total = -math.inf, 0.0
    for k in range(log_weights.size):
        best = max(best, log_weights[k] + scores[k, i])
    if best == -math.inf:
        return best
    for k in range(log_weights.size):
        total += math.exp(log_weights[k] + scores[k, i] - best)
    return best + math.log(total)


@allocating_kernel
def log_weights_of_rows(
    memory: Array, evidence: Array, shapes: Array, gate: Array, inner: Array, outer: Array, log_weights: Array
) -> None:
    """Write the logarithms of the weights in each row.

    memory: (B, K, 2). evidence: (W, B, 3). shapes: (B, S). log_weights: (B, K).
    """
    features, hidden = np.empty(gate.shape[0]), np.empty(inner.shape[1])
    for row in range(memory.shape[0]):
        fill_features(memory[row], evidence, shapes, row, features)
        fill_log_weights(features, gate, inner, outer, hidden, log_weights[row])


@allocating_kernel
def remember_rows(memory: Array, scores: Array, tokens: Array) -> None:
    """Add the log-probabilities of a token in each row to the memory.

    memory: (B, K, 2). scores: (K, B). A row whose token is </s> forgets.
    """
    own = np.empty(scores.shape[0], np.float32)
    for row in range(memory.shape[0]):
        for k in range(own.size):
            own[k] = scores[k, row]
        remember(memory[row], own)
        if tokens[row] == END:
            memory[row] = 0.0
