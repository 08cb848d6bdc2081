"""Converts a table to a compact one, and back; see `table.py` of both rooms.

Works from bigrams up, since the ranks and the backoff of a context depend on its suffix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.memory import check_fits
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all
from chainrule.errors import ModelFormatError
from chainrule.ngram.compact.bits_kernels import write_ascending
from chainrule.ngram.compact.building_kernels import (
    apply_scales,
    encode,
    link_suffixes,
    settle_backoffs,
    unpack,
    write_runs,
)
from chainrule.ngram.compact.quantising import choose_values
from chainrule.ngram.compact.query_kernels import (
    FIRST_HIGH,
    FIRST_LOW,
    FIRST_WIDTH,
    RUN_HIGH,
    RUN_LOW,
    RUN_WIDTH,
    RUNS,
    SAMPLES,
)
from chainrule.ngram.compact.table import PADDING, VALUES, CompactTable, layout_of
from chainrule.ngram.trie.node_ranges import parts_of
from chainrule.ngram.trie.records import ROOT
from chainrule.ngram.trie.suffixes import check_trie, with_suffixes
from chainrule.ngram.trie.table import Table, build_table

if TYPE_CHECKING:
    from jaxtyping import Int, Int32, Int64, UInt64
    from numpy import ndarray

TASK = "compacting"
_DAMAGED = "the compact n-gram table is out of order; its file is damaged: try chainrule verify"


def compact_table(table: Table, progress: Progress = silent) -> CompactTable:
    """Quantises and packs a table, after adding missing suffixes.

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
    """The 64-bit words of one order of children and of their contexts."""
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
    """The fast table of a compact one; its probabilities stay quantised.

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
    """The memory for compacting: ranks and suffixes of two orders, scales, runs and the result."""
    inner = sum(table.level_sizes[:-1])
    return 17 * sum(table.level_sizes) + 20 * inner
