"""An n-gram model behind the waist.

Its state is an array of trie nodes, a row for each sequence, so that a copy of it is a state of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.query_kernels import advance, score_stream
from chainrule.ngram.streams import in_one_stream, run_pieces
from chainrule.ngram.trie_model import TrieModel
from chainrule.ngram.unknown_kernels import score_token
from chainrule.ngram.walking_kernels import walk_stream
from chainrule.protocol import UNKNOWN, check_log_probs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.table import Table
    from chainrule.ngram.trie_model import Contexts, Trie

WALKED_TOKENS = 1 << 11  # of shorter streams, parts to be walked at once would be too short


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

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        stream = self._known(stream)
        scores = np.empty(stream.size, np.float32)
        run_pieces(score_token, (*self._arrays(), self.order, UNKNOWN, stream), (scores,))
        check_log_probs(scores)
        return [scores[span] for span in spans]

    def score_stream_with_lengths(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """As `StreamScorer.score_stream_with_lengths`."""
        stream = self._known(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        arrays = *self._arrays(), self.table.slots
        if self.table.suffixes.size and stream.size >= WALKED_TOKENS:
            run_pieces(walk_stream, (*arrays, self.table.suffixes, self.order, stream), (scores, lengths))
        else:
            run_pieces(score_stream, (*arrays, self.order, stream), (scores, lengths))
        check_log_probs(scores)
        return scores, lengths

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """As `LanguageModel.advance`."""
        tokens = self._known_for(state, tokens)
        return advance(self.table.words, self.table.begin, self.table.log_backoffs.size, state, tokens)

    @property
    def _unigrams(self) -> Float32[ndarray, " vocab"]:
        return self.table.log_probs[self.table.level(1)]

    def _tries(self, state: Contexts) -> Iterable[tuple[slice, Trie, Contexts]]:
        return ((slice(None), self._arrays(), state),)

    def _arrays(self) -> Trie:
        return self.table.words, self.table.log_probs, self.table.begin, self.table.log_backoffs
