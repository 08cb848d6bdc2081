"""Any language model as the search sees it: words of growing texts are encoded, and scored in batches by the protocol.

Shallow fusion: a word adds alpha x ln P(its tokens | the text before) + beta to the score of a text.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.speech.search.alphabet import check_spelling
from chainrule.features.speech.search.config import DEFAULTS
from chainrule.features.speech.search.words import Words
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.splitters import JOINER
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.features.speech.options import DecodingOptions
    from chainrule.features.speech.search.alphabet import Alphabet
    from chainrule.models.model import Model
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

_LN_10 = math.log(10)
_ROWS = 1 << 10  # whose states are kept; others are computed again where they are needed
_LONGEST, _KEPT = 2000, 1000  # characters: of a longer text only the end is kept, since it is tokenized with every word


class AbstractLMState:
    """The state of a language model after some words."""

    def get_mp_safe_state(self) -> AbstractLMState | None:
        """Return a state that can be sent to another process; None if there is none."""
        return None


class _Batch:
    """The states of several texts that were scored at once; None when they have been dropped."""

    def __init__(self, state: Any, size: int) -> None:
        self.state, self.size = state, size


@dataclass(frozen=True)
class TextState(AbstractLMState):
    """What a model has read: a text, or the end of a long one, its tokens, and where its state is."""

    text: str
    tokens: Int32[ndarray, " T"] = field(compare=False)
    batch: _Batch = field(compare=False, repr=False)
    row: int = field(compare=False, repr=False)

    def get_mp_safe_state(self) -> TextState:
        """Return the same text; its state is computed again."""
        return TextState(self.text, self.tokens, _Batch(None, 0), 0)


class ShallowFusion:
    """A language model and its tokenizer as a `WordModel` of the search.

    unknown_offset: what a word adds to its log10 P if one of its tokens is unknown, or if there are `words` and it is
    none of them. words: those that there are; by default those of a vocabulary of whole words, and of others any.
    """

    def __init__(
        self,
        model: LanguageModel[Any],
        tokenizer: Tokenizer,
        *,
        alpha: float = DEFAULTS.alpha,
        beta: float = DEFAULTS.beta,
        unknown_offset: float = DEFAULTS.unk_score_offset,
        words: Iterable[str] | None = None,
        score_boundary: bool = True,
    ) -> None:
        """Store the model, and find its words.

        score_boundary: whether the end of a text is scored. Raises SettingError if there are no words.
        """
        self._model, self._tokenizer = model, tokenizer.with_markers("keep")
        self.alpha, self.beta, self.unknown_offset, self.score_boundary = alpha, beta, unknown_offset, score_boundary
        self._only = None if words is None else frozenset(words)
        if self._only is not None and not self._only:
            raise SettingError("the list of words is empty; give one or more, or leave it out")
        if self._only is None:
            words = words_of(tokenizer)
        self.known = None if words is None else Words(words)
        order = getattr(model, "order", 0)
        self.order = order if isinstance(order, int) and self.known is not None else 0
        self._batches: deque[_Batch] = deque()
        self._rows = 0

    def check_spelling(self, labels: Alphabet) -> None:
        """Warn, or raise SettingError, if the labels cannot spell the model's words; see `alphabet.check_spelling`."""
        if self.known is not None:
            check_spelling(
                labels, self.known.words, "words of the list" if self._only else "words of the language model"
            )
        else:
            shown = self._tokenizer.shown(range(END + 1, len(self._tokenizer.vocabulary)))
            letters = ("".join(filter(str.isalpha, token)) for token in shown)
            check_spelling(labels, letters, "tokens of the language model")

    def get_start_state(self) -> TextState:
        """Return the state after <s>."""
        nothing = np.empty(0, np.int32)
        return TextState("", nothing, self._kept(self._model.start([nothing]), 1), 0)

    def score_words(
        self, states: Sequence[TextState], words: Sequence[str | None], is_last: bool
    ) -> tuple[list[float], list[TextState]]:
        """Implement `WordModel.score_words`."""
        if not words:
            return [], []
        texts = [
            before.text if word is None else f"{before.text} {word}".lstrip()
            for before, word in zip(states, words, strict=True)
        ]
        sequences = documents_of(self._tokenizer.encode_texts(texts).ids)
        begins = [_common(before.tokens, tokens) for before, tokens in zip(states, sequences, strict=True)]
        state = self._state_of(states, sequences, begins)
        log_probs = np.zeros(len(texts))
        for row in (
            i for i, (before, begin) in enumerate(zip(states, begins, strict=True)) if begin < len(before.tokens)
        ):
            log_probs[row] -= self._log_prob(states[row].tokens[begins[row] :], states[row].tokens[: begins[row]])
        rest = [tokens[begin:] for tokens, begin in zip(sequences, begins, strict=True)]
        state = self._read(state, rest, log_probs)
        if is_last and self.score_boundary:
            rows = np.arange(len(texts), dtype=np.int32)
            log_probs += self._model.log_probs_of(state, rows, np.full(len(texts), END, np.int32))
        batch = self._kept(state, len(texts))
        unknown = [self._is_unknown(word, tokens) for word, tokens in zip(words, rest, strict=True)]
        offsets = self.unknown_offset * _LN_10 * np.array(unknown)
        counted = self.beta * np.array([word is not None for word in words])
        scores = (self.alpha * (log_probs + offsets) + counted).tolist()
        after = [
            TextState(*(self._end_of(text) if len(text) > _LONGEST else (text, tokens)), batch, row)
            for row, (text, tokens) in enumerate(zip(texts, sequences, strict=True))
        ]
        return scores, after

    def _end_of(self, text: str) -> tuple[str, Int32[ndarray, " T"]]:
        """Return the last words of a long text, and their tokens."""
        end = text[-_KEPT:].partition(" ")[2] or text[-_KEPT:]
        return end, documents_of(self._tokenizer.encode_texts([end]).ids)[0]

    def _is_unknown(self, word: str | None, tokens: Int32[ndarray, " T"]) -> bool:
        if word is None:
            return False
        return bool((tokens == UNKNOWN).any()) or (self._only is not None and word not in self._only)

    def _kept(self, state: Any, size: int) -> _Batch:
        """Return the states as a batch; the oldest are dropped if there are many."""
        batch = _Batch(state, size)
        self._batches.append(batch)
        self._rows += size
        while self._rows > _ROWS and len(self._batches) > 1:
            oldest = self._batches.popleft()
            oldest.state = None
            self._rows -= oldest.size
        return batch

    def _state_of(
        self, states: Sequence[TextState], sequences: Sequence[Int32[ndarray, " T"]], begins: Sequence[int]
    ) -> Any:
        """Return the state before each text's new tokens, a row for each."""
        groups: dict[int, list[int]] = {}  # rows by batch
        alone = []
        for row, before in enumerate(states):
            if before.batch.state is None or begins[row] < len(before.tokens):
                alone.append(row)
            else:
                groups.setdefault(id(before.batch), []).append(row)
        parts = [
            self._model.select(states[rows[0]].batch.state, np.array([states[row].row for row in rows], np.int32))
            for rows in groups.values()
        ]
        parts += [self._model.start([sequences[row][: begins[row]]]) for row in alone]
        order = [row for rows in groups.values() for row in rows] + alone
        joined = parts[0] if len(parts) == 1 else self._model.join(parts)
        return joined if order == sorted(order) else self._model.select(joined, np.argsort(order).astype(np.int32))

    def _read(self, state: Any, rest: Sequence[Int32[ndarray, " T"]], log_probs: ndarray) -> Any:
        """Return the state after more tokens in each row, as many as it has, and add their log-probabilities."""
        done: list[tuple[list[int], Any]] = []
        rows = list(range(len(rest)))
        place = 0
        while rows:
            ended = [i for i, row in enumerate(rows) if len(rest[row]) == place]
            if ended:
                done.append(([rows[i] for i in ended], self._model.select(state, np.array(ended, np.int32))))
                going = [i for i, row in enumerate(rows) if len(rest[row]) > place]
                rows = [rows[i] for i in going]
                if not rows:
                    break
                state = self._model.select(state, np.array(going, np.int32))
            tokens = np.array([rest[row][place] for row in rows], np.int32)
            log_probs[rows] += self._model.log_probs_of(state, np.arange(len(rows), dtype=np.int32), tokens)
            state = self._model.advance(state, tokens)
            place += 1
        if len(done) == 1:
            return done[0][1]
        order = [row for ended, _ in done for row in ended]
        joined = self._model.join([part for _, part in done])
        return self._model.select(joined, np.argsort(order).astype(np.int32))

    def _log_prob(self, tokens: Int32[ndarray, " T"], before: Int32[ndarray, " prefix"]) -> float:
        """Return the log-probability of tokens that a longer text no longer has: its tokenizer has made others of
        them.
        """
        [scores] = self._model.score([tokens], prefixes=[before], end=False)
        return float(scores.sum(dtype=np.float64))


def words_of(tokenizer: Tokenizer) -> list[str] | None:
    """Return the words of a vocabulary; None if its tokens are characters or subwords, of which any word can be
    made.
    """
    if tokenizer.name not in ("word", "whitespace"):
        return None
    tokens = [token.decode("utf-8", "replace") for token in tokenizer.vocabulary.tokens()[END + 1 :]]
    return None if tokenizer.name == "word" and any(JOINER in token for token in tokens) else tokens


def _common(one: Int32[ndarray, " T"], other: Int32[ndarray, " T"]) -> int:
    """Return how many first tokens are the same."""
    size = min(len(one), len(other))
    if np.array_equal(one[:size], other[:size]):
        return size
    return int((one[:size] != other[:size]).argmax())


def fusion_of(model: Model | None, options: DecodingOptions) -> ShallowFusion | None:
    """Return a language model with the weights that were chosen; None without one. Raises SettingError if there are
    words, but no model that they limit.
    """
    if model is not None:
        return ShallowFusion(
            model.language_model,
            model.tokenizer,
            alpha=options.alpha,
            beta=options.beta,
            unknown_offset=options.unk_score_offset,
            words=options.words or None,
        )
    if options.words:
        raise SettingError("words limit what a language model knows; give one, or leave words out")
    return None
