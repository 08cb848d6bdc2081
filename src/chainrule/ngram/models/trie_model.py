"""What the models of both layouts share: states are trie nodes; kernels of the fast layout give distributions."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.arguments import check_tokens
from chainrule.base.distributions import NAN_MESSAGE, NOTHING_TO_DRAW_MESSAGE, check_draw, check_log_probs
from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.models.stream_scorer import StreamScorer
from chainrule.ngram.trie.choosing_kernels import best_words, draw_words
from chainrule.ngram.trie.query_kernels import NO_NODE, children, distributions, score_pairs
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, Float64, Int, Int32, Int64
    from numpy import ndarray

    Contexts = Int64[ndarray, "rows order-1"]
    Trie = tuple[
        Int32[ndarray, " nodes"], Float32[ndarray, " nodes"], Int[ndarray, " inner+1"], Float32[ndarray, " inner+1"]
    ]


class BackoffStep(NamedTuple):
    """A context of a query, and what the table has after it.

    continuations: how many different tokens; None if the table lacks the context itself. log_backoff: nats; 0 without
    the context. log_probs: of the n-grams of the context and each of some tokens, NaN where the table lacks one.
    """

    context_length: int
    continuations: int | None
    log_backoff: float
    log_probs: Float64[ndarray, " tokens"]


class TrieModel(StreamScorer):
    """The state has a row for each sequence: the nodes of its contexts, the shortest first."""

    @property
    @abstractmethod
    def _unigrams(self) -> Float32[ndarray, " vocab"]: ...

    @abstractmethod
    def _tries(self, state: Contexts) -> Iterable[tuple[slice, Trie, Contexts]]:
        """Slices of the rows, each with the arrays of a fast trie that has their contexts, and their nodes in it."""

    def next_log_probs(self, state: Contexts) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""
        rows = np.empty((len(state), self.vocabulary_size), np.float32)
        for part, trie, contexts in self._tries(state):
            distributions(*trie, self.vocabulary_size, contexts, rows[part])
        check_log_probs(rows)
        return rows

    def log_probs_of(
        self, state: Contexts, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """As `LanguageModel.log_probs_of`, but without building the rows."""
        check_tokens(tokens, self.vocabulary_size)
        log_probs = np.empty(len(tokens), np.float32)
        for part, trie, contexts in self._tries(state):
            first = part.start or 0
            inside = np.flatnonzero((rows >= first) & (rows < first + len(contexts)))
            pairs = (rows[inside] - first).astype(np.int64), tokens[inside].astype(np.int32)
            log_probs[inside] = score_pairs(*trie, contexts, *pairs)
        check_log_probs(log_probs)
        return log_probs

    def top(self, state: Contexts, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """As `LanguageModel.top`, without computing whole distributions."""
        if k < 1:
            raise SettingError(f"k is {k}; expected 1 or more")
        shape = len(state), min(k, self.vocabulary_size)
        log_probs, tokens = np.empty(shape, np.float32), np.empty(shape, np.int32)
        for part, trie, contexts in self._tries(state):
            known = self.vocabulary_size, self._ranked, self._highest
            if not best_words(*trie, *known, contexts, log_probs[part], tokens[part]):
                raise ModelFormatError(NAN_MESSAGE)
        check_log_probs(log_probs)
        return log_probs, tokens

    def draw(
        self, state: Contexts, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """As `LanguageModel.draw`, without computing whole distributions.

        Words seen after longer contexts come first.
        """
        forbidden = check_draw(len(state), uniforms, banned, self.vocabulary_size)
        log_probs, tokens = np.empty(len(state), np.float32), np.empty(len(state), np.int32)
        for part, trie, contexts in self._tries(state):
            drawn = contexts, uniforms[part], forbidden, log_probs[part], tokens[part]
            if not draw_words(*trie, self.vocabulary_size, self._cumulative, *drawn):
                raise SettingError(NOTHING_TO_DRAW_MESSAGE)
        check_log_probs(log_probs)
        return log_probs, tokens

    def backoff_chain(self, state: Contexts, tokens: Int32[ndarray, " tokens"]) -> list[BackoffStep]:
        """Where the probabilities of some tokens after the first row come from: a step for each context, longest first.

        log P(w | row) is the first log-probability of w that is no NaN, plus the log_backoffs of all steps before it.
        """
        check_tokens(tokens, self.vocabulary_size)
        _, (words, log_probs, begin, log_backoffs), contexts = next(iter(self._tries(state[:1])))
        steps = [BackoffStep(0, self.vocabulary_size, 0.0, self._unigrams[tokens].astype(np.float64))]
        for length, node in enumerate(contexts[0].tolist(), 1):
            if node == NO_NODE:
                steps.append(BackoffStep(length, None, 0.0, np.full(len(tokens), np.nan)))
                continue
            low, high = (int(bound) for bound in children(words, begin, node))
            nodes = low + np.searchsorted(words[low:high], tokens)
            inside = np.minimum(nodes, words.size - 1)
            is_there = (nodes < high) & (words[inside] == tokens)
            own = np.where(is_there, log_probs[inside], np.nan).astype(np.float64)
            steps.append(BackoffStep(length, high - low, float(log_backoffs[node]), own))
        return steps[::-1]

    def continuations(
        self, state: Contexts, context_length: int
    ) -> tuple[Int32[ndarray, " tokens"], Float32[ndarray, " tokens"], Float32[ndarray, " tokens"]]:
        """The tokens that the table has after so many last tokens of the first row: their ids, ascending, the stored
        log-probabilities, and those after a context that is shorter by one. Empty where the table lacks the context.
        """
        _, (words, log_probs, begin, _), contexts = next(iter(self._tries(state[:1])))
        node = contexts[0, context_length - 1]
        low, high = (0, 0) if node == NO_NODE else (int(bound) for bound in children(words, begin, node))
        tokens = np.array(words[low:high], np.int32)
        shorter = state[:1].copy()
        shorter[0, context_length - 1 :] = NO_NODE
        lower = self.log_probs_of(shorter, np.zeros(len(tokens), np.int32), tokens)
        return tokens, np.array(log_probs[low:high]), lower

    @property
    def _begin_state(self) -> Int64[ndarray, " order-1"]:
        return np.array([1 + BEGIN, *[NO_NODE] * (self.order - 2)][: self.order - 1], np.int64)

    @cached_property
    def _ranked(self) -> Int32[ndarray, " vocab"]:
        """All words, the likeliest unigrams first, equal ones by lower id."""
        return np.argsort(-self._unigrams, kind="stable").astype(np.int32)

    @cached_property
    def _highest(self) -> Float32[ndarray, " contexts"]:
        """The highest log-probability after each of the first contexts of `_tries`; none where these vary."""
        return np.empty(0, np.float32)

    @cached_property
    def _cumulative(self) -> Float64[ndarray, " vocab+1"]:
        """The sum of the unigram probabilities below each word. Raises ModelFormatError where these are impossible."""
        check_log_probs(self._unigrams)
        return np.concatenate([[0.0], np.cumsum(np.exp(self._unigrams, dtype=np.float64))])
