"""Candidates for the next token: a model's distribution under the rules of a step, row by row."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.decoding.sampling_config import SamplingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

    Weights = Float64[ndarray, "B k"]


class Candidates(NamedTuple):
    """log_probs: the model's own, in nats. weights: with penalties and biases; -inf for forbidden tokens."""

    tokens: Int32[ndarray, "B k"]
    log_probs: Float32[ndarray, "B k"]
    weights: Weights


class Rules(NamedTuple):
    """The rules of one step, for rows that share them.

    banned: tokens that may not come next. allowed: the only tokens that may, besides </s>. no_repeat: the length of
    n-grams that may not occur twice; 0 for no such rule. config: of its settings, penalties and biases.
    """

    banned: tuple[int, ...] = ()
    allowed: tuple[int, ...] | None = None
    no_repeat: int = 0
    config: SamplingConfig = SamplingConfig()


class History(NamedTuple):
    """The tokens of a row so far. prefix_length: how many of them were given."""

    tokens: Sequence[int]
    prefix_length: int = 0


def best_candidates(
    model: LanguageModel[Any], state: Any, k: int, rules: Rules, histories: Sequence[History]
) -> Candidates:
    """The k best candidates of each row, best first; ties in the model's order. Avoids whole distributions if possible.

    Rules that only lower weights leave the best k among the model's best k + (tokens lowered).
    """
    if rules.allowed is not None or rules.config.raises_weights:
        candidates = all_candidates(model, state, rules, histories)
    else:
        log_probs, tokens = model.top(state, k + len(rules.banned) + _max_lowered(rules, histories))
        weights = np.where(np.isin(tokens, rules.banned), -np.inf, log_probs.astype(np.float64))
        candidates = Candidates(tokens, log_probs, weights)
        _adjust(candidates, rules, histories)
    order = np.argsort(-candidates.weights, axis=1, kind="stable")[:, :k]
    return Candidates(*(np.take_along_axis(part, order, axis=1) for part in candidates))


def all_candidates(model: LanguageModel[Any], state: Any, rules: Rules, histories: Sequence[History]) -> Candidates:
    """All tokens, or all allowed ones, by id."""
    log_probs = model.next_log_probs(state)
    if rules.allowed is None:
        row = np.arange(model.vocabulary_size, dtype=np.int32)
    else:
        row = np.union1d(rules.allowed, [model.end]).astype(np.int32)
        log_probs = log_probs[:, row]
    weights = log_probs.astype(np.float64)
    weights[:, np.isin(row, rules.banned)] = -np.inf
    candidates = Candidates(np.broadcast_to(row, log_probs.shape), log_probs, weights)
    _adjust(candidates, rules, histories)
    return candidates


def _max_lowered(rules: Rules, histories: Sequence[History]) -> int:
    """The largest number of tokens whose weight is lowered in a row, beside banned ones."""
    depends_on_text = rules.no_repeat or rules.config.repetition_penalty != 1 or rules.config.counts_tokens
    of_text = max((len(set(history.tokens)) for history in histories), default=0) if depends_on_text else 0
    return of_text + len(rules.config.logit_bias)


def _adjust(candidates: Candidates, rules: Rules, histories: Sequence[History]) -> None:
    """Changes the weights by the penalties, the biases, and what a row may not repeat."""
    tokens, _, weights = candidates
    config = rules.config
    if config.repetition_penalty != 1:
        for row, history in enumerate(histories):  # Keskar et al. 2019, section 4.1, on log-probabilities
            weights[row, np.isin(tokens[row], list(set(history.tokens)))] *= config.repetition_penalty
    if config.counts_tokens or config.logit_bias:
        for row, history in enumerate(histories):
            weights[row] += change_of(tokens[row], config, history)
    if rules.no_repeat:
        for row, history in enumerate(histories):
            weights[row, np.isin(tokens[row], list(repeats_after(history.tokens, rules.no_repeat)))] = -np.inf


def change_of(tokens: Int32[ndarray, " k"], config: SamplingConfig, history: History) -> Float64[ndarray, " k"]:
    """What presence and frequency penalties and biases add to the log-probabilities of tokens."""
    changes = dict(config.logit_bias)
    if config.counts_tokens:
        for token, count in Counter(history.tokens[history.prefix_length :]).items():
            changes[token] = changes.get(token, 0.0) - config.presence_penalty - config.frequency_penalty * count
    changed = np.array(sorted(changes), np.int32)
    if not changed.size:
        return np.zeros(tokens.shape)
    amounts = np.array([changes[token] for token in changed.tolist()])
    places = np.minimum(np.searchsorted(changed, tokens), changed.size - 1)
    return np.where(changed[places] == tokens, amounts[places], 0.0)


def repeats_after(text: Sequence[int], n: int) -> set[int]:
    """The ids that would complete an n-gram that the text already has."""
    last = list(text[len(text) - n + 1 :])
    return {text[i + n - 1] for i in range(len(text) - n + 1) if list(text[i : i + n - 1]) == last}
