"""The language model of a KenLM probing file, which looks n-grams up by their hash."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import ByDistributions, check_log_probs
from chainrule.base.threads import run_all
from chainrule.errors import SettingError
from chainrule.ngram.kenlm import hashed_model_kernels as kernels
from chainrule.ngram.kenlm.probing_kernels import STATE_SIZE
from chainrule.ngram.kenlm.word_queries import Record, queries
from chainrule.ngram.models.stream_scorer import StreamScorer, pieces_of
from chainrule.protocol import BEGIN, StreamScores

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

    States = Int64[ndarray, "rows state"]


class HashedModel(StreamScorer, ByDistributions["States"]):
    """P(w | the last N-1 tokens), from a hash table; `</s>` starts the next document."""

    def __init__(self, record: Record, vocabulary_size: int, level_sizes: tuple[int, ...]) -> None:
        self.record, self.vocabulary_size, self.level_sizes = record, vocabulary_size, level_sizes

    @property
    def order(self) -> int:
        return self.record.order

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """unknown: whether to score <unk> at all positions, too."""
        stream = self._checked(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        results = StreamScores(scores, lengths, np.empty(stream.size if unknown else 0, np.float32))
        pieces = pieces_of(stream)
        states = np.zeros((len(pieces), 2, STATE_SIZE), np.int64)
        calls = [
            (self.record.address, stream, *piece, self._begin_state, *(state.ctypes.data for state in pair), *results)
            for piece, pair in zip(pieces, states, strict=True)
        ]
        run_all(kernels.score_stream, calls)
        check_log_probs(scores)
        check_log_probs(results.unknown_log_probs)
        return results

    def next_log_probs(self, state: States) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""
        rows = np.empty((len(state), self.vocabulary_size), np.float32)
        scratch = np.zeros(STATE_SIZE, np.int64)
        state = np.ascontiguousarray(state)
        addresses = state, state.ctypes.data, scratch.ctypes.data
        kernels.distributions(self.record.address, *addresses, rows)
        check_log_probs(rows)
        return rows

    def advance(self, state: States, tokens: Int32[ndarray, " rows"]) -> States:
        """As `LanguageModel.advance`."""
        tokens = self._checked_for(state, tokens)
        advanced = np.ascontiguousarray(state).copy()
        kernels.advance(self.record.address, advanced, advanced.ctypes.data, tokens, self._begin_state)
        return advanced

    @property
    def table(self) -> Table:
        """Raises SettingError: without the words, the model cannot be written as a folder or an ARPA file."""
        raise SettingError(
            "this KenLM binary holds hashes of n-grams instead of their words, so it can be queried but not "
            "converted; convert its ARPA file, or a binary of type trie"
        )

    @cached_property
    def _begin_state(self) -> Int64[ndarray, " state"]:
        state = np.zeros(STATE_SIZE, np.int64)
        queries().score_word(self.record.address, BEGIN, state.ctypes.data, state.ctypes.data)
        return state
