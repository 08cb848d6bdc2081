"""Candidates for the next token: a model's distribution under the constraints, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.decoding.constraints import Constraints
    from chainrule.protocol import LanguageModel


class Candidates(NamedTuple):
    """log_probs: the model's own, in nats. weights: with the repetition penalty; -inf for forbidden tokens."""

    tokens: Int32[ndarray, "B k"]
    log_probs: Float32[ndarray, "B k"]
    weights: Float64[ndarray, "B k"]


class Rules(NamedTuple):
    """The rules of one step. length: of every text so far, without its prefix."""

    constraints: Constraints
    length: int
    texts: Sequence[Sequence[int]]  # the tokens of each row so far, including its prefix
    repetition_penalty: float = 1.0


def best_candidates(model: LanguageModel[Any], state: Any, k: int, rules: Rules) -> Candidates:
    """The k best candidates of each row, best first; ties in the model's order. Avoids whole distributions if possible.

    Constraints and penalties only lower weights, so the best k are among the model's best k + (tokens lowered).
    """
    if rules.constraints.allowed is not None:
        candidates = all_candidates(model, state, rules)
    else:
        banned = rules.constraints.banned_at(rules.length, model.end)
        log_probs, tokens = model.top(state, k + len(banned) + _max_lowered(rules))
        weights = np.where(np.isin(tokens, banned), -np.inf, log_probs.astype(np.float64))
        candidates = _lower_weights(Candidates(tokens, log_probs, weights), rules)
    order = np.argsort(-candidates.weights, axis=1, kind="stable")[:, :k]
    return Candidates(*(np.take_along_axis(part, order, axis=1) for part in candidates))


def all_candidates(model: LanguageModel[Any], state: Any, rules: Rules) -> Candidates:
    """All tokens, or all allowed ones, by id."""
    log_probs = model.next_log_probs(state)
    if rules.constraints.allowed is None:
        row = np.arange(model.vocabulary_size, dtype=np.int32)
    else:
        row = np.union1d(rules.constraints.allowed, [model.end]).astype(np.int32)
        log_probs = log_probs[:, row]
    weights = log_probs.astype(np.float64)
    weights[:, np.isin(row, rules.constraints.banned_at(rules.length, model.end))] = -np.inf
    return _lower_weights(Candidates(np.broadcast_to(row, log_probs.shape), log_probs, weights), rules)


def _max_lowered(rules: Rules) -> int:
    """The largest number of tokens whose weight a row's own text may lower."""
    if not rules.constraints.no_repeat and rules.repetition_penalty == 1:
        return 0
    return max((len(set(text)) for text in rules.texts), default=0)


def _lower_weights(candidates: Candidates, rules: Rules) -> Candidates:
    """Lowers the weights of tokens that each row's own text penalises or rules out."""
    tokens, _, weights = candidates
    if rules.repetition_penalty != 1:
        for row, text in enumerate(rules.texts):  # Keskar et al. 2019, section 4.1, on log-probabilities
            weights[row, np.isin(tokens[row], list(set(text)))] *= rules.repetition_penalty
    if rules.constraints.no_repeat:
        for row, text in enumerate(rules.texts):
            weights[row, np.isin(tokens[row], list(rules.constraints.repeats_after(text)))] = -np.inf
    return candidates
