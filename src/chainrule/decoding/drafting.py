"""Drafts: cheap guesses of the next tokens, of which a network reads several in one pass.

A `DraftedModel` is a model that, after each token, also reads what a drafter expects next. If these tokens are then
chosen, what follows them is known already. So a text is the same with drafts and without, however its tokens are
chosen, in a form or out of one: the model gives the bits of one token after the other (`AheadReader`), and each token
is still chosen from the model's own distribution, with the random numbers of its step. Accepting a draft while it is
what would have been drawn anyhow gives the distribution of Leviathan et al. (2023), and seed by seed the same text.

Only single texts are drafted: rows of a batch share the work of a pass already.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_tokens
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.decoding.drafters import Drafter, Guess, Guesses
    from chainrule.protocol import AheadReader

    Tokens = Int32[ndarray, " T"]


_CLASSES = 8  # of confidence
_FORGETTING = 0.98  # of what was seen, with each check of a class, or each measured pass
_RETRYING = 0.996  # the same, with each choice, so that what was wrong is tried again now and then
_TRUST = 2.0  # checks that a confidence counts for
_LEAST_CHANCE = 0.05  # that a guess is reached and right
_LEAST_GAIN = 1.03  # tokens for the time of one
_FIRST_MOST, _LEAST_MOST = 16, 2  # guesses at a time
_FIRST_CREDIT, _MOST_CREDIT = 1.0, 4.0  # passes of one token that wrong guesses may cost
_SPENT = 0.03  # such passes more for each one, so that texts whose guesses are all wrong take little longer
_REMEASURED = 32  # passes, after which one reads a single token
_FIRST_MEASURED = 2  # passes of a single token, before there are drafts
_LEAST_SPREAD = 1e-6  # of the tokens of passes, for a slope
_USUAL_COSTS = ((2, 1.1), (16, 2.6))  # the time of passes, by their tokens, in passes of one token


class DraftLength:
    """How many guesses are worth reading: by how often such guesses were right, and what passes took.

    A pass over T tokens costs a + b T passes over one, fitted by least squares to the latest ones. Guesses are paid for
    from a credit, which grows by what right ones saved: where all are wrong, N tokens take 1.03 N + 1 passes at most.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Start from the usual costs of passes.

        clock: in seconds; without one, costs are taken to be as usual: drafts depend on the text alone.
        """
        self.clock = clock
        self._right = [0.0] * _CLASSES
        self._checked = [0.0] * _CLASSES
        self._most = _FIRST_MOST
        self._credit = _FIRST_CREDIT
        self._single: list[float] = []  # seconds of the last passes over one token
        self._since_single = 0
        self._sums = [0.0] * 5  # of 1, T, T T, cost, cost T
        self._line = 0.0, 0.0
        for tokens, cost in _USUAL_COSTS:
            self._fit(tokens, cost)

    def choose(self, guesses: Iterator[Guess], most: int) -> list[Guess]:
        """Return the guesses to read after a token, at most `most`: those with the most tokens for their time."""
        if self.clock is not None and (len(self._single) < _FIRST_MEASURED or self._since_single >= _REMEASURED):
            return []
        self._right = [_RETRYING * right for right in self._right]
        self._checked = [_RETRYING * checked for checked in self._checked]
        self._credit = min(self._credit + _SPENT, _MOST_CREDIT)
        chosen: list[Guess] = []
        best, best_rate, expected, chance = 0, _LEAST_GAIN, 1.0, 1.0
        for guess in guesses:
            if len(chosen) == min(most, self._most) or guess.token in (END, UNKNOWN):
                break
            if self.cost(2 + len(chosen)) - 1 > self._credit:
                break
            chosen.append(guess)
            chance *= self.rate(guess.confidence)
            expected += chance
            if (rate := expected / self.cost(1 + len(chosen))) > best_rate:
                best, best_rate = len(chosen), rate
            if chance < _LEAST_CHANCE:
                break
        if best:
            self._credit -= self.cost(1 + best) - 1
        return chosen[:best]

    def rate(self, confidence: float) -> float:
        """Return how often guesses of about that confidence are right."""
        i = _class_of(confidence)
        return (self._right[i] + _TRUST * confidence) / (self._checked[i] + _TRUST)

    def note(self, guesses: Sequence[Guess], place: int, *, is_right: bool) -> None:
        """Record whether one of the guesses that were read together was right.

        Drafts that were right as a whole may be twice as long the next time, others twice as long as what was right.
        """
        if not is_right:
            self._most = max(_LEAST_MOST, 2 * place)
        elif place + 1 == len(guesses):
            self._most = max(self._most, 2 * len(guesses))
        self._credit += is_right
        i = _class_of(guesses[place].confidence)
        self._right[i] = _FORGETTING * self._right[i] + is_right
        self._checked[i] = _FORGETTING * self._checked[i] + 1

    def cost(self, tokens: int) -> float:
        """Return the cost of a pass over so many tokens, in passes over one token."""
        return max(1.0, self._line[0] + self._line[1] * tokens)

    def note_pass(self, tokens: int, seconds: float) -> None:
        """Record how long a pass has taken."""
        if tokens == 1:
            self._single = [*self._single[-6:], seconds]
            self._since_single = 0
            return
        self._since_single += 1
        single = float(np.median(self._single))
        if single > 0:
            self._fit(tokens, min(seconds / single, 1.0 + tokens))  # one that others held up counts little

    def _fit(self, tokens: int, cost: float) -> None:
        added = 1.0, tokens, tokens * tokens, cost, cost * tokens
        self._sums = [_FORGETTING * total + more for total, more in zip(self._sums, added, strict=True)]
        count, x, squares, y, products = self._sums
        spread = count * squares - x * x
        slope = (count * products - x * y) / spread if spread > _LEAST_SPREAD else 0.0
        slope = max(slope, 0.0)  # noise may say less
        self._line = (y - slope * x) / count, slope


def _class_of(confidence: float) -> int:
    return min(int(confidence * _CLASSES), _CLASSES - 1)


@dataclass
class DraftCounts:
    """Counts of guessed tokens.

    drafted: tokens that were guessed and read. accepted: those of them that the texts have. passes: over one token or
    more, for texts that grew alone.
    """

    drafted: int = 0
    accepted: int = 0
    passes: int = 0


@dataclass(eq=False)
class _Text:
    """The tokens of a text, and what the drafter knows of it, `read` tokens so far."""

    tokens: list[int]
    guesses: Guesses | None = None
    read: int = 0


@dataclass(eq=False)
class _Ahead:
    """What was read ahead: tokens, the first of which was chosen and the others guessed, and the state after each.

    reached: the last state that was handed out.
    """

    tokens: list[int]
    guesses: list[Guess]
    states: list[Any]
    reached: int = 0


@dataclass(frozen=True)
class _State:
    """A state of the model, and each row's text: its first `length` tokens. place: that of the state in `ahead`."""

    inner: Any
    texts: list[tuple[_Text, int]]
    ahead: _Ahead | None = None
    place: int = 0


@dataclass
class DraftedModel:
    """A model that reads ahead what a drafter expects; in all else it is the model.

    counts: what was drafted since it was made. lengths: how many tokens are drafted at a time.
    """

    model: AheadReader[Any]
    drafter: Drafter
    lengths: DraftLength = field(default_factory=DraftLength)
    counts: DraftCounts = field(default_factory=DraftCounts)

    vocabulary_size: int = field(init=False)
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.vocabulary_size, self.end = self.model.vocabulary_size, self.model.end

    def start(self, prefixes: Sequence[Tokens]) -> _State:
        """Implement `LanguageModel.start`."""
        texts = [(_Text(as_tokens(prefix).tolist()), len(prefix)) for prefix in prefixes]
        return _State(self.model.start(prefixes), texts)

    def read(self, sequences: Sequence[Tokens], state: _State | None = None) -> _State:
        """Implement `PromptReader.read`."""
        reader: Any = self.model
        inner = reader.read(sequences, None if state is None else state.inner)
        before = [[]] * len(sequences) if state is None else [text.tokens[:length] for text, length in state.texts]
        tokens = [[*text, *as_tokens(more).tolist()] for text, more in zip(before, sequences, strict=True)]
        return _State(inner, [(_Text(text), len(text)) for text in tokens])

    def advance(self, state: _State, tokens: Int32[ndarray, " B"]) -> _State:
        """Implement `LanguageModel.advance`."""
        texts = [_grown(*text, token) for text, token in zip(state.texts, as_tokens(tokens).tolist(), strict=True)]
        if len(texts) != 1:
            return _State(self.model.advance(state.inner, tokens), texts)
        token = int(tokens[0])
        if (known := self._known(state, token)) is not None:
            return replace(known, texts=texts)
        room = 0 if token == self.end else self.model.room_ahead(state.inner)
        if not room:
            return _State(self.model.advance(state.inner, tokens), texts)
        guesses = self.lengths.choose(self._guesses(texts[0][0]), room - 1) if room > 1 else []
        read = [token, *(guess.token for guess in guesses)]
        clock = self.lengths.clock
        began = 0.0 if clock is None else clock()
        states = self.model.read_ahead(state.inner, np.array(read, np.int32))
        if clock is not None:
            self.lengths.note_pass(len(read), clock() - began)
        self.counts.passes += 1
        self.counts.drafted += len(guesses)
        return _State(states[0], texts, _Ahead(read, guesses, states))

    def _known(self, state: _State, token: int) -> _State | None:
        """Return the state after a token that was guessed; None if it was not, after which the rest was read in
        vain.
        """
        ahead, place = state.ahead, state.place
        if ahead is None or place + 1 >= len(ahead.states):
            return None
        is_right, is_first = ahead.tokens[place + 1] == token, ahead.reached == place
        if is_first:
            self.lengths.note(ahead.guesses, place, is_right=is_right)
        if is_right:
            self.counts.accepted += is_first
            ahead.reached = max(ahead.reached, place + 1)
            return _State(ahead.states[place + 1], state.texts, ahead, place + 1)
        if is_first:  # nobody has those that come later
            del ahead.states[place + 1 :]
            self.model.forget_ahead(state.inner)
        return None

    def _guesses(self, text: _Text) -> Iterator[Guess]:
        if text.guesses is None:
            text.guesses = self.drafter.begin()
        text.guesses.add(text.tokens[text.read :])
        text.read = len(text.tokens)
        return text.guesses.ahead()

    def select(self, state: _State, rows: Int32[ndarray, " new_B"]) -> _State:
        """Implement `LanguageModel.select`."""
        inner = self.model.select(state.inner, rows)
        if len(rows) == len(state.texts) == 1:
            return replace(state, inner=inner)
        return _State(inner, [state.texts[row] for row in np.asarray(rows).tolist()])

    def join(self, states: Sequence[_State]) -> _State:
        """Implement `LanguageModel.join`."""
        inner = self.model.join([state.inner for state in states])
        return _State(inner, [text for state in states for text in state.texts])

    def next_log_probs(self, state: _State) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        return self.model.next_log_probs(state.inner)

    def log_probs_of(
        self, state: _State, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """Implement `LanguageModel.log_probs_of`."""
        return self.model.log_probs_of(state.inner, rows, tokens)

    def top(self, state: _State, k: int) -> tuple[Float32[ndarray, "B k"], Int32[ndarray, "B k"]]:
        """Implement `LanguageModel.top`."""
        return self.model.top(state.inner, k)

    def draw(
        self, state: _State, uniforms: Float64[ndarray, " B"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
        """Implement `LanguageModel.draw`."""
        return self.model.draw(state.inner, uniforms, banned)

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `Scorer.score`."""
        return self.model.score(sequences, prefixes=prefixes, end=end)

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        return self.model.score_stream(stream)

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return self.model.unknown_log_probs(sequences, prefixes=prefixes, end=end)

    def last_window(self, prefix: Tokens) -> Tokens:
        """Implement `PromptReader.last_window`."""
        reader: Any = self.model
        window: Tokens = reader.last_window(prefix)
        return window

    def position_tops(
        self, sequences: Sequence[Tokens], k: int
    ) -> list[tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]]:
        """Implement `PromptReader.position_tops`."""
        reader: Any = self.model
        tops: list[tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]] = reader.position_tops(sequences, k)
        return tops


def _grown(text: _Text, length: int, token: int) -> tuple[_Text, int]:
    """Return a text after one more token; states share it until two of them grow."""
    if len(text.tokens) != length:
        text = _Text(text.tokens[:length])
    text.tokens.append(token)
    return text, length + 1
