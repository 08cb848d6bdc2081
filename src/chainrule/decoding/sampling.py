"""Sampling: a token after the other, each drawn from what the settings make of the model's distribution.

A step goes: constraints, repetition penalty, temperature, top-k, typical, top-p, min-p, draw. Temperature 0 takes the
likeliest token instead. Whole distributions are built only where a setting needs them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.distributions import NOTHING_TO_DRAW_MESSAGE, sample_columns
from chainrule.base.progress import Progress, silent
from chainrule.base.tokens import as_tokens
from chainrule.decoding.candidates import Candidates, Rules, best, whole
from chainrule.decoding.constraints import Constraints
from chainrule.decoding.warpers import min_p, nucleus, tempered, typical
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

ROOM = 1 << 20  # how many probabilities are held at once, so that they stay in the cache: longer batches are cut
TOGETHER = 64  # texts that grow side by side where no whole distributions are needed
LISTS = (64, 1024)  # candidates that are looked at first where it is not known how many are needed


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How a token is drawn. temperature: log-probabilities are divided by it; 0 takes the likeliest token.
    top_k: only the k likeliest. top_p: only the fewest that have this mass together. min_p: only what has this share of
    the likeliest one's probability. typical: only what is nearest to the expected surprise, until it has this mass.
    repetition_penalty: log-probabilities of tokens that the text or its prefix has are multiplied by it.

    Raises SettingError.
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
                f"temperature is {self.temperature}; expected 0 (the likeliest token) or more, 1 for the model as it is"
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
            raise SettingError(f"temperature 0 takes the likeliest token, so {cuts[0]} does nothing; leave one out")


GREEDY = SamplingConfig(temperature=0)

Ending = Literal["end", "length", "stop"]  # </s>; max_tokens; the caller's `until`


class Sample(NamedTuple):
    """tokens: without </s>. log_probs: the model's own, of each token, and of </s> where the text ended with it."""

    tokens: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " predicted"]
    ending: Ending

    @property
    def log_prob(self) -> float:
        return float(self.log_probs.sum(dtype=np.float64))


class Step(NamedTuple):
    """One token more for each text of `texts`; `is_open` tells which go on."""

    texts: Int64[ndarray, " B"]  # their numbers
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
    each: int = 1,
    until: Callable[[int, Sequence[int]], bool] | None = None,
    progress: Progress = silent,
) -> list[Sample]:
    """`each` texts for every prefix, one prefix after the other; as `steps`, when all are done. Raises SettingError."""
    tokens: dict[int, list[int]] = defaultdict(list)
    log_probs: dict[int, list[float]] = defaultdict(list)
    closed: set[int] = set()
    for step in steps(model, prefixes, config, constraints, seed=seed, each=each, until=until):
        for text, token, log_prob in zip(step.texts.tolist(), step.tokens.tolist(), step.log_probs, strict=True):
            tokens[text].append(token)
            log_probs[text].append(log_prob)
        closed.update(step.texts[~step.is_open].tolist())
        progress("generating", len(closed), len(prefixes) * each)

    def finished(text: int) -> Sample:
        found = tokens[text]
        ended = text in closed and found[-1] == model.end
        ending: Ending = "end" if ended else "stop" if text in closed else "length"
        return Sample(np.array(found[:-1] if ended else found, np.int32), np.array(log_probs[text], np.float32), ending)

    return [finished(text) for text in range(len(prefixes) * each)]


def steps(
    model: LanguageModel[Any],
    prefixes: Sequence[Int32[ndarray, " prefix"]],
    config: SamplingConfig | None = None,
    constraints: Constraints | None = None,
    *,
    seed: int,
    each: int = 1,
    first: int = 0,
    until: Callable[[int, Sequence[int]], bool] | None = None,
) -> Iterator[Step]:
    """The texts as they grow, until each has met </s>, max_tokens, or what the caller waits for.

    Texts are numbered from `first` on, prefix by prefix. Text t draws from a random stream of its own, made of the seed
    and t, whatever else is in the batch. until(t, tokens): asked after every token that is not </s>, with all since
    the prefix; where it says so, the text stops. Raises SettingError.
    """
    config, constraints = config or SamplingConfig(), constraints or Constraints()
    if seed < 0:
        raise SettingError(f"seed is {seed}; expected 0 or more")
    if each < 1:
        raise SettingError(f"each prefix gets {each} texts; expected 1 or more")
    constraints.check(model)
    begin = np.array(constraints.begin, np.int32)
    whole_prefixes = [np.concatenate([as_tokens(prefix), begin]) for prefix in prefixes]
    begin_scores = model.score([begin] * len(prefixes), prefixes=prefixes, end=False) if begin.size else []
    all_rows = model.start(whole_prefixes)
    room = ROOM // model.vocabulary_size
    together = max(1, room) if _needs_rows(config, constraints) else max(TOGETHER, room)
    for low in range(0, len(prefixes) * each, together):
        rows = np.arange(low, min(low + together, len(prefixes) * each)) // each  # of each text's prefix
        numbers = first + low + np.arange(rows.size)
        for i, token in enumerate(begin):
            log_probs = np.array([begin_scores[row][i] for row in rows], np.float32)
            yield Step(numbers, np.full(rows.size, token, np.int32), log_probs, np.ones(rows.size, np.bool_))
        texts = [whole_prefixes[row].tolist() for row in rows]
        generators = [np.random.default_rng([seed, number]) for number in numbers.tolist()]
        state = model.select(all_rows, rows.astype(np.int32))
        yield from _grown(model, state, config, constraints, numbers, texts, generators, until)


def _grown(
    model: LanguageModel[Any],
    state: Any,
    config: SamplingConfig,
    constraints: Constraints,
    numbers: Int64[ndarray, " B"],
    texts: list[list[int]],
    generators: list[np.random.Generator],
    until: Callable[[int, Sequence[int]], bool] | None,
) -> Iterator[Step]:
    """One batch of `steps`; texts that are done leave it."""
    began = [len(text) - len(constraints.begin) for text in texts]  # where each prefix ends
    for length in range(len(constraints.begin), constraints.max_tokens):
        if not texts:
            return
        rules = Rules(constraints, length, texts, config.repetition_penalty)
        uniforms = np.array([generator.random() for generator in generators] if config.temperature else [])
        log_probs, tokens = _chosen(model, state, config, rules, uniforms)
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
        is_open = tokens != model.end
        if until is not None:
            for row in np.flatnonzero(is_open).tolist():
                is_open[row] = not until(int(numbers[row]), texts[row][began[row] :])
        yield Step(numbers, tokens, log_probs, is_open)
        if not is_open.all():
            rows = np.flatnonzero(is_open)
            state, tokens, numbers = model.select(state, rows.astype(np.int32)), tokens[rows], numbers[rows]
            texts = [texts[row] for row in rows]
            generators = [generators[row] for row in rows]
            began = [began[row] for row in rows]
        state = model.advance(state, tokens)


def _needs_rows(config: SamplingConfig, constraints: Constraints) -> bool:
    """Whether a step builds whole distributions: it draws from all tokens, and not as the model itself would."""
    if constraints.allowed is not None:
        return True
    if config.temperature == 0 or config.top_k is not None:
        return False
    as_the_model = config.temperature == config.repetition_penalty == 1 and not constraints.no_repeat
    return config.typical is not None or not as_the_model


def _chosen(
    model: LanguageModel[Any], state: Any, config: SamplingConfig, rules: Rules, uniforms: Float64[ndarray, " B"]
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """A token for each row with the model's own log-probability of it."""
    if config.temperature == 0:
        candidates = best(model, state, 1, rules)
        if not np.isfinite(candidates.weights).all():
            raise SettingError(NOTHING_TO_DRAW_MESSAGE)
        return candidates.log_probs[:, 0], candidates.tokens[:, 0]
    if config.top_k is not None:
        return _drawn(_warped(best(model, state, config.top_k, rules), config), uniforms)
    if _needs_rows(config, rules.constraints):
        return _drawn(_warped(whole(model, state, rules), config), uniforms)
    if config.top_p is None and config.min_p is None:
        return model.draw(state, uniforms, rules.constraints.banned_at(rules.length, model.end))
    return _drawn_from_lists(model, state, config, rules, uniforms)


def _drawn(
    candidates: Candidates, uniforms: Float64[ndarray, " B"]
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    weights = candidates.weights - candidates.weights.max(axis=1, keepdims=True)
    columns = sample_columns(np.exp(weights, out=weights), uniforms)[:, None]
    log_probs, tokens = (np.take_along_axis(of, columns, axis=1) for of in (candidates.log_probs, candidates.tokens))
    return log_probs[:, 0], tokens[:, 0]


def _warped(candidates: Candidates, config: SamplingConfig) -> Candidates:
    """Temperature and cuts. Raises SettingError if a row has no candidate."""
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


def _drawn_from_lists(
    model: LanguageModel[Any], state: Any, config: SamplingConfig, rules: Rules, uniforms: Float64[ndarray, " B"]
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Draws from what top-p and min-p leave of the model's own distribution: exactly, and mostly from short lists.

    A row whose list does not hold all that is left tries a longer one, and then its whole distribution.
    """
    log_probs, tokens = np.empty(uniforms.size, np.float32), np.empty(uniforms.size, np.int32)
    rows = np.arange(uniforms.size)
    banned = rules.constraints.banned_at(rules.length, model.end)
    for k in (k for k in LISTS if k < model.vocabulary_size):
        candidates, is_enough = _listed(model, model.select(state, rows.astype(np.int32)), config, banned, k)
        done = rows[is_enough]
        log_probs[done], tokens[done] = _drawn(Candidates(*(of[is_enough] for of in candidates)), uniforms[done])
        rows = rows[~is_enough]
    together = max(1, ROOM // model.vocabulary_size)
    for part in (rows[low : low + together] for low in range(0, rows.size, together)):
        candidates = _warped(whole(model, model.select(state, part.astype(np.int32)), rules), config)
        log_probs[part], tokens[part] = _drawn(candidates, uniforms[part])
    return log_probs, tokens


def _listed(
    model: LanguageModel[Any], state: Any, config: SamplingConfig, banned: list[int], k: int
) -> tuple[Candidates, Bool[ndarray, " B"]]:
    """What top-p and min-p leave of the k likeliest tokens, and for which rows that is all that they leave.

    All tokens together have the mass 1, so it is known what is not in the list; of a banned token that is not in it,
    only that it is no likelier than the last one that is.
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
