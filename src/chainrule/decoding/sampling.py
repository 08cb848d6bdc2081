"""Sampling: texts of a batch grow, a token each at a time, until they end; texts join and leave between steps.

Each text has settings and a random stream of its own, so that it does not depend on the others.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.arguments import as_tokens, check_least
from chainrule.base.progress import Progress, silent
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.next_token import MAX_PROBS, History, choose, needs_rows
from chainrule.errors import ChainruleError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from jaxtyping import Bool, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.decoding.form import FormState
    from chainrule.decoding.next_token import Rules
    from chainrule.protocol import LanguageModel

Ending = Literal["end", "length", "stop"]  # </s>; max_tokens; the caller's `until`


@dataclass(eq=False)
class Row:
    """A text of a batch.

    tokens: all tokens so far. prefix_length: how many of them were given, and do not count as generated. generator: its
    random stream. until: a function that gets the generated tokens after each one that is not </s>; True ends the text.
    top: how many of the likeliest tokens a step reports for it. ending: why the text ended; None while it grows. error:
    why it cannot continue. form: the form of the text so far, if it has to have one.
    """

    tokens: list[int]
    config: SamplingConfig
    constraints: Constraints
    generator: np.random.Generator
    prefix_length: int
    until: Callable[[Sequence[int]], bool] | None = None
    top: int = 0
    ending: Ending | None = None
    error: ChainruleError | None = None
    form: FormState | None = None
    _rules: list[Rules] = field(default_factory=list)  # before min_tokens, and from there on

    @property
    def is_open(self) -> bool:
        return self.ending is None and self.error is None

    @property
    def generated(self) -> list[int]:
        return self.tokens[self.prefix_length :]

    def rules(self, end: int) -> Rules:
        """Return the rules for its next token. end: the id of </s>."""
        if not self._rules:
            lengths = 0, self.constraints.min_tokens
            self._rules = [self.constraints.rules(length, end, self.config) for length in lengths]
        return self._rules[len(self.tokens) - self.prefix_length >= self.constraints.min_tokens]

    def add(self, token: int, end: int) -> None:
        """Add a token, and decide whether the text ends with it."""
        self.tokens.append(token)
        if token == end:
            self.ending = "end"
        elif self.until is not None and self.until(self.generated):
            self.ending = "stop"
        elif len(self.tokens) - self.prefix_length >= self.constraints.max_tokens:
            self.ending = "length"


class BatchStep(NamedTuple):
    """One more token for some rows. tops: for each row, the likeliest tokens that it asked for."""

    rows: list[Row]
    tokens: Int32[ndarray, " B"]
    log_probs: Float32[ndarray, " B"]  # the model's own
    tops: list[tuple[Float32[ndarray, " k"], Int32[ndarray, " k"]]] | None


class Batch:
    """Rows and the model's state of them.

    good:  batch.add(model.start(prefixes), rows); while batch.rows: batch.step()
    """

    def __init__(self, model: LanguageModel[Any], *, isolates_errors: bool = False) -> None:
        """Start a batch without rows.

        isolates_errors: whether a row that cannot continue leaves with its error; if not, `step` raises it.
        """
        self.model, self._isolates_errors = model, isolates_errors
        self.rows: list[Row] = []
        self._state: Any = None

    def add(self, state: Any, rows: Sequence[Row]) -> None:
        """Add open rows, those of a state."""
        self._state = self.model.join([self._state, state]) if self.rows else state
        self.rows = [*self.rows, *rows]

    def remove(self, rows: Collection[Row]) -> None:
        """Remove rows."""
        self._keep([i for i, row in enumerate(self.rows) if row not in rows])

    def step(self) -> BatchStep:
        """Return one more token for each row; rows whose text ends leave.

        Raises SettingError if a row has no token left.
        """
        rows, model = self.rows, self.model
        groups: dict[Rules, list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault(row.rules(model.end), []).append(i)
        tokens, log_probs = np.full(len(rows), model.end, np.int32), np.zeros(len(rows), np.float32)
        for rules, members in groups.items():
            self._choose(rules, members, log_probs, tokens)
        tops = self._tops()
        for row, token in zip(rows, tokens.tolist(), strict=True):
            if row.error is None:
                row.add(token, model.end)
        kept = [i for i, row in enumerate(rows) if row.is_open]
        self._keep(kept)
        if kept:
            self._state = model.advance(self._state, tokens if len(kept) == len(rows) else tokens[kept])
        return BatchStep(rows, tokens, log_probs, tops)

    def _choose(
        self, rules: Rules, members: list[int], log_probs: Float32[ndarray, " B"], tokens: Int32[ndarray, " B"]
    ) -> None:
        """Choose the tokens of the rows that share rules."""
        rows = [self.rows[i] for i in members]
        state = self._state
        if len(members) < len(self.rows):
            state = self.model.select(state, np.array(members, np.int32))
        histories = [History(row.tokens, row.prefix_length, row.form) for row in rows]
        generators = [row.generator for row in rows]
        before = [generator.bit_generator.state for generator in generators] if self._isolates_errors else []
        try:
            log_probs[members], tokens[members] = choose(self.model, state, rules, histories, generators)
            drawn = zip(members, tokens[members].tolist(), strict=True)
            stuck = [i for i, token in drawn if (form := self.rows[i].form) is not None and not form.try_add(token)]
            if stuck:
                self._choose(rules, stuck, log_probs, tokens)
        except ChainruleError as error:
            if not self._isolates_errors:
                raise
            if len(members) == 1:
                rows[0].error = error
                return
            for i, generator, random_state in zip(members, generators, before, strict=True):
                generator.bit_generator.state = random_state
                self._choose(rules, [i], log_probs, tokens)

    def _tops(self) -> list[tuple[Float32[ndarray, " k"], Int32[ndarray, " k"]]] | None:
        k = max(row.top for row in self.rows)
        if not k:
            return None
        best, ids = self.model.top(self._state, k)
        return [(best[i, : row.top], ids[i, : row.top]) for i, row in enumerate(self.rows)]

    def _keep(self, kept: list[int]) -> None:
        if len(kept) == len(self.rows):
            return
        if kept:
            self._state = self.model.select(self._state, np.array(kept, np.int32))
        else:
            self._state = None
        self.rows = [self.rows[i] for i in kept]


MIN_BATCH = 64  # texts generated together if no whole distributions are needed


class Sample(NamedTuple):
    """A sampled text.

    tokens: its token ids, without </s>. log_probs: the model's own, of each token, and of </s> if the text ended with
    it, in nats. log_masses: of each step in a form, see `FormState`; None without one.
    """

    tokens: Int32[ndarray, " T"]
    log_probs: Float32[ndarray, " predicted"]
    ending: Ending
    log_masses: Sequence[float] | None = None

    @property
    def log_prob(self) -> float:
        return float(self.log_probs.sum(dtype=np.float64))


class Step(NamedTuple):
    """One more token for some texts. is_open: whether the text continues, or was cut after max_tokens.

    log_masses: of the tokens that the form of each text left, 0 without a form.
    """

    texts: Int64[ndarray, " B"]  # the indices of the texts
    tokens: Int32[ndarray, " B"]
    log_probs: Float32[ndarray, " B"]
    is_open: Bool[ndarray, " B"]
    log_masses: Sequence[float] = ()


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
    """Sample texts, `texts_per_prefix` for each prefix, one prefix after the other.

    Arguments: see `steps`. Raises SettingError.
    """
    count = len(prefixes) * texts_per_prefix
    grown = steps(
        model, prefixes, config, constraints, seed=seed, texts_per_prefix=texts_per_prefix, first=first, until=until
    )
    tokens: dict[int, list[int]] = defaultdict(list)
    log_probs: dict[int, list[float]] = defaultdict(list)
    log_masses: dict[int, list[float]] = defaultdict(list)
    closed: set[int] = set()
    for step in grown:
        for text, token, log_prob in zip(step.texts.tolist(), step.tokens.tolist(), step.log_probs, strict=True):
            tokens[text].append(token)
            log_probs[text].append(log_prob)
        for text, log_mass in zip(step.texts.tolist(), step.log_masses, strict=False):
            log_masses[text].append(log_mass)
        closed.update(step.texts[~step.is_open].tolist())
        progress("generating", len(closed), count)

    def sample_of(text: int) -> Sample:
        drawn = tokens[text]
        ended = text in closed and drawn[-1] == model.end
        ending: Ending = "end" if ended else "stop" if text in closed else "length"
        masses = None if constraints is None or constraints.form is None else log_masses[text]
        ids = np.array(drawn[:-1] if ended else drawn, np.int32)
        return Sample(ids, np.array(log_probs[text], np.float32), ending, masses)

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
    """Sample texts step by step, until each reaches </s>, max_tokens, or a stop of the caller's.

    Texts are numbered from `first`, prefix by prefix. Text t has a separate random stream, from the seed and t, so that
    it does not depend on the rest of the batch. until: a function from t and the tokens after the prefix to whether
    text t stops; called after every token that is not </s>. Raises SettingError if a setting is out of range.
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
    """Sample texts as `steps` does, one for each row of a state, which stays usable.

    prefixes: the tokens that the rows have read, which matter for repetition alone. Raises SettingError, also if texts
    are to begin with given tokens.
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
    """Raise SettingError if the seed or the constraints are invalid."""
    check_least("seed", seed, 0)
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
    """Yield the steps of one batch; finished texts leave it."""
    if len(constraints.begin) >= constraints.max_tokens:
        return
    number_of = {}
    for number, text in zip(numbers.tolist(), texts, strict=True):
        row_until = None if until is None else partial(until, number)
        prefix_length = len(text) - len(constraints.begin)
        generator, form = np.random.default_rng([seed, number]), constraints.begin_form()
        row = Row(text, config, constraints, generator, prefix_length, row_until, form=form)
        number_of[row] = number
    batch = Batch(model)
    batch.add(state, list(number_of))
    while batch.rows:
        step = batch.step()
        is_open = np.array([row.ending in (None, "length") for row in step.rows], np.bool_)
        masses = [] if constraints.form is None else [row.form.log_masses[-1] for row in step.rows if row.form]
        yield Step(np.array([number_of[row] for row in step.rows]), step.tokens, step.log_probs, is_open, masses)
