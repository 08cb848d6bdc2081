"""A batch of texts that grow together, a token each at a time; texts join and leave it between steps.

Each text has settings and a random stream of its own, so that it does not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.decoding.candidates import History
from chainrule.decoding.choose_tokens import choose
from chainrule.errors import ChainruleError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.decoding.candidates import Rules
    from chainrule.decoding.constraints import Constraints
    from chainrule.decoding.sampling_config import SamplingConfig
    from chainrule.protocol import LanguageModel

Ending = Literal["end", "length", "stop"]  # </s>; max_tokens; the caller's `until`


@dataclass(eq=False)
class Row:
    """A text of a batch.

    tokens: all so far. prefix_length: how many of them were given, and do not count as generated. generator: its
    random stream. until: called with the generated tokens after each that is not </s>; True ends the text.
    top: how many of the likeliest tokens a step reports for it. ending: None while the text grows. error: why it
    cannot go on.
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
    _rules: list[Rules] = field(default_factory=list)  # before min_tokens, and from there on

    @property
    def is_open(self) -> bool:
        return self.ending is None and self.error is None

    @property
    def generated(self) -> list[int]:
        return self.tokens[self.prefix_length :]

    def rules(self, end: int) -> Rules:
        """The rules for its next token. end: the id of </s>."""
        if not self._rules:
            lengths = 0, self.constraints.min_tokens
            self._rules = [self.constraints.rules(length, end, self.config) for length in lengths]
        return self._rules[len(self.tokens) - self.prefix_length >= self.constraints.min_tokens]

    def add(self, token: int, end: int) -> None:
        """Adds a token, and decides whether the text ends with it."""
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
        """isolates_errors: whether a row that cannot go on leaves with its error; if not, `step` raises it."""
        self.model, self._isolates_errors = model, isolates_errors
        self.rows: list[Row] = []
        self._state: Any = None

    def add(self, state: Any, rows: Sequence[Row]) -> None:
        """Adds open rows, those of a state."""
        self._state = self.model.join([self._state, state]) if self.rows else state
        self.rows = [*self.rows, *rows]

    def remove(self, rows: Collection[Row]) -> None:
        """Removes rows."""
        self._keep([i for i, row in enumerate(self.rows) if row not in rows])

    def step(self) -> BatchStep:
        """One more token for each row; rows whose text ends leave. Raises SettingError if a row has no token left."""
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
        """Chooses the tokens of the rows that share rules."""
        rows = [self.rows[i] for i in members]
        state = self._state
        if len(members) < len(self.rows):
            state = self.model.select(state, np.array(members, np.int32))
        histories = [History(row.tokens, row.prefix_length) for row in rows]
        generators = [row.generator for row in rows]
        before = [generator.bit_generator.state for generator in generators] if self._isolates_errors else []
        try:
            log_probs[members], tokens[members] = choose(self.model, state, rules, histories, generators)
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
