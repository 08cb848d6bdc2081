"""KenLM's hash tables ("probing", also with rest costs) as a language model, queried in the mapped file itself.

Such a file holds a 64-bit hash for each n-gram instead of its words.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import ByDistributions, check_log_probs
from chainrule.base.threads import run_all
from chainrule.errors import SettingError
from chainrule.features.kenlm.files import word_query_kernels as kernels
from chainrule.features.kenlm.files.binary import REST_PROBING, Binary, read_words
from chainrule.features.kenlm.files.binary_kernels import (
    HASHED,
    KENLM_IDS,
    KIND,
    LONGEST_WIDTH,
    MIDDLE_WIDTH,
    ORDER,
    STATE_SIZE,
    TABLES,
    UNIGRAM_COUNT,
    UNIGRAM_WIDTH,
    UNIGRAMS,
    VOCABULARY_SIZE,
)
from chainrule.features.kenlm.files.word_queries import Record, queries, record_of_vocabulary
from chainrule.ngram.models.stream_scorer import StreamScorer, pieces_of
from chainrule.protocol import BEGIN, StreamScores

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table
    from chainrule.text.tokenization.vocabulary import Vocabulary

    States = Int64[ndarray, "rows state"]


class HashedModel(StreamScorer, ByDistributions["States"]):
    """P(w | the last N-1 tokens), from a hash table; `</s>` starts the next document."""

    why_no_table = (
        "this KenLM binary holds hashes of n-grams instead of their words, so it can be queried but not converted; "
        "convert its ARPA file, or a binary of type trie"
    )

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
        raise SettingError(self.why_no_table)

    @cached_property
    def _begin_state(self) -> Int64[ndarray, " state"]:
        state = np.zeros(STATE_SIZE, np.int64)
        queries().score_word(self.record.address, BEGIN, state.ctypes.data, state.ctypes.data)
        return state


_LAYOUT, _VOCABULARY_LAYOUT = 0, 0  # the supported versions
_VOCABULARY_ROW = 12  # bytes: a hash and a word id
_PLAIN_WIDTHS, _REST_WIDTHS = (2, 4), (3, 5)  # in 32-bit numbers: of unigrams, and of orders below the highest


def read_probing(binary: Binary) -> tuple[HashedModel, Vocabulary]:
    """The model and the vocabulary of a probing binary. Raises ModelFormatError."""
    binary.check_version(_LAYOUT)
    binary.check_size(binary.body + 8)
    version, bound = binary.data[binary.body : binary.body + 8].view("<u4").tolist()
    if version != _VOCABULARY_LAYOUT:
        binary.fail(f"version {version} of the hashed vocabulary", f"version {_VOCABULARY_LAYOUT}")
    if bound not in (binary.counts[0], binary.counts[0] + 1):  # one more where the ARPA file had no <unk>
        binary.fail(f"a vocabulary size of {bound:,}", f"{binary.counts[0]:,}, the number of 1-grams")
    unigram_width, middle_width = _REST_WIDTHS if binary.kind == REST_PROBING else _PLAIN_WIDTHS
    unigrams = binary.body + 8 + _VOCABULARY_ROW * _rows(binary, 1)
    offsets = [unigrams, unigrams + 4 * unigram_width * (binary.counts[0] + 1)]
    widths = [unigram_width]
    for order in range(2, binary.order + 1):
        widths.append(LONGEST_WIDTH if order == binary.order else middle_width)
        offsets.append(offsets[-1] + 4 * widths[-1] * _rows(binary, order))
    binary.check_size(offsets[-1])
    vocabulary, ours = read_words(binary, offsets[-1], bound)
    tables = [binary.data[start:stop] for start, stop in itertools.pairwise(offsets)]
    numbers, spelled = record_of_vocabulary(vocabulary)
    theirs = np.argsort(ours).astype(np.int32)
    numbers[KIND], numbers[ORDER] = HASHED, binary.order
    numbers[KENLM_IDS], numbers[VOCABULARY_SIZE] = theirs.ctypes.data, bound
    numbers[UNIGRAMS], numbers[UNIGRAM_COUNT] = tables[0].ctypes.data, binary.counts[0] + 1
    numbers[UNIGRAM_WIDTH], numbers[MIDDLE_WIDTH] = unigram_width, middle_width
    for order in range(2, binary.order + 1):
        numbers[TABLES + 2 * (order - 2)] = tables[order - 1].ctypes.data
        numbers[TABLES + 2 * (order - 2) + 1] = _rows(binary, order)
    record = Record(numbers, (*spelled, theirs, binary.data), binary.order)
    return HashedModel(record, bound, (bound, *binary.counts[1:])), vocabulary


def _rows(binary: Binary, order: int) -> int:
    """The number of rows in the table of an order; KenLM multiplies in single precision."""
    count = binary.counts[order - 1]
    return max(count + 1, int(np.float32(binary.multiplier) * np.float32(count)))
