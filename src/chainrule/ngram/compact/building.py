"""Converts a fast n-gram table to a compact one, with quantised probabilities, and back.

The tables are described in `ngram/trie/table.py` and `ngram/compact/table.py`. Conversion works from bigrams up, since
the ranks and the backoff of a context depend on its suffix.

Quantisation by the Lloyd-Max algorithm minimises the squared error of the log-odds, log p / (1 - p): for small
probabilities, the error of log p; close to one, that of log (1 - p), on which backoffs depend. S. P. Lloyd, "Least
squares quantization in PCM" (1957, 1982); J. Max (1960).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.memory import check_fits
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all
from chainrule.errors import ModelFormatError
from chainrule.ngram.compact.building_kernels import (
    apply_scales,
    encode,
    link_suffixes,
    settle_backoffs,
    unpack,
    write_runs,
)
from chainrule.ngram.compact.query_kernels import (
    FIRST_HIGH,
    FIRST_LOW,
    FIRST_WIDTH,
    RUN_HIGH,
    RUN_LOW,
    RUN_WIDTH,
    RUNS,
    SAMPLES,
    write_ascending,
)
from chainrule.ngram.compact.table import PADDING, VALUES, CompactTable, layout_of
from chainrule.ngram.trie.assembly import check_trie, with_suffixes
from chainrule.ngram.trie.table import ROOT, Table, build_table, parts_of

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int, Int32, Int64, UInt64
    from numpy import ndarray

_SAMPLE = 1 << 20  # log-probabilities suffice
_CELLS = 1 << 12  # of the histogram for the initial values
_ROUNDS = 40
_BOUNDS = -1000.0, 40.0  # of log-odds; values beyond are clipped


def choose_values(
    log_probs: Float32[ndarray, " ngrams"], size: int
) -> tuple[Float32[ndarray, " size"], Float32[ndarray, " size-1"]]:
    """Return `size` ascending values for log-probabilities, and the edges between them.

    A value represents the numbers from the edge below it, inclusive, to the edge above it, exclusive. If there are only
    a few distinct numbers, these are the values; -inf is a separate value.
    """
    step = max(1, log_probs.size // _SAMPLE)
    sample = np.sort(log_probs[::step])
    sample = sample[~np.isneginf(sample)]
    has_zero = bool(np.isneginf(log_probs).any())
    finite_size = size - has_zero
    distinct = np.unique(sample)
    is_exact = step == 1 and distinct.size <= finite_size
    finite = distinct if is_exact else log_probs_at(_lloyd(log_odds(sample), finite_size))
    values = np.concatenate([np.full(int(has_zero), -np.inf, np.float32), finite]).astype(np.float32)
    odds = log_odds(values)
    edges = log_probs_at((odds[1:] + odds[:-1]) / 2)
    if has_zero and edges.size:
        edges[0] = np.finfo(np.float32).min
    missing = size - values.size
    values = np.concatenate([values, np.zeros(missing, np.float32)])
    return values, np.concatenate([edges, np.full(size - 1 - edges.size, np.inf, np.float32)])


def log_odds(log_probs: Float32[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Return log p / (1 - p), clipped to _BOUNDS."""
    wide = np.minimum(log_probs.astype(np.float64), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = wide - np.log(-np.expm1(wide))
    return np.clip(odds, *_BOUNDS)


def log_probs_at(odds: Float64[ndarray, " n"]) -> Float32[ndarray, " n"]:
    """Return the log-probabilities that have these log-odds."""
    return (-np.logaddexp(0.0, -odds)).astype(np.float32)


def _lloyd(odds: Float64[ndarray, " n"], size: int) -> Float64[ndarray, " size"]:
    """Return the values for ascending log-odds: each becomes the mean of the numbers nearest to it.

    The initial values have a density proportional to the cube root of that of the numbers, which is optimal for many
    values (Panter and Dite 1951).
    """
    counts, borders = np.histogram(odds, _CELLS)
    density = np.concatenate([[0.0], np.cumsum(np.cbrt(counts))])
    values = np.interp((np.arange(size) + 0.5) / size * density[-1], density, borders)
    sums = np.concatenate([[0.0], np.cumsum(odds)])
    for _ in range(_ROUNDS):
        edges = np.concatenate([[0], np.searchsorted(odds, (values[1:] + values[:-1]) / 2), [odds.size]])
        sizes = np.diff(edges)
        values = np.where(sizes > 0, np.diff(sums[edges]) / np.maximum(sizes, 1), values)
    return values


TASK = "compacting"
_DAMAGED = "the compact n-gram table is out of order; its file is damaged: try chainrule verify"


def compact_table(table: Table, progress: Progress = silent) -> CompactTable:
    """Quantise and pack a table, after adding missing suffixes.

    Raises ModelFormatError where the table is damaged, EstimationError where there is not enough memory.
    """
    sizes = table.level_sizes
    check_fits(_bytes_needed(table), f"compacting {sum(sizes):,} n-grams")
    check_trie(table)
    done, total = 0, sum(sizes[1:])
    progress(TASK, done, total)
    values = np.zeros((table.order - 1, VALUES), np.float32)
    codes = np.empty(total, np.uint8)
    quantised = table.log_probs.copy()
    suffixes = np.zeros(sizes[0], np.int32 if table.words.size < 2**31 else np.int64)  # of the unigrams: the root
    run_bits: list[int] = []
    words_by_order: list[ndarray] = []
    for order in range(2, table.order + 1):
        contexts, level = table.level(order - 1), table.level(order)
        ranks, links = np.empty(sizes[order - 1], np.int32), np.empty(sizes[order - 1], suffixes.dtype)
        linked = [
            (table.words, table.begin, contexts.start, start, stop, suffixes, level.start, ranks, links)
            for start, stop in parts_of(contexts)
        ]
        if any(run_all(link_suffixes, linked)):
            return compact_table(with_suffixes(table)[0], progress)
        values[order - 2], edges = choose_values(table.log_probs[level], VALUES)
        level_codes = codes[level.start - 1 - sizes[0] : level.stop - 1 - sizes[0]]
        run_all(
            encode,
            [(table.log_probs[a:b], edges, level_codes[a - level.start : b - level.start]) for a, b in parts_of(level)],
        )
        quantised[level] = values[order - 2][level_codes]
        stored, runs = np.empty(sizes[order - 2], np.int64), np.empty(sizes[order - 2], np.int64)
        arrays = table.log_probs, table.begin, table.log_backoffs, quantised
        run_all(
            settle_backoffs,
            [
                (*arrays, contexts.start, start, stop, suffixes, level.start, links, stored, runs)
                for start, stop in parts_of(contexts)
            ],
        )
        run(apply_scales, table.begin, contexts.start, stored, quantised)
        words_by_order.append(
            _pack_order(table, order, suffixes, ranks, stored, np.concatenate([[0], np.cumsum(runs)]))
        )
        run_bits.append(int(runs.sum()))
        suffixes = links
        done += sizes[order - 1]
        progress(TASK, done, total)
    bits = np.concatenate([*words_by_order, np.zeros(PADDING, np.uint64)])
    return CompactTable(sizes, tuple(run_bits), table.log_probs[table.level(1)].copy(), values, codes, bits)


def _pack_order(
    table: Table,
    order: int,
    suffixes: Int[ndarray, " contexts"],
    ranks: Int32[ndarray, " children"],
    stored: Int64[ndarray, " contexts"],
    starts: Int64[ndarray, " contexts+1"],
) -> UInt64[ndarray, " words"]:
    """Return the 64-bit words of one order of children and of their contexts."""
    contexts, child = table.level(order - 1), table.level(order).start
    (location,), size = layout_of(table.level_sizes[order - 2 : order], [int(starts[-1])])
    bits = np.zeros(size, np.uint64)
    begins = table.begin[contexts.start : contexts.stop + 1].astype(np.int64) - child
    samples = location[SAMPLES]
    run(write_ascending, begins, bits, location[FIRST_HIGH], location[FIRST_LOW], location[FIRST_WIDTH], samples, 0)
    run(write_ascending, starts, bits, location[RUN_HIGH], location[RUN_LOW], location[RUN_WIDTH], samples, 1)
    run(write_runs, table.begin, contexts.start, suffixes, child, ranks, stored, 64 * location[RUNS], bits)
    return bits[:-PADDING]


def unpack_table(compact: CompactTable, progress: Progress = silent) -> Table:
    """Return the fast table of a compact one; its probabilities stay quantised.

    Raises ModelFormatError where the table is damaged, EstimationError where there is not enough memory.
    """
    sizes = compact.level_sizes
    nodes, inner = 1 + sum(sizes), 1 + sum(sizes[:-1])
    check_fits(20 * nodes + 12 * inner, f"unpacking {sum(sizes):,} n-grams")
    kind = np.int32 if nodes < 2**31 else np.int64
    words, log_probs = np.zeros(nodes, np.int32), np.zeros(nodes, np.float32)
    begin, log_backoffs = np.full(inner + 1, nodes, kind), np.zeros(inner, np.float32)
    words[1 : 1 + sizes[0]], log_probs[1 : 1 + sizes[0]] = np.arange(sizes[0]), compact.unigrams
    begin[ROOT], begin[ROOT + 1] = 1, 1 + sizes[0]
    suffixes, scales, first = np.zeros(sizes[0], kind), np.zeros(1), ROOT
    done = 0
    for order, location in enumerate(compact.layout, 2):
        progress("unpacking", done, sum(sizes[1:]))
        links, own_scales = np.zeros(sizes[order - 1], kind), np.zeros(sizes[order - 2])
        contexts_end = 1 + sum(sizes[: order - 1])
        begin[contexts_end] = contexts_end + sizes[order - 1]
        is_sound = run(
            unpack,
            *compact.parts,
            location,
            order,
            suffixes,
            scales,
            first,
            words,
            log_probs,
            begin,
            log_backoffs,
            links,
            own_scales,
        )
        if not is_sound:
            raise ModelFormatError(_DAMAGED)
        suffixes, scales, first = links, own_scales, 1 + sum(sizes[: order - 2])
        done += sizes[order - 1]
    progress("unpacking", done, done)
    return build_table(sizes, words, log_probs, begin, log_backoffs)


def _bytes_needed(table: Table) -> int:
    """Return the memory for compacting: ranks and suffixes of two orders, scales, runs and the result."""
    inner = sum(table.level_sizes[:-1])
    return 17 * sum(table.level_sizes) + 20 * inner
