"""One step of sampling: a token for each row, drawn from the model's distribution as modified by the settings.

In this order: bans, penalties and biases, temperature, top-k, typical, top-p, min-p, draw. Temperature 0 takes
the most probable token instead. Whole distributions are computed only if a setting needs them.

Warpers are pure functions that sharpen, flatten or truncate distributions. They work on rows of log-weights, which need
not be normalised. Truncated tokens get -inf; every row keeps its best.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.distributions import NOTHING_TO_DRAW_MESSAGE, sample_columns
from chainrule.decoding.config import SamplingConfig
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.decoding.form import FormState
    from chainrule.protocol import LanguageModel

    Weights = Float64[ndarray, "B k"]


_FEW = 64  # tokens whose probabilities are computed one by one


class Candidates(NamedTuple):
    """The candidates of each row for its next token.

    log_probs: the model's own, in nats. weights: with penalties and biases; -inf for forbidden tokens.
    """

    tokens: Int32[ndarray, "B k"]
    log_probs: Float32[ndarray, "B k"]
    weights: Weights


class Rules(NamedTuple):
    """The rules of one step, for rows that share them.

    banned: tokens that may not come next. allowed: the only tokens that may, besides </s>. no_repeat: the length of
    n-grams that may not occur twice; 0 for no such rule. config: the sampling settings, of which penalties and biases
    apply here. has_form: whether the rows' histories say which tokens may come next.
    """

    banned: tuple[int, ...] = ()
    allowed: tuple[int, ...] | None = None
    no_repeat: int = 0
    config: SamplingConfig = SamplingConfig()
    has_form: bool = False


class History(NamedTuple):
    """The tokens of a row so far. prefix_length: how many of them were given. form: which may follow."""

    tokens: Sequence[int]
    prefix_length: int = 0
    form: FormState | None = None


def best_candidates(
    model: LanguageModel[Any], state: Any, k: int, rules: Rules, histories: Sequence[History]
) -> Candidates:
    """Return the k best candidates of each row, best first; ties in the model's order.

    Avoids whole distributions if possible. Rules that only lower weights leave the best k among the model's best k +
    (tokens lowered).
    """
    if rules.allowed is not None or rules.has_form or rules.config.raises_weights:
        candidates = all_candidates(model, state, rules, histories)
    else:
        log_probs, tokens, weights = _top_allowed(model, state, k + _max_lowered(rules, histories), rules.banned)
        candidates = Candidates(tokens, log_probs, weights)
        _adjust(candidates, rules, histories)
    if k == candidates.weights.shape[1] == 1:
        return candidates
    order = np.argsort(-candidates.weights, axis=1, kind="stable")[:, :k]
    return Candidates(*(np.take_along_axis(part, order, axis=1) for part in candidates))


def _top_allowed(
    model: LanguageModel[Any], state: Any, k: int, banned: Sequence[int]
) -> tuple[Float32[ndarray, "B n"], Int32[ndarray, "B n"], Weights]:
    """Return the k likeliest tokens that are not banned and, where one of the k likeliest is, others:
    log-probabilities, ids, and the same log-probabilities with -inf for banned ones.
    """
    log_probs, tokens = model.top(state, k)
    if set(banned).isdisjoint(tokens.ravel().tolist()):
        return log_probs, tokens, log_probs.astype(np.float64)
    log_probs, tokens = model.top(state, k + len(banned))
    return log_probs, tokens, np.where(np.isin(tokens, banned), -np.inf, log_probs.astype(np.float64))


def all_candidates(model: LanguageModel[Any], state: Any, rules: Rules, histories: Sequence[History]) -> Candidates:
    """Return all tokens, or all allowed ones, by id."""
    if rules.has_form:
        row, log_probs = _in_form(model, state, [history.form for history in histories if history.form is not None])
    else:
        row, log_probs = np.arange(model.vocabulary_size, dtype=np.int32), model.next_log_probs(state)
    if rules.allowed is not None:
        columns = np.isin(row, [*rules.allowed, model.end])
        row, log_probs = row[columns], log_probs[:, columns]
    weights = log_probs.astype(np.float64)
    weights[:, np.isin(row, rules.banned)] = -np.inf
    candidates = Candidates(np.broadcast_to(row, log_probs.shape), log_probs, weights)
    _adjust(candidates, rules, histories)
    return candidates


def _in_form(
    model: LanguageModel[Any], state: Any, forms: Sequence[FormState]
) -> tuple[Int32[ndarray, " k"], Float32[ndarray, "B k"]]:
    """Return the tokens that may follow in some row, by id, and their log-probabilities; -inf in other rows.

    Notes with each form the mass of its tokens.
    """
    may_follow = np.stack([form.mask() for form in forms])
    tokens = np.flatnonzero(may_follow.any(axis=0)).astype(np.int32)
    if tokens.size > _FEW:
        log_probs = model.next_log_probs(state)[:, tokens]
    else:
        tokens = tokens if tokens.size else np.array([model.end], np.int32)
        rows = np.arange(len(forms), dtype=np.int32).repeat(tokens.size)
        log_probs = model.log_probs_of(state, rows, np.tile(tokens, len(forms))).reshape(len(forms), tokens.size)
    log_probs = np.where(may_follow[:, tokens], log_probs, np.float32(-np.inf))
    for form, row in zip(forms, log_probs.astype(np.float64), strict=True):
        form.note_mass(float(np.exp(row).sum()))
    return tokens, log_probs


def _max_lowered(rules: Rules, histories: Sequence[History]) -> int:
    """Return how many tokens have a lowered weight, at most in any row; banned ones do not count."""
    depends_on_text = rules.no_repeat or rules.config.repetition_penalty != 1 or rules.config.counts_tokens
    of_text = max((len(set(history.tokens)) for history in histories), default=0) if depends_on_text else 0
    return of_text + len(rules.config.logit_bias)


def _adjust(candidates: Candidates, rules: Rules, histories: Sequence[History]) -> None:
    """Change the weights by the penalties, the biases, and what a row may not repeat."""
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
    """Return what presence and frequency penalties and biases add to the log-probabilities of tokens."""
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
    """Return the ids that would complete an n-gram that the text already has."""
    last = list(text[len(text) - n + 1 :])
    return {text[i + n - 1] for i in range(len(text) - n + 1) if list(text[i : i + n - 1]) == last}


def normalise(weights: Weights) -> Weights:
    """Return log-probabilities: each row's probabilities sum to one. Each row must have a finite weight."""
    shifted = weights - weights.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def temper(weights: Weights, temperature: float) -> Weights:
    """Return P(w)^(1/T), not normalised. temperature > 0."""
    with np.errstate(over="ignore"):  # -inf is right for tokens that a low temperature rules out
        return (weights - weights.max(axis=1, keepdims=True)) / temperature


def min_p(weights: Weights, share: float) -> Weights:
    """Keep only tokens at least `share` times as probable as the best (Nguyen et al. 2024)."""
    least = math.log(share) if share else -math.inf
    return np.where(weights >= weights.max(axis=1, keepdims=True) + least, weights, -np.inf)


def nucleus(weights: Weights, mass: float, totals: Float64[ndarray, " B"] | None = None) -> Weights:
    """Keep only the fewest most probable tokens that together have the share `mass` (top-p: Holtzman et al. 2020).

    totals: the sum of the weights (not logarithms) of all tokens, if `weights` lacks some; by default of these.
    """
    if totals is None:
        weights, totals = normalise(weights), np.ones(len(weights))
    probs = np.exp(weights)
    kept = np.zeros(weights.shape, np.bool_)
    # Even together, all tokens below this threshold can be left out, so they need not be sorted.
    least = np.maximum(probs.sum(axis=1) - mass * totals, 0) / weights.shape[1] * (1 - 1e-6)
    for row, total, threshold, out in zip(probs, totals, least, kept, strict=True):
        ordered = np.sort(row[row >= threshold])[::-1]  # several times faster than argsort
        count = max(1, int(np.count_nonzero(ordered.cumsum() - ordered < mass * total)))
        last = ordered[count - 1]
        np.greater(row, last, out=out)
        equals = np.flatnonzero(row == last)
        out[equals[: count - np.count_nonzero(out)]] = True  # ties go to lower ids
    return np.where(kept, weights, -np.inf)


def typical(weights: Weights, mass: float) -> Weights:
    """Keep only the tokens whose surprisal is nearest to the entropy, until they have `mass` (Meister et al. 2023)."""
    log_probs = normalise(weights)
    probs = np.exp(log_probs)
    possible = probs > 0
    surprisal = np.where(possible, -log_probs, np.inf)
    entropy = np.where(possible, probs * np.where(possible, surprisal, 0), 0).sum(axis=1, keepdims=True)
    cost = np.abs(surprisal - entropy)
    kept = np.zeros(weights.shape, np.bool_)
    for row, row_cost, out in zip(probs, cost, kept, strict=True):
        order = np.argsort(row_cost, kind="stable")
        before = row[order].cumsum() - row[order]
        out[order[: max(1, int(np.count_nonzero(before < mass)))]] = True
    return np.where(kept, weights, -np.inf)


MAX_PROBS = 1 << 20  # probabilities of a batch of whole distributions, so that they fit into the processor's cache
LIST_SIZES = (64, 1024)  # numbers of candidates to try before the whole distribution, for top-p and min-p
# Draws of a row at a time, for temperatures below 1, before its whole distribution is computed.
DRAWS = (1, 1, 1, 2, 2, 4, 4, 8, 8)


def needs_rows(rules: Rules) -> bool:
    """Return whether a step needs whole distributions: if it draws from all tokens, but not as the model itself
    would.
    """
    config = rules.config
    if rules.allowed is not None or rules.has_form or config.raises_weights:
        return True
    if config.temperature == 0 or config.top_k is not None:
        return False
    return config.typical is not None or not (_is_as_the_model(rules) or _only_lowers(rules))


def _is_as_the_model(rules: Rules) -> bool:
    """Return whether only truncation and bans change the distribution."""
    config = rules.config
    is_penalised = config.repetition_penalty != 1 or config.counts_tokens or config.logit_bias
    return config.temperature == 1 and not is_penalised and not rules.no_repeat


def _only_lowers(rules: Rules) -> bool:
    """Return whether a temperature up to 1, penalties and biases that lower weights, and bans are all that changes the
    distribution.
    """
    config = rules.config
    has_cuts = any(cut is not None for cut in (config.top_k, config.top_p, config.min_p, config.typical, rules.allowed))
    has_cuts |= rules.has_form
    is_lower = 0 < config.temperature <= 1 and config.repetition_penalty == 1 and not config.raises_weights
    return is_lower and not has_cuts and not rules.no_repeat and not _is_as_the_model(rules)


def choose(
    model: LanguageModel[Any],
    state: Any,
    rules: Rules,
    histories: Sequence[History],
    generators: Sequence[np.random.Generator],
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Return a token for each row: the model's own log-probability of it, and its id.

    Raises SettingError if none is left.
    """
    config = rules.config
    if rules.has_form:
        _check_forms(histories, rules.banned)
    if config.temperature == 0:
        candidates = best_candidates(model, state, 1, rules, histories)
        if not np.isfinite(candidates.weights).all():
            raise SettingError(NOTHING_TO_DRAW_MESSAGE)
        return candidates.log_probs[:, 0], candidates.tokens[:, 0]
    if _only_lowers(rules):
        return _draw_lowered(model, state, rules, histories, generators)
    uniforms = _uniforms(generators)
    if config.top_k is not None:
        return _draw(_warp(best_candidates(model, state, config.top_k, rules, histories), config), uniforms)
    if needs_rows(rules):
        return _draw(_warp(all_candidates(model, state, rules, histories), config), uniforms)
    if config.top_p is None and config.min_p is None:
        return model.draw(state, uniforms, rules.banned)
    return _draw_from_lists(model, state, rules, histories, uniforms)


def _check_forms(histories: Sequence[History], banned: Sequence[int]) -> None:
    """Raise SettingError if a text is stuck."""
    for history in histories:
        if history.form is None:
            continue
        mask = history.form.mask()
        if not mask.any():
            raise SettingError(
                f"no token of the vocabulary continues the form after {history.form.text!r}; choose a form that the "
                "vocabulary can write, or a model of subwords, bytes or characters"
            )
        if not set(np.flatnonzero(mask).tolist() if mask.sum() <= len(banned) else [-1]) - set(banned):
            raise SettingError(
                f"after {history.form.text!r}, the form allows only what min_tokens or banned words forbid; "
                "change one of them"
            )


def warped_candidates(model: LanguageModel[Any], state: Any, rules: Rules, histories: Sequence[History]) -> Candidates:
    """Return all tokens with the weights that `choose` draws by: -inf where a setting cuts a token. Raises as
    `choose`.
    """
    config = rules.config
    candidates = all_candidates(model, state, rules, histories)
    kept = 1 if config.temperature == 0 else config.top_k
    if kept is not None:
        weights = candidates.weights.copy()
        np.put_along_axis(weights, np.argsort(-weights, axis=1, kind="stable")[:, kept:], -np.inf, axis=1)
        candidates = candidates._replace(weights=weights)
    return candidates if config.temperature == 0 else _warp(candidates, config)


def _draw(
    candidates: Candidates, uniforms: Float64[ndarray, " B"]
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    weights = candidates.weights - candidates.weights.max(axis=1, keepdims=True)
    columns = sample_columns(np.exp(weights, out=weights), uniforms)[:, None]
    log_probs, tokens = (np.take_along_axis(of, columns, axis=1) for of in (candidates.log_probs, candidates.tokens))
    return log_probs[:, 0], tokens[:, 0]


def _warp(candidates: Candidates, config: SamplingConfig) -> Candidates:
    """Apply temperature and truncation. Raises SettingError if a row has no candidate."""
    if np.isneginf(candidates.weights.max(axis=1)).any():
        raise SettingError(NOTHING_TO_DRAW_MESSAGE)
    weights = temper(candidates.weights, config.temperature)
    if config.typical is not None:
        weights = typical(weights, config.typical)
    if config.top_p is not None:
        weights = nucleus(weights, config.top_p)
    if config.min_p is not None:
        weights = min_p(weights, config.min_p)
    return candidates._replace(weights=weights)


def draw_from(log_probs: Float64[ndarray, "1 vocab"], config: SamplingConfig, generator: np.random.Generator) -> int:
    """Return a token of a whole distribution, by temperature and truncation; temperature 0: the likeliest.

    Raises SettingError if none is possible.
    """
    tokens = np.arange(log_probs.shape[1], dtype=np.int32)[None]
    if config.top_k is not None and config.top_k < log_probs.shape[1]:
        tokens = np.argsort(-log_probs, axis=1, kind="stable")[:, : config.top_k].astype(np.int32)
        log_probs = np.take_along_axis(log_probs, tokens, axis=1)
    if config.temperature == 0:
        return int(tokens[0, log_probs[0].argmax()])
    candidates = _warp(Candidates(tokens, log_probs.astype(np.float32), log_probs), config)
    return int(_draw(candidates, _uniforms([generator]))[1][0])


def _uniforms(generators: Sequence[np.random.Generator]) -> Float64[ndarray, " B"]:
    return np.array([generator.random() for generator in generators], np.float64)


def _draw_lowered(
    model: LanguageModel[Any],
    state: Any,
    rules: Rules,
    histories: Sequence[History],
    generators: Sequence[np.random.Generator],
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Draw from (P e^-c)^(1/T), where T <= 1 and c >= 0 are the penalties of a token, by rejection.

    A token drawn from P is kept with probability (P / max P)^(1/T - 1) e^(-c/T). That is exact and needs no whole
    distributions; only a row that keeps none of its draws gets its own.
    """
    config = rules.config
    log_probs, tokens = np.empty(len(generators), np.float32), np.empty(len(generators), np.int32)
    highest = _top_allowed(model, state, 1, rules.banned)[2].max(axis=1)
    rows = np.arange(len(generators))
    for draws in DRAWS:
        uniforms = np.array([generators[row].random((2, draws)) for row in rows.tolist()])
        repeated = model.select(state, rows.astype(np.int32).repeat(draws))
        drawn, ids = (part.reshape(-1, draws) for part in model.draw(repeated, uniforms[:, 0].ravel(), rules.banned))
        below = np.minimum(drawn.astype(np.float64) - highest[rows, None], 0)
        chances = np.multiply(1 / config.temperature - 1, below, out=np.zeros_like(below), where=below < 0)
        if config.counts_tokens or config.logit_bias:
            changes = [change_of(ids[i], config, histories[row]) for i, row in enumerate(rows.tolist())]
            chances += np.array(changes) / config.temperature
        is_kept = np.log1p(-uniforms[:, 1]) <= chances
        first, is_done = is_kept.argmax(axis=1), is_kept.any(axis=1)
        log_probs[rows[is_done]], tokens[rows[is_done]] = drawn[is_done, first[is_done]], ids[is_done, first[is_done]]
        rows = rows[~is_done]
        if not rows.size:
            return log_probs, tokens
    uniforms = _uniforms([generators[row] for row in rows.tolist()])
    log_probs[rows], tokens[rows] = _draw_from_all(model, state, rows, rules, histories, uniforms)
    return log_probs, tokens


def _draw_from_lists(
    model: LanguageModel[Any],
    state: Any,
    rules: Rules,
    histories: Sequence[History],
    uniforms: Float64[ndarray, " B"],
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Draw from the model's own distribution, truncated by top-p and min-p: exactly, but mostly from short lists.

    A row whose list lacks some tokens that pass is tried with a longer list, and then with its whole distribution.
    """
    log_probs, tokens = np.empty(uniforms.size, np.float32), np.empty(uniforms.size, np.int32)
    rows = np.arange(uniforms.size)
    for k in (k for k in LIST_SIZES if k < model.vocabulary_size):
        candidates, is_enough = _list_candidates(model, model.select(state, rows.astype(np.int32)), rules, k)
        done = rows[is_enough]
        complete = Candidates(*(column[is_enough] for column in candidates))
        log_probs[done], tokens[done] = _draw(complete, uniforms[done])
        rows = rows[~is_enough]
    log_probs[rows], tokens[rows] = _draw_from_all(model, state, rows, rules, histories, uniforms[rows])
    return log_probs, tokens


def _draw_from_all(
    model: LanguageModel[Any],
    state: Any,
    rows: Int64[ndarray, " R"],
    rules: Rules,
    histories: Sequence[History],
    uniforms: Float64[ndarray, " R"],
) -> tuple[Float32[ndarray, " R"], Int32[ndarray, " R"]]:
    """Draw for some rows of a state from their whole distributions, as many rows at a time as fit into the cache."""
    log_probs, tokens = np.empty(rows.size, np.float32), np.empty(rows.size, np.int32)
    size = max(1, MAX_PROBS // model.vocabulary_size)
    for part in (slice(low, low + size) for low in range(0, rows.size, size)):
        own = [histories[row] for row in rows[part].tolist()]
        whole = all_candidates(model, model.select(state, rows[part].astype(np.int32)), rules, own)
        log_probs[part], tokens[part] = _draw(_warp(whole, rules.config), uniforms[part])
    return log_probs, tokens


def _list_candidates(
    model: LanguageModel[Any], state: Any, rules: Rules, k: int
) -> tuple[Candidates, Bool[ndarray, " B"]]:
    """Return the k most probable tokens, truncated by top-p and min-p, and for which rows no other token passes.

    The mass of the tokens outside the list is one minus that of the list. Of a banned token outside it, only a bound is
    known: it is no more probable than the last token of the list.
    """
    config, banned = rules.config, rules.banned
    log_probs, tokens = model.top(state, k + len(banned))
    is_banned = np.isin(tokens, banned)
    weights = np.where(is_banned, -np.inf, log_probs.astype(np.float64))
    probs = np.exp(log_probs, dtype=np.float64)
    listed = np.where(is_banned, 0, probs).sum(axis=1)
    is_enough = listed > 0
    if config.top_p is not None:
        most = 1 - np.where(is_banned, probs, 0).sum(axis=1)
        least = most - (len(set(banned)) - is_banned.sum(axis=1)) * probs[:, -1]
        fewer, weights = (nucleus(weights, config.top_p, total) for total in (least, most))
        is_enough &= (fewer == weights).all(axis=1) & (listed >= config.top_p * most)
    if config.min_p is not None:
        cut = min_p(weights, config.min_p)
        if config.top_p is None:
            is_enough &= np.isneginf(cut[:, -1])
        weights = cut
    return Candidates(tokens, log_probs, weights), is_enough
