"""Sampling: texts grow, one token after another, until they end; each has a random stream of its own."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import as_tokens
from chainrule.base.progress import Progress, silent
from chainrule.decoding.batch import Batch, Ending, Row
from chainrule.decoding.choose_tokens import MAX_PROBS, needs_rows
from chainrule.decoding.constraints import Constraints
from chainrule.decoding.sampling_config import SamplingConfig
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

MIN_BATCH = 64  # texts generated together if no whole distributions are needed


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
    """One more token for some texts. is_open: whether the text continues, or was cut after max_tokens."""

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
    first: int = 0,
    until: Callable[[int, Sequence[int]], bool] | None = None,
    progress: Progress = silent,
) -> list[Sample]:
    """Samples texts for each prefix, `texts_per_prefix` in a row. Arguments: see `steps`. Raises SettingError."""
    count = len(prefixes) * texts_per_prefix
    grown = steps(
        model, prefixes, config, constraints, seed=seed, texts_per_prefix=texts_per_prefix, first=first, until=until
    )
    tokens: dict[int, list[int]] = defaultdict(list)
    log_probs: dict[int, list[float]] = defaultdict(list)
    closed: set[int] = set()
    for step in grown:
        for text, token, log_prob in zip(step.texts.tolist(), step.tokens.tolist(), step.log_probs, strict=True):
            tokens[text].append(token)
            log_probs[text].append(log_prob)
        closed.update(step.texts[~step.is_open].tolist())
        progress("generating", len(closed), count)

    def sample_of(text: int) -> Sample:
        drawn = tokens[text]
        ended = text in closed and drawn[-1] == model.end
        ending: Ending = "end" if ended else "stop" if text in closed else "length"
        return Sample(np.array(drawn[:-1] if ended else drawn, np.int32), np.array(log_probs[text], np.float32), ending)

    return [sample_of(text) for text in range(first, first + count)]


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
    is_wide = needs_rows(constraints.rules(constraints.min_tokens, model.end, config))
    batch = max(1, room) if is_wide else max(MIN_BATCH, room)
    for low in range(0, len(prefixes) * texts_per_prefix, batch):
        rows = (
            np.arange(low, min(low + batch, len(prefixes) * texts_per_prefix)) // texts_per_prefix
        )  # of each text's prefix
        numbers = first + low + np.arange(rows.size)
        for i, token in enumerate(begin):
            log_probs = np.array([begin_scores[row][i] for row in rows], np.float32)
            yield Step(numbers, np.full(rows.size, token, np.int32), log_probs, np.ones(rows.size, np.bool_))
        texts = [whole_prefixes[row].tolist() for row in rows]
        state = model.select(all_rows, rows.astype(np.int32))
        yield from _grow(model, state, config, constraints, seed, numbers, texts, until)


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
    rows = model.select(state, np.arange(len(prefixes), dtype=np.int32))
    texts = [as_tokens(prefix).tolist() for prefix in prefixes]
    yield from _grow(model, rows, config, constraints, seed, numbers, texts, until)


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
    seed: int,
    numbers: Int64[ndarray, " B"],
    texts: list[list[int]],
    until: Callable[[int, Sequence[int]], bool] | None,
) -> Iterator[Step]:
    """The steps of one batch; finished texts leave it."""
    if len(constraints.begin) >= constraints.max_tokens:
        return
    number_of = {}
    for number, text in zip(numbers.tolist(), texts, strict=True):
        row_until = None if until is None else partial(until, number)
        prefix_length = len(text) - len(constraints.begin)
        row = Row(text, config, constraints, np.random.default_rng([seed, number]), prefix_length, row_until)
        number_of[row] = number
    batch = Batch(model)
    batch.add(state, list(number_of))
    while batch.rows:
        step = batch.step()
        is_open = np.array([row.ending in (None, "length") for row in step.rows], np.bool_)
        yield Step(np.array([number_of[row] for row in step.rows]), step.tokens, step.log_probs, is_open)
