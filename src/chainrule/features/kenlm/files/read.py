"""Reads a binary of KenLM's build_binary: tries become n-gram tables, hash tables are queried as they are.

Tries may be quantised or not, with compressed pointers or not. They are reversed: the children of a node are the words
that precede it. So the n-grams of an order are read with all their words, and sorted anew, like those of an ARPA file.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all
from chainrule.errors import ModelFormatError
from chainrule.features.kenlm.files.binary import (
    ARRAY_TRIE,
    LOG_10,
    PROBING,
    QUANTISED_ARRAY_TRIE,
    QUANTISED_TRIE,
    REST_PROBING,
    Binary,
    check_numbers,
    open_binary,
    read_words,
)
from chainrule.features.kenlm.files.binary_kernels import add_high_parts, are_ascending, prepend_words, unpack
from chainrule.features.kenlm.files.probing import read_probing
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.trie.assembly import DuplicateNgramError, Extra, Trie, complete_trie
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    import os

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.features.kenlm.files.probing import HashedModel
    from chainrule.ngram.trie.table import Table
    from chainrule.text.tokenization.vocabulary import Vocabulary

TASK = "reading KenLM's trie"
_LAYOUT, _QUANTISATION, _ARRAY = 1, 2, 0  # the supported versions
_MAX_BITS = 25  # of a quantised number
_PIECES = 64
_UNIGRAM = np.dtype([("log10_prob", "<f4"), ("log10_backoff", "<f4"), ("next", "<u8")])


@dataclass(frozen=True)
class _Bins:
    """The values of quantised numbers, by order from bigrams up; the highest order has no backoffs."""

    prob_bits: int
    backoff_bits: int
    log10_probs: tuple[Float32[ndarray, " bins"], ...]
    log10_backoffs: tuple[Float32[ndarray, " bins"], ...]


@dataclass(frozen=True)
class _Level:
    """Where the n-grams of an order lie in the file; for bigrams and up."""

    order: int
    size: int
    base: int  # the offset of its entries in bytes
    word_bits: int
    value_bits: int
    next_bits: int  # the low bits of the pointer to the first child; 0 at the highest order
    high_parts: slice | None  # the bytes of the table of the pointers' high bits, if compressed


def read_trie(binary: Binary, progress: Progress = silent) -> tuple[Table, Vocabulary]:
    """The table and the vocabulary of a trie binary. Raises ModelFormatError."""
    binary.check_version(_LAYOUT)
    bins, unigrams, levels, stop = _layout(binary)
    vocabulary, ours = read_words(binary, stop, binary.counts[0])
    values = binary.data[unigrams : unigrams + (binary.counts[0] + 1) * _UNIGRAM.itemsize].view(_UNIGRAM)
    total = sum(binary.counts)
    log10_probs, log10_backoffs = np.empty((2, len(ours)), np.float32)
    log10_probs[ours], log10_backoffs[ours] = values["log10_prob"][:-1], values["log10_backoff"][:-1]
    log10_probs[BEGIN] = 0
    check_numbers(binary, log10_probs, log10_backoffs)
    log_probs = log10_probs * np.float32(LOG_10)
    log_probs[BEGIN] = -np.inf
    trie = Trie(log_probs, log10_backoffs * np.float32(LOG_10), node_limit=total + 2)
    begins, rows = values["next"].astype(np.int64), ours[:, None].copy()
    orphans: dict[int, Extra] = {}
    done = binary.counts[0]
    try:
        for level in levels:
            progress(TASK, done, total)
            if not run(are_ascending, begins, level.size):
                binary.fail(
                    f"{level.order}-grams out of order", "the children of each node after those of the one before"
                )
            rows, begins = _rows(binary, level, rows, begins, ours)
            orphans[level.order] = _add_level(binary, level, bins, rows, trie)
            done += level.size
        table = complete_trie(trie, orphans).table()
    except DuplicateNgramError as error:
        ngram = b" ".join(vocabulary.token_bytes(word) for word in error.ngram).decode()
        raise ModelFormatError(
            f"{binary.path}: found the n-gram {ngram!r} twice, expected it once; build the binary again"
        ) from error
    progress(TASK, total, total)
    return table, vocabulary


def _rows(
    binary: Binary,
    level: _Level,
    rows_before: Int32[ndarray, "suffixes order-1"],
    begins: Int64[ndarray, " suffixes+1"],
    ours: Int32[ndarray, " vocab"],
) -> tuple[Int32[ndarray, "ngrams order"], Int64[ndarray, " ngrams+1"]]:
    """The words of all n-grams of an order, and the index of the first child of each."""
    words = _unpack_field(binary, level, 0, level.word_bits, np.int32)
    if words.size and words.max() >= len(ours):
        binary.fail(f"word id {words.max()} in a {level.order}-gram", f"less than {len(ours)}")
    rows = np.empty((level.size, level.order), np.int32)
    run(prepend_words, ours[words], np.repeat(np.arange(len(rows_before)), np.diff(begins)), rows_before, rows)
    if level.order == binary.order:
        return rows, np.empty(0, np.int64)
    begins = _unpack_field(binary, level, level.word_bits + level.value_bits, level.next_bits, np.int64, one_more=True)
    if level.high_parts is not None:
        run(add_high_parts, binary.data[level.high_parts].view("<u8"), level.next_bits, begins)
    return rows, begins


def _add_level(
    binary: Binary, level: _Level, bins: _Bins | None, rows: Int32[ndarray, "ngrams order"], trie: Trie
) -> Extra:
    """Adds an order to the trie; returns the n-grams whose contexts are missing. Raises DuplicateNgramError."""
    log10_probs, log10_backoffs = _values(binary, level, bins)
    check_numbers(binary, log10_probs, log10_backoffs)
    log_probs, log_backoffs = log10_probs * np.float32(LOG_10), log10_backoffs * np.float32(LOG_10) + np.float32(0)
    matchable = (rows[:, 1:] != BEGIN).all(axis=1)  # no query matches <s> after the first word
    if not matchable.all():
        rows, log_probs = rows[matchable], log_probs[matchable]
        log_backoffs = log_backoffs[matchable] if log_backoffs.size else log_backoffs
    contexts = trie.nodes_of(rows, level.order - 1)
    missing = contexts == NO_NODE
    orphans = Extra.blanks(np.empty((0, level.order), np.int32))
    if missing.any():
        backoffs = log_backoffs[missing] if log_backoffs.size else np.zeros(np.count_nonzero(missing), np.float32)
        orphans = Extra(rows[missing], log_probs[missing], backoffs)
        rows, contexts, log_probs = rows[~missing], contexts[~missing], log_probs[~missing]
        log_backoffs = log_backoffs[~missing] if log_backoffs.size else log_backoffs
    trie.add_level(contexts, np.ascontiguousarray(rows[:, -1]), log_probs, log_backoffs)
    return orphans


def _values(
    binary: Binary, level: _Level, bins: _Bins | None
) -> tuple[Float32[ndarray, " ngrams"], Float32[ndarray, " ngrams"]]:
    """log10 probabilities and backoffs; the latter array is empty at the highest order."""
    is_highest = level.order == binary.order
    nothing = np.empty(0, np.float32)
    first = level.word_bits
    if bins is None:
        log10_probs = -_unpack_field(binary, level, first, 31, np.uint32).view(np.float32)
        return log10_probs, nothing if is_highest else _unpack_field(binary, level, first + 31, 32, np.uint32).view(
            np.float32
        )
    backoff_bits = 0 if is_highest else bins.backoff_bits
    bins_used = _unpack_field(binary, level, first + backoff_bits, bins.prob_bits, np.int32)
    log10_probs = bins.log10_probs[level.order - 2][bins_used]
    if is_highest:
        return log10_probs, nothing
    bins_used = _unpack_field(binary, level, first, backoff_bits, np.int32)
    return log10_probs, bins.log10_backoffs[level.order - 2][bins_used]


def _unpack_field(
    binary: Binary, level: _Level, first: int, width: int, dtype: type[np.generic], *, one_more: bool = False
) -> ndarray:
    """`width` bits of each entry, from bit `first` on.

    one_more: also of the entry that ends the last one's children.
    """
    stride = level.word_bits + level.value_bits + level.next_bits
    out = np.empty(level.size + one_more, dtype)
    edges = np.linspace(0, out.size, min(_PIECES, out.size // 4096 + 1) + 1).astype(np.int64).tolist()
    fixed = binary.data, level.base, first, stride, width
    run_all(unpack, [(*fixed, start, stop, out) for start, stop in itertools.pairwise(edges)])
    return out


def _layout(binary: Binary) -> tuple[_Bins | None, int, list[_Level], int]:
    """The quantisation, the offset of the unigrams, the levels of the other orders, and the offset of their end."""
    offset = binary.body + 8 + 8 * binary.counts[0]
    binary.check_size(offset)
    hashed = int(binary.data[binary.body : binary.body + 8].view("<u8")[0])
    if hashed != binary.counts[0] - 1:
        binary.fail(f"{hashed:,} hashed words", f"{binary.counts[0] - 1:,}, one for each 1-gram except <unk>")
    bins, offset = _bins(binary, offset)
    unigrams = offset
    offset += (binary.counts[0] + 2) * _UNIGRAM.itemsize
    levels = []
    word_bits = binary.counts[0].bit_length()
    max_bits = None  # stored in the table of high parts at most; the value of the first level holds for all
    for order, size in enumerate(binary.counts[1:], start=2):
        high_parts, next_bits = None, 0
        if order < binary.order:
            next_bits = binary.counts[order].bit_length()
            if binary.kind in (ARRAY_TRIE, QUANTISED_ARRAY_TRIE):
                max_bits = _max_high_bits(binary, offset) if max_bits is None else max_bits
                chopped = _chopped_bits(size + 1, binary.counts[order], max_bits)
                next_bits -= chopped
                first = offset + -offset % 8 + 8
                high_parts = slice(first, first + 8 * ((binary.counts[order] >> next_bits) + 1))
                offset += 8 + (high_parts.stop - high_parts.start) + 7
        if bins is None:
            value_bits = 63 if order < binary.order else 31
        else:
            value_bits = bins.prob_bits + (bins.backoff_bits if order < binary.order else 0)
        levels.append(_Level(order, size, offset, word_bits, value_bits, next_bits, high_parts))
        offset += ((1 + size) * (word_bits + value_bits + next_bits) + 7) // 8 + 8
        binary.check_size(offset)
    return bins, unigrams, levels, offset


def _bins(binary: Binary, offset: int) -> tuple[_Bins | None, int]:
    """The values of quantised numbers, if there are any; and the offset after them."""
    if binary.kind not in (QUANTISED_TRIE, QUANTISED_ARRAY_TRIE):
        return None, offset
    binary.check_size(offset + 8)
    version, prob_bits, backoff_bits = binary.data[offset : offset + 3].tolist()
    if version != _QUANTISATION:
        binary.fail(f"version {version} of quantisation", f"version {_QUANTISATION}")
    if not (1 <= prob_bits <= _MAX_BITS and 1 <= backoff_bits <= _MAX_BITS):
        binary.fail(f"quantised numbers of {prob_bits} and {backoff_bits} bits", f"1 to {_MAX_BITS}")
    offset += 8
    log10_probs: list[ndarray] = []
    log10_backoffs: list[ndarray] = []
    for order in range(2, binary.order + 1):
        for bits, tables in ((prob_bits, log10_probs), (backoff_bits, log10_backoffs)):
            if tables is log10_backoffs and order == binary.order:
                continue
            stop = offset + 4 * (1 << bits)
            binary.check_size(stop)
            tables.append(binary.data[offset:stop].view("<f4"))
            offset = stop
    return _Bins(prob_bits, backoff_bits, tuple(log10_probs), tuple(log10_backoffs)), offset


def _max_high_bits(binary: Binary, offset: int) -> int:
    binary.check_size(offset + 8)
    version, bits = binary.data[offset : offset + 2].tolist()
    if version != _ARRAY:
        binary.fail(f"version {version} of array compression", f"version {_ARRAY}")
    return int(bits)


def _chopped_bits(entries: int, largest: int, max_bits: int) -> int:
    """How many high bits of the pointers are in the table: the number that minimises the total size."""
    required = largest.bit_length()
    sizes = [(largest >> (required - bits)) * 64 - entries * bits for bits in range(min(required, max_bits) + 1)]
    return sizes.index(min(sizes))


def read_binary(
    path: str | os.PathLike[str], progress: Progress = silent
) -> tuple[NGramModel | HashedModel, Vocabulary]:
    """The model and the vocabulary of a binary. Raises ModelFormatError."""
    binary = open_binary(path)
    if binary.kind in (PROBING, REST_PROBING):
        return read_probing(binary)
    table, vocabulary = read_trie(binary, progress)
    return NGramModel(table), vocabulary
