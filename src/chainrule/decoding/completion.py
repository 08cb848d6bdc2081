"""Completion while typing: the rest of the current word, or the next one, and more while the model is sure.

The last token of the typed text may be the beginning of a longer one: then it is removed, and all tokens that begin
with it compete. A completion extends to the end of its word, and on as long as the next word is likelier than not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.distributions import top_of
from chainrule.decoding.limits import GrowingText
from chainrule.decoding.shared_prefixes import PromptStateCache
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.decoding.form import Form, FormState
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

SURE = math.log(0.5)  # a phrase continues while its next word is at least this likely
_SPARE = 64  # tokens that are tried in place of some from which a form does not go on
LONGEST = 24  # tokens that a completion grows by
MARKERS = (UNKNOWN, BEGIN, END)


class Completion(NamedTuple):
    """A completion of a text.

    text: the completed words, from the beginning of the typed word on. added: the part that is not typed yet. log_prob:
    that of `text` among all possible completions, in nats. replaces: how many characters at the end of the typed text
    `added` replaces: 0, unless this is a correction of the word just typed. Then log_prob is that of the correction,
    given the typed text.
    """

    text: str
    added: str
    log_prob: float
    replaces: int = 0


class WordChange(Protocol):
    """A Protocol: a correction of a part of a text, from a character to another, with its probability."""

    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def after(self) -> str: ...
    @property
    def prob(self) -> float: ...


class LastWordCorrector(Protocol):
    """A Protocol: corrects the word just typed, as `Corrector` does."""

    def correct_last_word(self, text: str) -> WordChange | None:
        """Return the correction of a text's last word, if it is wrong."""


class Completing(Protocol):
    """A Protocol: completes texts; a `Completer`, or a server."""

    def complete(self, text: str, n: int = 5, *, corrector: LastWordCorrector | None = None) -> list[Completion]:
        """Return completions, as `Completer.complete` does."""


@dataclass(frozen=True)
class InForm:
    """Completes texts to what has a form."""

    completer: Completer
    form: Form | None

    def complete(self, text: str, n: int = 5, *, corrector: LastWordCorrector | None = None) -> list[Completion]:
        """Return completions, as `Completer.complete` does."""
        return self.completer.complete(text, n, corrector=corrector, form=self.form)


class Completer:
    """Completes texts with a model; the tokens are sorted once."""

    def __init__(
        self,
        model: LanguageModel[Any],
        tokenizer: Tokenizer,
        *,
        reads_prompts: bool = False,
        context: int | None = None,
    ) -> None:
        """Sort the vocabulary's tokens, and prepare to remember the last prompt.

        reads_prompts: whether the model is a `PromptReader`, which then reads only what was typed since the last call.
        context: the most tokens that it reads at once.
        """
        self.model, self.tokenizer = model, tokenizer
        reader: Any = model
        self._last_prompt = PromptStateCache(reader, begins_texts=True, context=context) if reads_prompts else None
        tokens = tokenizer.vocabulary.tokens()
        self._ids = np.array(sorted(range(len(MARKERS), len(tokens)), key=tokens.__getitem__), np.int32)
        self._sorted = [tokens[token] for token in self._ids.tolist()]

    def complete(
        self, text: str, n: int = 5, *, corrector: LastWordCorrector | None = None, form: Form | None = None
    ) -> list[Completion]:
        """Return the n likeliest completions of a text, the likeliest word first; fewer if fewer words fit.

        A text that ends with white space gets the next words. corrector: may add one more suggestion, the last: a
        correction of the word just typed, once a space ends it or no known word begins with it. form: that the whole
        text is to have; a text that no longer can gets no completion. Raises SettingError, MarkerError.
        """
        completions = self._completions(text, n, form)
        if corrector is None or (completions and not text[-1:].isspace()):
            return completions
        change = corrector.correct_last_word(text)
        if change is None:
            return completions
        ends, whole = len(text) - change.start, change.after + text[change.stop :]
        return [*completions, Completion(change.after, whole, math.log(change.prob), ends)]

    def _completions(self, text: str, n: int, form: Form | None) -> list[Completion]:
        check_least("n", n, 1)
        encoded = self.tokenizer.encode_texts([text])
        surfaces = [encoded.surface(i) for i in range(encoded.ids.size - 1)]
        ids = encoded.ids[:-1]
        typed = self._restored(surfaces)
        is_between = text[-1:].isspace() and not typed[-1:].isspace()  # that space belongs to no token
        fitting = np.empty(0, np.int32)
        if surfaces and not is_between:
            fitting = self._beginning_with(surfaces[-1])
            if not fitting.size:
                return []  # no token begins so
        if fitting.size and fitting.tolist() != [ids[-1]]:
            before, ids = surfaces[:-1], ids[:-1]
        else:
            before, fitting = surfaces, np.empty(0, np.int32)
        begun = None if form is None else form.after(ids.tolist())
        if form is not None and begun is None:
            return []
        if begun is not None:
            may_follow = np.setdiff1d(np.flatnonzero(begun.mask()).astype(np.int32), MARKERS)
            fitting = np.intersect1d(fitting, may_follow) if fitting.size else may_follow
            if not fitting.size:
                return []
        state = self._state_after(ids)
        log_probs, tokens = self._best_of(state, fitting if fitting.size else None, n if begun is None else n + _SPARE)
        if begun is not None:
            goes_on = [i for i, token in enumerate(tokens.tolist()) if begun.copy().try_add(token)][:n]
            log_probs, tokens = log_probs[goes_on], tokens[goes_on]
            if not goes_on:
                return []
        stem = "" if is_between or typed[-1:].isspace() else typed.split()[-1] if typed else ""
        completions: dict[str, tuple[float, Completion]] = {}
        for whole, log_prob, word_log_prob in self._extended(before, state, log_probs, tokens, begun):
            added = whole[len(typed) :].lstrip() if is_between else whole[len(typed) :]
            if added.strip():
                completions.setdefault(added, (word_log_prob, Completion((stem + added).strip(), added, log_prob)))
        return [completion for _, completion in sorted(completions.values(), key=lambda pair: -pair[0])]

    def _state_after(self, tokens: Int32[ndarray, " T"]) -> Any:
        if self._last_prompt is not None:
            return self._last_prompt.state_after(tokens)
        return self.model.start([tokens])

    def _beginning_with(self, surface: bytes) -> Int32[ndarray, " tokens"]:
        """Return all tokens that begin with these bytes."""
        low = bisect_left(self._sorted, surface)
        high = bisect_left(self._sorted, surface + b"\xff", low)  # 0xff is in no token: it is never in UTF-8
        return self._ids[low:high]

    def _best_of(
        self, state: Any, fitting: Int32[ndarray, " tokens"] | None, n: int
    ) -> tuple[Float32[ndarray, " k"], Int32[ndarray, " k"]]:
        """Return the n likeliest of the fitting tokens, or of all that can be shown; log-probabilities among these."""
        if fitting is None:
            log_probs, tokens = (row[0] for row in self.model.top(state, n + len(MARKERS)))
            kept = ~np.isin(tokens, MARKERS) & np.isfinite(log_probs)
            return log_probs[kept][:n], tokens[kept][:n]
        rows = self.model.next_log_probs(state)[:, fitting]
        order = np.argsort(fitting)  # so that equal ones come by lower id
        [log_probs], [positions] = top_of(rows[:, order], n)
        possible = np.isfinite(log_probs)
        total = np.logaddexp.reduce(rows[0].astype(np.float64))
        return (log_probs[possible] - total).astype(np.float32), fitting[order][positions[possible]]

    def _extended(
        self,
        before: list[bytes],
        state: Any,
        log_probs: Float32[ndarray, " k"],
        tokens: Int32[ndarray, " k"],
        begun: FormState | None,
    ) -> list[tuple[str, float, float]]:
        """Return completions that begin with each token: the whole text, its log-probability, and that of its first
        word.
        """
        words = [_Word(self.tokenizer, before, log_prob) for log_prob in log_probs.tolist()]
        for word, token in zip(words, tokens.tolist(), strict=True):
            word.add(self.tokenizer.vocabulary.token_bytes(token))
            if begun is not None:
                word.form = begun.copy()
                word.form.add(token)
        growing = words
        state = self.model.select(state, np.zeros(len(words), np.int32))
        for _ in range(LONGEST):
            if not growing:
                break
            state = self.model.advance(state, tokens)
            next_log_probs, best = self._likeliest_next(state, growing)
            pairs = zip(growing, best[:, 0].tolist(), next_log_probs[:, 0].tolist(), strict=True)
            goes_on = np.array([self._goes_on(word, token, log_prob) for word, token, log_prob in pairs], np.bool_)
            rows = np.flatnonzero(goes_on)
            growing = [growing[row] for row in rows]
            state, tokens = self.model.select(state, rows.astype(np.int32)), best[rows, 0]
        start = self._restored(before)
        return [(start + text, *word.log_probs) for word in words if (text := word.text) is not None]

    def _likeliest_next(
        self, state: Any, words: list[_Word]
    ) -> tuple[Float32[ndarray, "words 1"], Int32[ndarray, "words 1"]]:
        """Return the likeliest next token of each word; </s> where its form has an end, and nothing else follows."""
        forms = [word.form for word in words if word.form is not None]
        if not forms:
            return self.model.top(state, 1)
        log_probs = self.model.next_log_probs(state)
        masks = np.stack([form.mask() for form in forms])
        masks[~masks.any(axis=1), END] = True  # stuck: what is there is all that can be shown
        return top_of(np.where(masks, log_probs, np.float32(-np.inf)), 1)

    def _goes_on(self, word: _Word, token: int, log_prob: float) -> bool:
        """Return whether a word or phrase should be extended by its likeliest next token."""
        if token in MARKERS:
            word.end()
            return False
        goes_on = word.grows_by(self.tokenizer.vocabulary.token_bytes(token), log_prob)
        if goes_on and word.form is not None:
            word.form.add(token)
        return goes_on

    def _restored(self, surfaces: list[bytes]) -> str:
        return self.tokenizer.restore(b" ".join(surfaces)).decode("utf-8", "replace")


class _Word:
    """A completion that grows; it can be shown up to the end of its last whole word."""

    def __init__(self, tokenizer: Tokenizer, before: list[bytes], log_prob: float) -> None:
        self._growing = GrowingText(tokenizer.restore, before)
        self._text, self._log_prob = "", log_prob
        self._shown: tuple[str, float] | None = None
        self._word_log_prob = log_prob
        self.form: FormState | None = None

    @property
    def text(self) -> str | None:
        """The text that is shown; None if no word has ended."""
        return None if self._shown is None else self._shown[0]

    @property
    def log_probs(self) -> tuple[float, float]:
        """The log-probabilities of the shown text, and of its first word."""
        return (self._shown or ("", self._log_prob))[1], self._word_log_prob

    def add(self, surface: bytes) -> None:
        self._text += self._growing.add(surface)

    def end(self) -> None:
        """Show all of the text so far."""
        if self._shown is None:
            self._word_log_prob = self._log_prob
        self._shown = self._text, self._log_prob

    def grows_by(self, surface: bytes, log_prob: float) -> bool:
        """Extend it by a token, unless that begins a new, unlikely word; return whether it was extended."""
        piece = self._growing.add(surface)
        if piece and not (piece[0].isalnum() or piece[0] in "'’") and self._text.strip():
            self.end()
        if self._shown is not None and self._log_prob + log_prob - self._shown[1] < SURE:
            return False
        self._text += piece
        self._log_prob += log_prob
        return True
