"""Sampling: draws one token after another from the model's distribution, as modified by the settings.

Order of a step: constraints, repetition penalty, temperature, top-k, typical, top-p, min-p, draw. Temperature 0 takes
the most probable token instead. Whole distributions are computed only if a setting needs them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.distributions import NOTHING_TO_DRAW_MESSAGE, sample_columns
from chainrule.base.progress import Progress, silent
from chainrule.base.token_checks import as_tokens
from chainrule.decoding.candidates import Candidates, Rules, all_candidates, best_candidates
from chainrule.decoding.constraints import Constraints
from chainrule.decoding.warpers import min_p, nucleus, tempered, typical
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

MAX_PROBS = 1 << 20  # probabilities of a batch of whole distributions, so that they fit into the processor's cache
MIN_BATCH = 64  # texts generated together if no whole distributions are needed
DRAWS = (
    1,
    1,
    1,
    2,
    2,
    4,
    4,
    8,
    8,
)  # of a row at a time before its whole distribution is computed, for temperatures below 1
LIST_SIZES = (64, 1024)  # numbers of candidates to try before the whole distribution, for top-p and min-p


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How tokens are drawn.

    temperature: log-probabilities are divided by it; 0 takes the most probable token.
    top_k: only the k most probable tokens. top_p: only the fewest most probable tokens with this mass.
    min_p: only tokens with this share of the best token's probability.
    typical: only the tokens whose surprisal is nearest to the entropy, until they have this mass.
    repetition_penalty: multiplies the log-probabilities of tokens that the text or its prefix already has.

    Raises SettingError if a setting is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < np.inf:
            raise SettingError(
                f"temperature is {self.temperature}; expected 0 (the most probable token) or more; 1 changes nothing"
            )
        if self.top_k is not None and self.top_k < 1:
            raise SettingError(f"top_k is {self.top_k}; expected 1 or more, or leave it out to keep all")
        for name in ("top_p", "min_p", "typical"):
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise SettingError(f"{name} is {share}; expected more than 0 and at most 1")
        if not 1 <= self.repetition_penalty < np.inf:
            raise SettingError(f"repetition_penalty is {self.repetition_penalty}; expected 1 (none) or more")
        cuts = [name for name in ("top_k", "top_p", "min_p", "typical") if getattr(self, name) is not None]
        if self.temperature == 0 and cuts:
            raise SettingError(f"temperature 0 takes the most probable token, so {cuts[0]} does nothing; leave one out")


GREEDY = SamplingConfig(temperature=0)

Ending = Literal["end", "length", "stop"]  # </s>; max_tokens; the caller's `until`


class Sample(NamedTuple):
    """A sampled text.

    tokens: without </s>. log_probs: the model's own, of each token, and of </s> if the text ended with it.
    """

    tokens: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " predicted"]
    ending: Ending

    @property
    def log_prob(self) -> float:
        return float(self.log_probs.sum(dtype=np.float64))


class Step(NamedTuple):
    """One more token for some texts. is_open: whether the text continues."""

    texts: Int64[ndarray, " B"]  # the indices of the texts
    tokens: Int32[ndarray, " B"]
    log_probs: Float32[ndarray, " B"]
    is_open: Bool[ndarray, " B"]


def sample(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: SamplingConfig | None = None,
    constraints: Constraints | None = None,
    *,
    seed: int,
    texts_per_prefix: int = 1,
    until: Callable[[int, Sequence[int]], bool] | None = None,
    progress: Progress = silent,
) -> list[Sample]:
    """Samples texts for each prefix, `texts_per_prefix` in a row. Arguments: see `steps`. Raises SettingError."""
    tokens: dict[int, list[int]] = defaultdict(list)
    log_probs: dict[int, list[float]] = defaultdict(list)
    closed: set[int] = set()
    for step in steps(model, prefixes, config, constraints, seed=seed, texts_per_prefix=texts_per_prefix, until=until):
        for text, token, log_prob in zip(step.texts.tolist(), step.tokens.tolist(), step.log_probs, strict=True):
            tokens[text].append(token)
            log_probs[text].append(log_prob)
        closed.update(step.texts[~step.is_open].tolist())
        progress("generating", len(closed), len(prefixes) * texts_per_prefix)

    def sample_of(text: int) -> Sample:
        drawn = tokens[text]
        ended = text in closed and drawn[-1] == model.end
        ending: Ending = "end" if ended else "stop" if text in closed else "length"
        return Sample(np.array(drawn[:-1] if ended else drawn, np.int32), np.array(log_probs[text], np.float32), ending)

    return [sample_of(text) for text in range(len(prefixes) * texts_per_prefix)]


def steps(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: SamplingConfig | None = None,
    constraints: Constraints | None = None,
    *,
    seed: int,
    texts_per_prefix: int = 1,
    first: int = 0,
    until: Callable[[int, Sequence[int]], bool] | None = None,
) -> Iterator[Step]:
    """Samples texts step by step, until each reaches </s>, max_tokens, or a stop of the caller's.

    Texts are numbered from `first`, prefix by prefix. Text t has a random stream of its own, from the seed and t, so
    that it does not depend on the rest of the batch.
    until: (t, tokens after the prefix) -> whether text t stops; called after every token that is not </s>.
    Raises SettingError if a setting is out of range.
    """
    config, constraints = config or SamplingConfig(), constraints or Constraints()
    if texts_per_prefix < 1:
        raise SettingError(f"the number of texts is {texts_per_prefix}; expected 1 or more")
    _check(model, constraints, seed)
    begin = np.array(constraints.begin, np.int32)
    whole_prefixes = [np.concatenate([as_tokens(prefix), begin]) for prefix in prefixes]
    begin_scores = model.score([begin] * len(prefixes), prefixes=prefixes, end=False) if begin.size else []
    all_rows = model.start(whole_prefixes)
    room = MAX_PROBS // model.vocabulary_size
    batch = max(1, room) if _needs_rows(config, constraints) else max(MIN_BATCH, room)
    for low in range(0, len(prefixes) * texts_per_prefix, batch):
        rows = (
            np.arange(low, min(low + batch, len(prefixes) * texts_per_prefix)) // texts_per_prefix
        )  # of each text's prefix
        numbers = first + low + np.arange(rows.size)
        for i, token in enumerate(begin):
            log_probs = np.array([begin_scores[row][i] for row in rows], np.float32)
            yield Step(numbers, np.full(rows.size, token, np.int32), log_probs, np.ones(rows.size, np.bool_))
        texts = [whole_prefixes[row].tolist() for row in rows]
        generators = [np.random.default_rng([seed, number]) for number in numbers.tolist()]
        state = model.select(all_rows, rows.astype(np.int32))
        yield from _grow(model, state, config, constraints, numbers, texts, generators, until)


def steps_from(
    model: LanguageModel[Any],
    state: Any,
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: SamplingConfig | None = None,
    constraints: Constraints | None = None,
    *,
    seed: int,
    first: int = 0,
    until: Callable[[int, Sequence[int]], bool] | None = None,
) -> Iterator[Step]:
    """As `steps`, a text for each row of a state, which stays usable.

    prefixes: what the rows have read, which matters for repetition alone. Raises SettingError, also if texts are to
    begin with given tokens.
    """
    config, constraints = config or SamplingConfig(), constraints or Constraints()
    _check(model, constraints, seed)
    if len(constraints.begin):
        raise SettingError("texts after a state cannot begin with given tokens; let the state read them")
    numbers = first + np.arange(len(prefixes))
    generators = [np.random.default_rng([seed, number]) for number in numbers.tolist()]
    rows = model.select(state, np.arange(len(prefixes), dtype=np.int32))
    texts = [as_tokens(prefix).tolist() for prefix in prefixes]
    yield from _grow(model, rows, config, constraints, numbers, texts, generators, until)


def _check(model: LanguageModel[Any], constraints: Constraints, seed: int) -> None:
    """Raises SettingError."""
    if seed < 0:
        raise SettingError(f"seed is {seed}; expected 0 or more")
    constraints.check(model)


def _grow(
    model: LanguageModel[Any],
    state: Any,
    config: SamplingConfig,
    constraints: Constraints,
    numbers: Int64[ndarray, " B"],
    texts: list[list[int]],
    generators: list[np.random.Generator],
    until: Callable[[int, Sequence[int]], bool] | None,
) -> Iterator[Step]:
    """The steps of one batch; finished texts leave it."""
    prefix_lengths = [len(text) - len(constraints.begin) for text in texts]
    for length in range(len(constraints.begin), constraints.max_tokens):
        if not texts:
            return
        rules = Rules(constraints, length, texts, config.repetition_penalty)
        log_probs, tokens = _choose(model, state, config, rules, generators)
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
        is_open = tokens != model.end
        if until is not None:
            for row in np.flatnonzero(is_open).tolist():
                is_open[row] = not until(int(numbers[row]), texts[row][prefix_lengths[row] :])
        yield Step(numbers, tokens, log_probs, is_open)
        if not is_open.all():
            rows = np.flatnonzero(is_open)
            state, tokens, numbers = model.select(state, rows.astype(np.int32)), tokens[rows], numbers[rows]
            texts = [texts[row] for row in rows]
            generators = [generators[row] for row in rows]
            prefix_lengths = [prefix_lengths[row] for row in rows]
        state = model.advance(state, tokens)


def _needs_rows(config: SamplingConfig, constraints: Constraints) -> bool:
    """Whether a step needs whole distributions: if it draws from all tokens, but not as the model itself would."""
    if constraints.allowed is not None:
        return True
    if config.temperature == 0 or config.top_k is not None:
        return False
    is_unchanged = config.temperature == config.repetition_penalty == 1 and not constraints.no_repeat
    return config.typical is not None or not (is_unchanged or _only_sharpens(config, constraints))


def _only_sharpens(config: SamplingConfig, constraints: Constraints) -> bool:
    """Whether a temperature below 1, beside banned tokens, is all that changes the distribution."""
    cuts = (config.top_k, config.top_p, config.min_p, config.typical, constraints.allowed)
    is_plain = all(cut is None for cut in cuts) and config.repetition_penalty == 1 and not constraints.no_repeat
    return 0 < config.temperature < 1 and is_plain


def _choose(
    model: LanguageModel[Any],
    state: Any,
    config: SamplingConfig,
    rules: Rules,
    generators: Sequence[np.random.Generator],
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """A token for each row: the model's own log-probability of it, and its id."""
    if config.temperature == 0:
        candidates = best_candidates(model, state, 1, rules)
        if not np.isfinite(candidates.weights).all():
            raise SettingError(NOTHING_TO_DRAW_MESSAGE)
        return candidates.log_probs[:, 0], candidates.tokens[:, 0]
    if _only_sharpens(config, rules.constraints):
        return _draw_sharpened(model, state, config, rules, generators)
    uniforms = _uniforms(generators)
    if config.top_k is not None:
        return _draw(_warp(best_candidates(model, state, config.top_k, rules), config), uniforms)
    if _needs_rows(config, rules.constraints):
        return _draw(_warp(all_candidates(model, state, rules), config), uniforms)
    if config.top_p is None and config.min_p is None:
        return model.draw(state, uniforms, rules.constraints.banned_at(rules.length, model.end))
    return _draw_from_lists(model, state, config, rules, uniforms)


def _draw(
    candidates: Candidates, uniforms: Float64[ndarray, " B"]
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    weights = candidates.weights - candidates.weights.max(axis=1, keepdims=True)
    columns = sample_columns(np.exp(weights, out=weights), uniforms)[:, None]
    log_probs, tokens = (np.take_along_axis(of, columns, axis=1) for of in (candidates.log_probs, candidates.tokens))
    return log_probs[:, 0], tokens[:, 0]


def _warp(candidates: Candidates, config: SamplingConfig) -> Candidates:
    """Applies temperature and truncation. Raises SettingError if a row has no candidate."""
    if np.isneginf(candidates.weights.max(axis=1)).any():
        raise SettingError(NOTHING_TO_DRAW_MESSAGE)
    weights = tempered(candidates.weights, config.temperature)
    if config.typical is not None:
        weights = typical(weights, config.typical)
    if config.top_p is not None:
        weights = nucleus(weights, config.top_p)
    if config.min_p is not None:
        weights = min_p(weights, config.min_p)
    return candidates._replace(weights=weights)


def _uniforms(generators: Sequence[np.random.Generator]) -> Float64[ndarray, " B"]:
    return np.array([generator.random() for generator in generators], np.float64)


def _draw_sharpened(
    model: LanguageModel[Any],
    state: Any,
    config: SamplingConfig,
    rules: Rules,
    generators: Sequence[np.random.Generator],
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Draws from P^(1/T) for T < 1 by rejection: a token drawn from P is kept with probability (P / max P)^(1/T - 1).

    That is exact and needs no whole distributions; only a row that keeps none of its draws gets its own.
    """
    log_probs, tokens = np.empty(len(generators), np.float32), np.empty(len(generators), np.int32)
    banned = rules.constraints.banned_at(rules.length, model.end)
    best = best_candidates(model, state, 1, rules).weights[:, 0]
    rows = np.arange(len(generators))
    for draws in DRAWS:
        uniforms = np.array([generators[row].random((2, draws)) for row in rows.tolist()])
        repeated = model.select(state, rows.astype(np.int32).repeat(draws))
        drawn, ids = (part.reshape(-1, draws) for part in model.draw(repeated, uniforms[:, 0].ravel(), banned))
        below = np.minimum(drawn.astype(np.float64) - best[rows, None], 0)
        chances = np.multiply(1 / config.temperature - 1, below, out=np.zeros_like(below), where=below < 0)
        is_kept = np.log1p(-uniforms[:, 1]) <= chances
        first, is_done = is_kept.argmax(axis=1), is_kept.any(axis=1)
        log_probs[rows[is_done]], tokens[rows[is_done]] = drawn[is_done, first[is_done]], ids[is_done, first[is_done]]
        rows = rows[~is_done]
        if not rows.size:
            return log_probs, tokens
    batch = max(1, MAX_PROBS // model.vocabulary_size)
    for part in (rows[low : low + batch] for low in range(0, rows.size, batch)):
        whole = all_candidates(model, model.select(state, part.astype(np.int32)), rules)
        uniforms = _uniforms([generators[row] for row in part.tolist()])
        log_probs[part], tokens[part] = _draw(_warp(whole, config), uniforms)
    return log_probs, tokens


def _draw_from_lists(
    model: LanguageModel[Any], state: Any, config: SamplingConfig, rules: Rules, uniforms: Float64[ndarray, " B"]
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Draws from the model's own distribution, truncated by top-p and min-p: exactly, but mostly from short lists.

    A row whose list lacks some tokens that pass is tried with a longer list, and then with its whole distribution.
    """
    log_probs, tokens = np.empty(uniforms.size, np.float32), np.empty(uniforms.size, np.int32)
    rows = np.arange(uniforms.size)
    banned = rules.constraints.banned_at(rules.length, model.end)
    for k in (k for k in LIST_SIZES if k < model.vocabulary_size):
        candidates, is_enough = _list_candidates(model, model.select(state, rows.astype(np.int32)), config, banned, k)
        done = rows[is_enough]
        complete = Candidates(*(column[is_enough] for column in candidates))
        log_probs[done], tokens[done] = _draw(complete, uniforms[done])
        rows = rows[~is_enough]
    batch = max(1, MAX_PROBS // model.vocabulary_size)
    for part in (rows[low : low + batch] for low in range(0, rows.size, batch)):
        candidates = _warp(all_candidates(model, model.select(state, part.astype(np.int32)), rules), config)
        log_probs[part], tokens[part] = _draw(candidates, uniforms[part])
    return log_probs, tokens


def _list_candidates(
    model: LanguageModel[Any], state: Any, config: SamplingConfig, banned: list[int], k: int
) -> tuple[Candidates, Bool[ndarray, " B"]]:
    """The k most probable tokens, truncated by top-p and min-p, and for which rows no other token passes.

    The mass of the tokens outside the list is one minus that of the list. Of a banned token outside it, only a bound is
    known: it is no more probable than the last token of the list.
    """
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
