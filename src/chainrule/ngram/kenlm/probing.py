"""KenLM's hash tables ("probing", and with rest costs), asked in their own pages, behind the waist.

Such a file holds a 64-bit hash for each n-gram and not its words.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import run_all
from chainrule.errors import SettingError
from chainrule.ngram.kenlm import hashed_model_kernels as kernels
from chainrule.ngram.kenlm.header import REST_PROBING, Binary, words_at
from chainrule.ngram.kenlm.probing_kernels import (
    HASHED,
    KIND,
    LONGEST_WIDTH,
    MIDDLE_WIDTH,
    NUMBERS,
    ORDER,
    STATE_SIZE,
    TABLES,
    UNIGRAM_COUNT,
    UNIGRAM_WIDTH,
    UNIGRAMS,
    VOCABULARY_SIZE,
)
from chainrule.ngram.kenlm.word_queries import Record, queries, record_of_vocabulary
from chainrule.ngram.models.stream_scorer import StreamScorer, pieces_of
from chainrule.protocol import BEGIN, ByDistributions, StreamScores, check_log_probs

if TYPE_CHECKING:
    from jaxtyping import Float32, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table
    from chainrule.text.vocabulary import Vocabulary

    States = Int64[ndarray, "rows state"]

_LAYOUT, _VOCABULARY_LAYOUT = 0, 0  # the versions that are known
_VOCABULARY_ROW = 12  # bytes: a hash and a number
_PLAIN_WIDTHS, _REST_WIDTHS = (2, 4), (3, 5)  # in 32-bit numbers: of unigrams, and of the orders up to the highest


class HashedModel(StreamScorer, ByDistributions["States"]):
    """P(w | the last N-1 tokens), from a hash table; `</s>` starts the next document."""

    def __init__(self, record: Record, vocabulary_size: int, level_sizes: tuple[int, ...]) -> None:
        self.record, self.vocabulary_size, self.level_sizes = record, vocabulary_size, level_sizes

    @property
    def order(self) -> int:
        return self.record.order

    def score_stream_with_lengths(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """As `StreamScorer.score_stream_with_lengths`."""
        scores, lengths, _ = self._scored(stream, unknown=False)
        return scores, lengths

    def score_stream_in_full(self, stream: Int32[ndarray, " tokens"]) -> StreamScores:
        """As `StreamScorer.score_stream_in_full`."""
        return self._scored(stream, unknown=True)

    def _scored(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """unknown: whether <unk> is scored at all places, too."""
        stream = self._known(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        found = StreamScores(scores, lengths, np.empty(stream.size if unknown else 0, np.float32))
        pieces = pieces_of(stream)
        states = np.zeros((len(pieces), 2, STATE_SIZE), np.int64)
        calls = [
            (self.record.address, stream, *piece, self._begun, *(state.ctypes.data for state in pair), *found)
            for piece, pair in zip(pieces, states, strict=True)
        ]
        run_all(kernels.score_stream, calls)
        check_log_probs(scores)
        check_log_probs(found.unknown_log_probs)
        return found

    def next_log_probs(self, state: States) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""
        rows = np.empty((len(state), self.vocabulary_size), np.float32)
        scratch = np.zeros(STATE_SIZE, np.int64)
        state = np.ascontiguousarray(state)
        where = state, state.ctypes.data, scratch.ctypes.data
        kernels.distributions(self.record.address, *where, rows)
        check_log_probs(rows)
        return rows

    def advance(self, state: States, tokens: Int32[ndarray, " rows"]) -> States:
        """As `LanguageModel.advance`."""
        tokens = self._known_for(state, tokens)
        after = np.ascontiguousarray(state).copy()
        kernels.advance(self.record.address, after, after.ctypes.data, tokens, self._begun)
        return after

    @property
    def table(self) -> Table:
        """What a model folder or an ARPA file would be made of. Raises SettingError: there is no knowing the words."""
        raise SettingError(
            "this binary of KenLM's holds hashes of n-grams and not their words, so that it can be asked but not be "
            "converted; convert its ARPA file, or a binary of type trie"
        )

    @cached_property
    def _begun(self) -> Int64[ndarray, " state"]:
        state = np.zeros(STATE_SIZE, np.int64)
        queries().score_word(self.record.address, BEGIN, state.ctypes.data, state.ctypes.data)
        return state


def read_probing(binary: Binary) -> tuple[HashedModel, Vocabulary]:
    """Raises ModelFormatError."""
    binary.check_version(_LAYOUT)
    binary.check_size(binary.body + 8)
    version, bound = binary.data[binary.body : binary.body + 8].view("<u4").tolist()
    if version != _VOCABULARY_LAYOUT:
        binary.fail(f"version {version} of the hashed vocabulary", f"version {_VOCABULARY_LAYOUT}")
    if bound not in (binary.counts[0], binary.counts[0] + 1):  # one more where the ARPA file had no <unk>
        binary.fail(f"a vocabulary of {bound:,}", f"{binary.counts[0]:,}, as there are 1-grams")
    unigram_width, middle_width = _REST_WIDTHS if binary.kind == REST_PROBING else _PLAIN_WIDTHS
    unigrams = binary.body + 8 + _VOCABULARY_ROW * _rows(binary, 1)
    places = [unigrams, unigrams + 4 * unigram_width * (binary.counts[0] + 1)]
    widths = [unigram_width]
    for order in range(2, binary.order + 1):
        widths.append(LONGEST_WIDTH if order == binary.order else middle_width)
        places.append(places[-1] + 4 * widths[-1] * _rows(binary, order))
    binary.check_size(places[-1])
    vocabulary, ours = words_at(binary, places[-1], bound)
    tables = [binary.data[start:stop] for start, stop in itertools.pairwise(places)]
    numbers, spelled = record_of_vocabulary(vocabulary)
    theirs = np.argsort(ours).astype(np.int32)
    numbers[KIND], numbers[ORDER] = HASHED, binary.order
    numbers[NUMBERS], numbers[VOCABULARY_SIZE] = theirs.ctypes.data, bound
    numbers[UNIGRAMS], numbers[UNIGRAM_COUNT] = tables[0].ctypes.data, binary.counts[0] + 1
    numbers[UNIGRAM_WIDTH], numbers[MIDDLE_WIDTH] = unigram_width, middle_width
    for order in range(2, binary.order + 1):
        numbers[TABLES + 2 * (order - 2)] = tables[order - 1].ctypes.data
        numbers[TABLES + 2 * (order - 2) + 1] = _rows(binary, order)
    record = Record(numbers, (*spelled, theirs, binary.data), binary.order)
    return HashedModel(record, bound, (bound, *binary.counts[1:])), vocabulary


def _rows(binary: Binary, order: int) -> int:
    """How long the table of an order is: KenLM multiplies in single precision."""
    count = binary.counts[order - 1]
    return max(count + 1, int(np.float32(binary.multiplier) * np.float32(count)))
