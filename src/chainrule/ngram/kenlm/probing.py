"""Reads KenLM's hash tables ("probing", also with rest costs), which are queried in the mapped file itself.

Such a file holds a 64-bit hash for each n-gram instead of its words.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.kenlm.hashed_model import HashedModel
from chainrule.ngram.kenlm.header import REST_PROBING, Binary, read_words
from chainrule.ngram.kenlm.probing_kernels import (
    HASHED,
    KENLM_IDS,
    KIND,
    LONGEST_WIDTH,
    MIDDLE_WIDTH,
    ORDER,
    TABLES,
    UNIGRAM_COUNT,
    UNIGRAM_WIDTH,
    UNIGRAMS,
    VOCABULARY_SIZE,
)
from chainrule.ngram.kenlm.word_queries import Record, record_of_vocabulary

if TYPE_CHECKING:
    from chainrule.text.tokenization.vocabulary import Vocabulary

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
