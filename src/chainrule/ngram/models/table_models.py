"""The language models of n-gram tables, fast and compact.

A state is an array of trie nodes, a row for each sequence, in both layouts. A compact model scores by the compact trie
itself; for whole distributions, the contexts of a few rows are unpacked into a small fast table for the kernels of the
fast layout.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.arguments import check_tokens
from chainrule.base.distributions import NAN_MESSAGE, NOTHING_TO_DRAW_MESSAGE, check_draw, check_log_probs, state_after
from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.compact.query_kernels import OPEN, SIZE, open_rows, spell_out
from chainrule.ngram.compact.query_kernels import advance as advance_compact
from chainrule.ngram.compact.query_kernels import score_stream as score_compact_stream
from chainrule.ngram.models.stream_scorer import StreamScorer, run_pieces
from chainrule.ngram.trie.choosing_kernels import best_words, draw_words, highest_children
from chainrule.ngram.trie.query_kernels import (
    NO_NODE,
    advance,
    children,
    contexts_along,
    distributions,
    score_pairs,
    score_stream,
)
from chainrule.ngram.trie.table import NODE, context_type
from chainrule.ngram.trie.walking_kernels import unknown_after_all, unknown_follows, walk_stream
from chainrule.protocol import BEGIN, END, UNKNOWN, StreamScores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float32, Float64, Int, Int32, Int64, Shaped
    from numpy import ndarray

    from chainrule.ngram.compact.table import CompactTable
    from chainrule.ngram.trie.table import Table

    Contexts = Int64[ndarray, "rows order-1"]
    Trie = tuple[
        Int32[ndarray, " nodes"], Float32[ndarray, " nodes"], Int[ndarray, " inner+1"], Float32[ndarray, " inner+1"]
    ]


class BackoffStep(NamedTuple):
    """A context of a query, and what the table has after it.

    continuations: how many different tokens follow it; None if the table lacks the context itself. log_backoff: in
    nats; 0 without the context. log_probs: those of the n-grams of the context and each of the queried tokens, in nats;
    NaN where the table lacks one.
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
        """Return slices of the rows, each with the arrays of a fast trie that has their contexts, and their nodes in
        it.
        """

    def next_log_probs(self, state: Contexts) -> Float32[ndarray, "rows vocab"]:
        """Implement `LanguageModel.next_log_probs`."""
        rows = np.empty((len(state), self.vocabulary_size), np.float32)
        for part, trie, contexts in self._tries(state):
            distributions(*trie, self.vocabulary_size, contexts, rows[part])
        check_log_probs(rows)
        return rows

    def stream_rows(self, stream: Int32[ndarray, " tokens"], size: int) -> Iterator[Float32[ndarray, "part vocab"]]:
        """Implement `StreamReader.stream_rows`."""
        check_tokens(stream, self.vocabulary_size)
        for begin in range(0, len(stream), size):
            positions = np.arange(begin, min(begin + size, len(stream)))
            yield self.next_log_probs(state_after(self, stream, positions, self.order - 1))

    def log_probs_of(
        self, state: Contexts, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """Implement `LanguageModel.log_probs_of`, but without building the rows."""
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
        """Implement `LanguageModel.top`, without computing whole distributions."""
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
        """Implement `LanguageModel.draw`, without computing whole distributions.

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

    def evidence(self, state: Contexts) -> Float32[ndarray, "rows 3"]:
        """Return, for each row, the length of the longest context in the table; a table does not say how often it was
        seen.
        """
        found = np.zeros((len(state), 3), np.float32)
        found[:, 0] = (state != NO_NODE).sum(axis=1)
        return found

    def stream_evidence(self, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, "tokens 3"]:
        """Return the `evidence` of the context of each token of a stream, whose documents end with </s>."""
        lengths = self.score_stream_with_lengths(stream)[1]
        found = np.zeros((len(stream), 3), np.float32)
        found[1:, 0] = np.minimum(lengths[:-1], self.order - 1)
        found[np.concatenate([[True], stream[:-1] == END])[: len(stream)], 0] = min(1, self.order - 1)
        return found

    def backoff_chain(self, state: Contexts, tokens: Int32[ndarray, " tokens"]) -> list[BackoffStep]:
        """Return how the probabilities of some tokens after the first row come about: a step for each context, longest
        first.

        log P(w | row) is the first log-probability of w that is not NaN, plus the log_backoffs of all steps before it.
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
        """Return the tokens that the table has after this many last tokens of the first row: their ids, ascending,
        their stored log-probabilities, and those after the context that is shorter by one.

        Empty where the table lacks the context.
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


_CONTEXTS_A_TOKEN = 8  # for which P(<unk>) is computed in less time than a token with its shorter contexts takes
WALKED_TOKENS = 1 << 11  # a shorter stream would give too short lanes


class NGramModel(TrieModel):
    """P(w | the last N-1 tokens), from a table; `</s>` starts the next document."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.vocabulary_size = table.vocabulary_size
        self._unknown_scores, self._computes_unknown = np.empty(0, np.float32), False  # see `_unknown_after`
        self._tokens_with_unknown = 0

    @property
    def order(self) -> int:
        return self.table.order

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """n-grams by order, from unigrams on."""
        return self.table.level_sizes

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """Return the scores of a stream. unknown: whether to score <unk> at all positions, too."""
        stream = self._checked(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        unknown_scores = np.empty(stream.size if unknown else 0, np.float32)
        arrays, slots, suffixes = self.table.columns, self.table.slots, self.table.suffixes
        outputs = scores, lengths, unknown_scores
        if suffixes.size and stream.size >= WALKED_TOKENS:
            unknown_after = self._unknown_after(stream.size if unknown else 0)
            given = (*arrays, slots, suffixes, self.order, stream)
            run_pieces(walk_stream, given, (*outputs, self._unknown_follows, unknown_after))
        else:
            run_pieces(score_stream, (*arrays, slots, self.order, stream), outputs)
        check_log_probs(scores)
        check_log_probs(unknown_scores)
        return StreamScores(*outputs)

    def _unknown_after(self, tokens: int) -> Float32[ndarray, " contexts"]:
        """Return log P(<unk> | context) for all contexts; empty until so many tokens were scored that it pays.

        tokens: how many are to be scored with it. Threads that come while one computes it do without.
        """
        contexts, self._tokens_with_unknown = self.table.begin.size - 1, self._tokens_with_unknown + tokens
        if self._tokens_with_unknown > contexts // _CONTEXTS_A_TOKEN and not self._computes_unknown:
            self._computes_unknown, scores = True, np.empty(contexts, np.float32)
            if unknown_after_all(*self.table.columns, self.table.suffixes, self._unknown_follows, scores):
                self._unknown_scores = scores
        return self._unknown_scores

    @cached_property
    def _unknown_follows(self) -> bool:
        return unknown_follows(self.table.words, self.table.begin, self.vocabulary_size)

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """Implement `LanguageModel.advance`."""
        tokens = self._checked_for(state, tokens)
        return advance(self.table.words, self.table.begin, self.table.log_backoffs.size, state, tokens)

    def stream_rows(self, stream: Int32[ndarray, " tokens"], size: int) -> Iterator[Float32[ndarray, "part vocab"]]:
        """Implement `StreamReader.stream_rows`, with one step for each token."""
        stream, context = self._checked(stream), np.array(self._begin_state, np.int64)
        for begin in range(0, len(stream), size):
            tokens = stream[begin : begin + size]
            contexts = np.empty((len(tokens), len(context)), np.int64)
            contexts_along(self.table.words, self.table.begin, self.table.log_backoffs.size, context, tokens, contexts)
            yield self.next_log_probs(contexts)

    @property
    def _unigrams(self) -> Float32[ndarray, " vocab"]:
        return self.table.log_probs[self.table.level(1)]

    def _tries(self, state: Contexts) -> Iterable[tuple[slice, Trie, Contexts]]:
        return ((slice(None), self.table.columns, state),)

    @cached_property
    def _highest(self) -> Float32[ndarray, " contexts"]:
        """As in `TrieModel`, for contexts of one word, which may have thousands of children."""
        words, log_probs, begin, _ = self.table.columns
        highest = np.empty(min(1 + self.vocabulary_size, begin.size - 1), np.float32)
        highest_children(words, log_probs, begin, highest)
        return highest


_ACTUAL_TOKEN = -1  # scores each token of the stream, not one token at all positions
_ROWS = 64  # unpacked at once


class CompactNGramModel(TrieModel):
    """P(w | the last N-1 tokens), from a compact table; `</s>` starts the next document."""

    def __init__(self, compact: CompactTable) -> None:
        self.compact = compact
        self.vocabulary_size = compact.vocabulary_size

    @property
    def order(self) -> int:
        return self.compact.order

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """n-grams by order, from unigrams on."""
        return self.compact.level_sizes

    @property
    def table(self) -> Table:
        """The same model in the fast layout, unpacked on each access: for ARPA files and `convert`."""
        from chainrule.ngram.compact.building import unpack_table

        return unpack_table(self.compact)

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """Return the scores of `StreamScorer._score`; of lengths, n-grams that were added as suffixes count as well."""
        of_unknown = self._score_tokens(stream, UNKNOWN)[0] if unknown else np.empty(0, np.float32)
        return StreamScores(*self._score_tokens(stream, _ACTUAL_TOKEN), of_unknown)

    def _score_tokens(
        self, stream: Int32[ndarray, " tokens"], token: int
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        stream = self._checked(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        run_pieces(score_compact_stream, (*self.compact.parts, self.compact.layout, token, stream), (scores, lengths))
        check_log_probs(scores)
        return scores, lengths

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """Implement `LanguageModel.advance`."""
        tokens = self._checked_for(state, tokens)
        return advance_compact(self.compact.bits, self.compact.layout, self.vocabulary_size, state, tokens)

    def _tries(self, state: Contexts) -> Iterator[tuple[slice, Trie, Contexts]]:
        bits, layout = self.compact.bits, self.compact.layout
        for start in range(0, len(state), _ROWS):
            part = slice(start, start + _ROWS)
            rows, row_of = np.unique(state[part], axis=0, return_inverse=True)
            rows = np.ascontiguousarray(rows, np.int64)
            opened = np.empty((self.order + 1, len(rows), OPEN), np.int64)
            scales = np.empty((self.order + 1, len(rows)))
            open_rows(bits, layout, self.vocabulary_size, rows, opened, scales)
            nodes = np.zeros(self._unigram_nodes.size + int(opened[2:, :, SIZE].sum()), NODE)
            nodes[: self._unigram_nodes.size] = self._unigram_nodes
            contexts = np.zeros(max(rows.size, 1) + 1, context_type(np.int32))  # see `Table.columns`
            contexts["begin"][:1] = self._unigram_nodes.size
            trie = nodes["word"], nodes["log_prob"], contexts["begin"], contexts["log_backoff"]
            spell_out(*self.compact.parts, opened, scales, *trie)
            own = np.where(rows == NO_NODE, NO_NODE, np.arange(rows.size).reshape(rows.shape))
            yield part, trie, own[row_of.reshape(-1)]

    @property
    def _unigrams(self) -> Float32[ndarray, " vocab"]:
        return self.compact.unigrams

    @cached_property
    def _unigram_nodes(self) -> Shaped[ndarray, " vocab+1"]:
        """The root and the unigrams in the fast layout."""
        nodes = np.zeros(1 + self.vocabulary_size, NODE)
        nodes["word"][1:], nodes["log_prob"][1:] = np.arange(self.vocabulary_size), self.compact.unigrams
        return nodes
