"""KenLM's hash tables ("probing", and with rest costs), asked in their own pages, behind the waist.

Such a file holds a 64-bit hash for each n-gram and not its words.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.kenlm.hashed_model import HashedModel
from chainrule.ngram.kenlm.header import REST_PROBING, Binary, words_at
from chainrule.ngram.kenlm.probing_kernels import (
    HASHED,
    KIND,
    LONGEST_WIDTH,
    MIDDLE_WIDTH,
    NUMBERS,
    ORDER,
    TABLES,
    UNIGRAM_COUNT,
    UNIGRAM_WIDTH,
    UNIGRAMS,
    VOCABULARY_SIZE,
)
from chainrule.ngram.kenlm.word_queries import Record, record_of_vocabulary

if TYPE_CHECKING:
    from chainrule.text.vocabulary import Vocabulary

_LAYOUT, _VOCABULARY_LAYOUT = 0, 0  # the versions that are known
_VOCABULARY_ROW = 12  # bytes: a hash and a number
_PLAIN_WIDTHS, _REST_WIDTHS = (2, 4), (3, 5)  # in 32-bit numbers: of unigrams, and of the orders up to the highest


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
