"""The tokens that Whisper may write next, and a language model beside it: a `LanguageModel` for search and sampling.

Times stand in pairs, around what is said, and never go back; where all times together are likelier than the likeliest
text token, one of them follows (Radford et al. 2022, section 4.5, and their code). What is left sums to one. A language
model adds alpha x ln P of a word, and beta, where the word ends: before a token that begins another, a time, the end.
Legend: B rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.distributions import sample_columns
from chainrule.decoding.next_token import normalise
from chainrule.errors import SettingError
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.features.seq2seq.network.model import SourceConditionedModel
    from chainrule.features.speech.search.language_model import ShallowFusion, TextState
    from chainrule.features.speech.whisper.config import WhisperConfig
    from chainrule.neural.language_model import Reading
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]

_NO_TIME = -1
_WRITTEN, _LAST, _BEFORE, _TIME = range(4)  # columns of a row's past


class TokenForms(NamedTuple):
    """The bytes of each text token, and which of them begin a word."""

    spelled: list[bytes]
    begins_word: Bool[ndarray, " V"]

    @classmethod
    def of(cls, tokenizer: Tokenizer, config: WhisperConfig) -> TokenForms:
        """Return the forms of the tokens of a model."""
        names = [tokenizer.vocabulary.token_bytes(token) for token in range(END + 1, config.text)]
        lines = tokenizer.restore(b"".join(name + b"\n" for name in names)).split(b"\n")[:-1]
        if len(lines) != len(names):  # some token stands for a newline
            lines = [tokenizer.restore(name) for name in names]
        spelled = [*[b""] * (END + 1), *lines]
        begins = np.zeros(config.tokens, np.bool_)
        begins[: len(spelled)] = [token[:1].isspace() for token in spelled]
        return cls(spelled, begins)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; others than text are left out."""
        return b"".join(self.spelled[token] for token in tokens if token < len(self.spelled)).decode("utf-8", "replace")

    def words(self, tokens: Sequence[int]) -> list[list[int]]:
        """Return the places of the tokens of each word: one begins at white space, or after what is no text."""
        words: list[list[int]] = []
        is_new = True
        for place, token in enumerate(tokens):
            if token >= len(self.spelled):
                is_new = True
                continue
            if is_new or self.begins_word[token]:
                words.append([])
            words[-1].append(place)
            is_new = False
        return words


class Pending(NamedTuple):
    """Where a row is in the language model: after some words, and within one, of whose bytes it has some."""

    after: TextState
    word: bytes

    @property
    def spelled(self) -> str | None:
        """The word, as far as it is written; None between words."""
        return self.word.decode("utf-8", "replace").strip() or None


@dataclass
class RuledState:
    """What rows have read; the past of each; where each is in the language model, if there is one."""

    reading: Reading
    past: Int64[ndarray, "B 4"]
    pending: list[Pending] | None
    log_probs: Float32[ndarray, "B V"] | None = None


class RuledModel:
    """P(token | sound, the tokens before it), among those that may follow."""

    end = END

    def __init__(
        self,
        given: SourceConditionedModel,
        begun: Reading,
        config: WhisperConfig,
        forms: TokenForms,
        *,
        timed: bool,
        fusion: ShallowFusion | None = None,
        is_whole: bool = True,
    ) -> None:
        """Prepare the rules.

        begun: the state of one row after the prompt. timed: whether times are written. fusion: a language model.
        is_whole: whether the text ends where the window does, so that the language model scores that, too.
        """
        self._given, self._begun, self._config, self._forms = given, begun, config, forms
        self._timed, self._fusion, self._is_whole = timed, fusion, is_whole
        self.vocabulary_size = given.vocabulary_size
        self._ends_word = forms.begins_word.copy()
        self._ends_word[config.text :] = True
        self._suppressed = np.array(config.suppressed, np.int64)
        self._suppressed_first = np.array(config.suppressed_first, np.int64)

    def start(self, prefixes: Sequence[Tokens]) -> RuledState:
        """Implement `LanguageModel.start`, for prefixes without tokens."""
        if any(len(prefix) for prefix in prefixes):
            raise SettingError("a text that Whisper writes begins after its prompt; give an empty prefix")
        rows = len(prefixes)
        reading = self._given.select(self._begun, np.zeros(rows, np.int32))
        past = np.full((rows, 4), [0, END, END, _NO_TIME], np.int64)
        pending = None
        if self._fusion is not None:
            pending = [Pending(self._fusion.get_start_state(), b"")] * rows
        return RuledState(reading, past, pending)

    def next_log_probs(self, state: RuledState) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`; with a language model, scores that do not sum to one."""
        if state.log_probs is None:
            log_probs = self._given.next_log_probs(state.reading)
            self._forbid(log_probs, state.past)
            log_probs = normalise(log_probs.astype(np.float32, copy=False))
            if state.pending is not None:
                self._fuse(log_probs, state.pending)
            state.log_probs = log_probs
        return state.log_probs

    def log_probs_of(
        self, state: RuledState, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """Implement `LanguageModel.log_probs_of`."""
        return self.next_log_probs(state)[rows, tokens]

    def top(self, state: RuledState, k: int) -> tuple[Float32[ndarray, "B k"], Int32[ndarray, "B k"]]:
        """Implement `LanguageModel.top`."""
        log_probs, k = self.next_log_probs(state), min(k, self.vocabulary_size)
        tokens = np.argpartition(-log_probs, k - 1, axis=1)[:, :k]
        tokens.sort(axis=1)  # so that ties go to the lower id
        order = np.argsort(-np.take_along_axis(log_probs, tokens, 1), axis=1, kind="stable")
        tokens = np.take_along_axis(tokens, order, 1).astype(np.int32)
        return np.take_along_axis(log_probs, tokens, 1), tokens

    def draw(
        self, state: RuledState, uniforms: Float64[ndarray, " B"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
        """Implement `LanguageModel.draw`."""
        log_probs = self.next_log_probs(state)
        weights = np.exp(log_probs.astype(np.float64))
        weights[:, list(banned)] = 0
        tokens = sample_columns(weights, uniforms)
        return log_probs[np.arange(len(tokens)), tokens], tokens

    def advance(self, state: RuledState, tokens: Int32[ndarray, " B"]) -> RuledState:
        """Implement `LanguageModel.advance`."""
        past, is_time = state.past.copy(), tokens >= self._config.first_time
        past[:, _WRITTEN] += 1
        past[:, _BEFORE], past[:, _LAST] = state.past[:, _LAST], tokens
        past[is_time, _TIME] = tokens[is_time]
        pending = None
        if state.pending is not None:
            pending = self._read(state.pending, tokens.tolist())[1]
        return RuledState(self._given.advance(state.reading, tokens), past, pending)

    def select(self, state: RuledState, rows: Int32[ndarray, " new_B"]) -> RuledState:
        """Implement `LanguageModel.select`."""
        if len(rows) == len(state.past) and np.array_equal(rows, np.arange(len(rows))):
            return replace(state)
        pending = None if state.pending is None else [state.pending[row] for row in rows.tolist()]
        log_probs = None if state.log_probs is None else state.log_probs[rows]
        return RuledState(self._given.select(state.reading, rows), state.past[rows], pending, log_probs)

    def join(self, states: Sequence[RuledState]) -> RuledState:
        """Implement `LanguageModel.join`."""
        reading = self._given.join([state.reading for state in states])
        past = np.concatenate([state.past for state in states])
        pending = None if self._fusion is None else [own for state in states for own in state.pending or ()]
        return RuledState(reading, past, pending)

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `Scorer.score`."""
        scores = []
        for tokens in sequences:
            row, state = [], self.start([np.empty(0, np.int32)])
            for token in [*tokens.tolist(), *[END] * end]:
                row.append(self.next_log_probs(state)[0, token])
                state = self.advance(state, np.array([token], np.int32)) if token != END else state
            scores.append(np.array(row, np.float32))
        return scores

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `LanguageModel.unknown_log_probs`: no word is unknown."""
        return [np.full(len(tokens) + end, -np.inf, np.float32) for tokens in sequences]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " tokens"]:
        """Implement `Scorer.score_stream`."""
        parts = np.split(stream, np.flatnonzero(stream == END) + 1)
        scores = [self.score([part[:-1]])[0] for part in parts[:-1]]
        return np.concatenate([np.empty(0, np.float32), *scores, *self.score(parts[-1:], end=False)])

    def fused(self, tokens: Sequence[int], *, ended: bool) -> float:
        """Return what the language model adds to a text. ended: whether its end is written, too."""
        if self._fusion is None:
            return 0.0
        own, total = Pending(self._fusion.get_start_state(), b""), 0.0
        for token in tokens:
            [score], [own] = self._read([own], [token])
            total += score
        return total + (self._at_end([own])[0] if ended else 0.0)

    def _forbid(self, log_probs: Float32[ndarray, "B V"], past: Int64[ndarray, "B 4"]) -> None:
        """Give -inf to the tokens that may not follow."""
        config, first_time = self._config, self._config.first_time
        log_probs[:, self._suppressed] = -np.inf
        is_first = past[:, _WRITTEN] == 0
        if is_first.any():
            log_probs[np.ix_(is_first, self._suppressed_first)] = -np.inf
        if not self._timed:
            return
        log_probs[:, config.no_timestamps] = -np.inf
        for row, (written, last, before, time) in zip(log_probs, past.tolist(), strict=True):
            is_time = written > 0 and last >= first_time
            if is_time and (written == 1 or before >= first_time):
                row[first_time:] = -np.inf  # a pair is whole: text follows
            elif is_time:
                row[END + 1 : config.text] = -np.inf  # a pair is half: a time follows, or the end
            if time != _NO_TIME:
                earliest = time if is_time and not (written == 1 or before >= first_time) else time + 1
                row[first_time:earliest] = -np.inf
            if not written:
                row[:first_time] = -np.inf
                if config.latest_first is not None:
                    row[first_time + config.latest_first + 1 :] = -np.inf
            times, others = row[first_time:], row[:first_time]
            best = times.max(initial=-np.inf)
            if best > -np.inf and best + np.log(np.exp(times - best).sum()) > others.max():
                row[:first_time] = -np.inf

    def _fuse(self, log_probs: Float32[ndarray, "B V"], pending: list[Pending]) -> None:
        """Add the score of the word that ends before each token."""
        assert self._fusion is not None
        inside = [i for i, own in enumerate(pending) if own.spelled]
        scores, _ = self._fusion.score_words(
            [pending[i].after for i in inside], [pending[i].spelled for i in inside], False
        )
        for i, score in zip(inside, scores, strict=True):
            log_probs[i, self._ends_word] += score
        log_probs[:, END] += np.array(self._at_end(pending), np.float32)

    def _at_end(self, pending: list[Pending]) -> list[float]:
        """Return the score of the word that each row is within, and of the end of the text where the window has it."""
        assert self._fusion is not None
        if self._is_whole:
            return self._fusion.score_words([own.after for own in pending], [own.spelled for own in pending], True)[0]
        inside = [own for own in pending if own.spelled]
        scores = iter(
            self._fusion.score_words([own.after for own in inside], [own.spelled for own in inside], False)[0]
        )
        return [next(scores) if own.spelled else 0.0 for own in pending]

    def _read(self, pending: list[Pending], tokens: list[int]) -> tuple[list[float], list[Pending]]:
        """Return the score of the word that each token ends, and where rows are after it."""
        assert self._fusion is not None
        spelled = self._forms.spelled
        ended = [i for i, token in enumerate(tokens) if pending[i].spelled and self._ends_word[token]]
        scores, states = self._fusion.score_words(
            [pending[i].after for i in ended], [pending[i].spelled for i in ended], False
        )
        after, all_scores = list(pending), [0.0] * len(pending)
        for i, score, state in zip(ended, scores, states, strict=True):
            after[i], all_scores[i] = Pending(state, b""), score
        return all_scores, [
            Pending(own.after, own.word + spelled[token]) if token < len(spelled) else own
            for own, token in zip(after, tokens, strict=True)
        ]
