"""The language model of an n-gram table.

Its state is an array of trie nodes, a row for each sequence.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import check_log_probs
from chainrule.ngram.models.stream_scorer import run_pieces
from chainrule.ngram.models.trie_model import TrieModel
from chainrule.ngram.trie.choosing_kernels import highest_children
from chainrule.ngram.trie.query_kernels import advance, score_stream
from chainrule.ngram.trie.walking_kernels import unknown_follows, walk_stream
from chainrule.protocol import StreamScores

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.ngram.models.trie_model import Contexts, Trie
    from chainrule.ngram.trie.table import Table

WALKED_TOKENS = 1 << 11  # a shorter stream would give too short lanes


class NGramModel(TrieModel):
    """P(w | the last N-1 tokens), from a table; `</s>` starts the next document."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.vocabulary_size = table.vocabulary_size

    @property
    def order(self) -> int:
        return self.table.order

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """n-grams by order, from unigrams on."""
        return self.table.level_sizes

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """unknown: whether to score <unk> at all positions, too."""
        stream = self._checked(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        unknown_scores = np.empty(stream.size if unknown else 0, np.float32)
        arrays, slots, suffixes = self.table.columns, self.table.slots, self.table.suffixes
        outputs = scores, lengths, unknown_scores
        if suffixes.size and stream.size >= WALKED_TOKENS:
            run_pieces(walk_stream, (*arrays, slots, suffixes, self.order, stream), (*outputs, self._unknown_follows))
        else:
            run_pieces(score_stream, (*arrays, slots, self.order, stream), outputs)
        check_log_probs(scores)
        check_log_probs(unknown_scores)
        return StreamScores(*outputs)

    @cached_property
    def _unknown_follows(self) -> bool:
        return unknown_follows(self.table.words, self.table.begin, self.vocabulary_size)

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """As `LanguageModel.advance`."""
        tokens = self._checked_for(state, tokens)
        return advance(self.table.words, self.table.begin, self.table.log_backoffs.size, state, tokens)

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
