"""Builds the sorted trie of `table.py` level by level, from n-grams in any order; adds missing ones; checks tables.

The suffix of an n-gram is the n-gram without its first word. Its probability is the one to back off to. As in KenLM, if
the suffix or context of an n-gram is missing, it is added as a blank: an n-gram with the probability that backing off
gives, and a backoff of one. No score changes, but longer n-grams match. A table that comes from a file is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run, run_all, thread_count
from chainrule.errors import ModelFormatError
from chainrule.ngram.trie.assembly_kernels import (
    POSITION_BITS,
    count_children,
    find_nodes,
    find_suffixes,
    first_disorder,
    group_keys,
    is_ascending,
    sort_groups,
    write_sorted,
)
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.ngram.trie.table import Table, build_index, level_slice, narrowest, no_suffixes, pack_records, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray


class DuplicateNgramError(ValueError):
    """An n-gram occurs twice."""

    def __init__(self, ngram: Sequence[int]) -> None:
        self.ngram = list(ngram)
        super().__init__(f"the n-gram {self.ngram} occurs twice")


@dataclass(frozen=True)
class Extra:
    """N-grams of one order that are added after the others: orphans, whose contexts are missing, and blanks.

    log_probs: NaN for a blank, which gets its probability once all lower orders are complete.
    """

    rows: Int32[ndarray, "ngrams order"]
    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " ngrams"]

    @classmethod
    def blanks(cls, rows: Int32[ndarray, "ngrams order"]) -> Extra:
        return cls(rows, np.full(len(rows), np.nan, np.float32), np.zeros(len(rows), np.float32))

    def __add__(self, other: Extra) -> Extra:
        return Extra(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.log_probs, other.log_probs]),
            np.concatenate([self.log_backoffs, other.log_backoffs]),
        )


class Trie:
    """A table that grows by a level at a time. `missing` lists the suffixes to be added by `complete_trie`."""

    def __init__(
        self,
        log_probs: Float32[ndarray, " vocabulary"],
        log_backoffs: Float32[ndarray, " vocabulary"],
        *,
        node_limit: int,
    ) -> None:
        """Begin with the unigrams.

        log_probs, log_backoffs: of the unigrams, in nats. node_limit: the largest possible number of nodes.
        """
        size = log_probs.size
        self.level_sizes = [size]
        self.index = narrowest(node_limit)
        self.words = np.concatenate([[0], np.arange(size)], dtype=np.int32, casting="same_kind")
        self.log_probs = np.concatenate([[0], log_probs], dtype=np.float32, casting="same_kind")
        self.log_backoffs = np.concatenate([[0], log_backoffs], dtype=np.float32, casting="same_kind")
        self.begin = np.array([1, 1 + size], self.index)
        self.slots = np.empty(0, self.index)  # see `build_index`
        # By level, from the root on.
        self.suffixes: list[Int[ndarray, " ngrams"]] = [np.zeros(1, self.index), np.zeros(size, self.index)]
        self.missing: dict[int, Int32[ndarray, "ngrams order"]] = {}  # by order, the missing suffixes

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    def table(self) -> Table:
        inner = self.words.size - self.level_sizes[-1]
        records = pack_records(self.words, self.log_probs, self.begin, self.log_backoffs[:inner])
        suffixes = no_suffixes(self.begin) if self.missing else np.concatenate(self.suffixes)
        return Table(tuple(self.level_sizes), *records, self.slots, suffixes)

    def nodes_of(self, rows: Int32[ndarray, "ngrams order"], length: int) -> Int[ndarray, " ngrams"]:
        """Return the nodes of the first `length` words of each row, or NO_NODE. Words must be in the vocabulary."""
        nodes = np.empty(len(rows), self.index)
        find_nodes(self.words, self.begin, self.slots, rows, length, nodes)
        return nodes

    def add_level(
        self,
        contexts: Int[ndarray, " ngrams"],
        words: Int32[ndarray, " ngrams"],
        log_probs: Float32[ndarray, " ngrams"],
        log_backoffs: Float32[ndarray, " ngrams"],
    ) -> Int[ndarray, " ngrams"] | None:
        """Add all n-grams of the next order: context nodes and words; log_backoffs is empty at the highest order.

        Returns for each node of the level its index among the given n-grams, or None if they were sorted already.
        Raises DuplicateNgramError.
        """
        first_node = self.words.size
        first_context = first_node - self.level_sizes[-1]
        parts = parts_of(slice(0, words.size), thread_count())
        counts = run_all(count_children, [(contexts, *part, first_context, self.level_sizes[-1]) for part in parts])
        begin = np.full(self.level_sizes[-1] + 1, first_node, self.index)
        begin[1:] += np.cumsum(sum(counts, start=np.zeros(begin.size - 1, np.int64)), dtype=self.index)
        source_indices = None
        if not run(is_ascending, contexts, words):
            keys = np.empty(words.size, np.int64)
            cursor = begin[:-1] - first_node  # the index of each context's next key
            calls = []
            for part, part_counts in zip(parts, counts, strict=True):
                calls.append((contexts, words, *part, first_context, cursor.copy(), keys))
                cursor += part_counts
            run_all(group_keys, calls)
            context_parts = [(keys, begin, first_node, *part) for part in parts_of(slice(0, begin.size - 1))]
            duplicate = max(run_all(sort_groups, context_parts), default=-1)
            if duplicate >= 0:
                index = keys[duplicate] & ((1 << POSITION_BITS) - 1)
                raise DuplicateNgramError([*self.ngram(int(contexts[index])), int(words[index])])
            unsorted = log_probs, log_backoffs
            words, log_probs, log_backoffs = (np.empty_like(array) for array in (words, log_probs, log_backoffs))
            outputs = words, log_probs, log_backoffs
            run_all(
                write_sorted,
                [(keys, start, stop, *unsorted, *outputs) for start, stop in parts_of(slice(0, keys.size))],
            )
            source_indices = keys
            source_indices &= (1 << POSITION_BITS) - 1
        self.level_sizes.append(words.size)
        self.words = np.concatenate([self.words, words])
        self.log_probs = np.concatenate([self.log_probs, log_probs])
        self.log_backoffs = np.concatenate([self.log_backoffs, log_backoffs])
        self.begin = np.concatenate([self.begin[:-1], begin])
        self.slots = build_index(self.words, self.begin)
        self._find_suffixes(first_context)
        return source_indices

    def ngram(self, node: int) -> list[int]:
        """Return the words of the n-gram of a node."""
        ends = np.cumsum([1, *self.level_sizes]).tolist()
        order = next(n for n, end in enumerate(ends) if node < end)
        spelled = [int(self.words[node])]
        for _ in range(order - 1):
            node = int(np.searchsorted(self.begin, self.index(node), side="right")) - 1
            spelled.append(int(self.words[node]))
        return spelled[::-1]

    def _find_suffixes(self, first_context: int) -> None:
        """Append the suffixes of the newest level, and list the missing ones in `missing`."""
        size, contexts = self.level_sizes[-1], self.level_sizes[-2]
        if self.order == 2:
            self.suffixes.append(1 + self.words[-size:].astype(self.index) if size else np.empty(0, self.index))
            return
        suffixes = np.empty(size, self.index)
        fixed = self.words, self.begin, first_context
        calls = [(*fixed, start, stop, self.suffixes[-1], suffixes) for start, stop in parts_of(slice(0, contexts))]
        if sum(run_all(find_suffixes, calls)):
            nodes = np.flatnonzero(suffixes == NO_NODE) + self.words.size - size
            self.missing[self.order - 1] = self._rows(nodes)[:, 1:]
        self.suffixes.append(suffixes)

    def _rows(self, nodes: Int[ndarray, " ngrams"]) -> Int32[ndarray, "ngrams order"]:
        """Return the words of the n-grams of nodes of the highest level."""
        rows = np.empty((len(nodes), self.order), np.int32)
        for k in range(self.order - 1, -1, -1):
            rows[:, k] = self.words[nodes]
            nodes = np.searchsorted(self.begin, nodes.astype(self.index), side="right") - 1
        return rows


def complete_trie(trie: Trie, orphans: dict[int, Extra]) -> Trie:
    """Return the trie with the orphans, n-grams whose contexts are missing, by order, and with all blanks.

    Raises DuplicateNgramError.
    """
    extras = _missing_ngrams(trie, orphans)
    if not extras:
        return trie
    total = trie.words.size + sum(len(extra.rows) for extra in extras.values())
    first, last = 1, 1 + trie.level_sizes[0]  # of the old nodes
    grown = Trie(trie.log_probs[first:last], trie.log_backoffs[first:last], node_limit=total)
    moved = np.arange(first, last)  # the new numbers of the old nodes of the current level
    for order in range(2, trie.order + 1):
        contexts = np.repeat(moved, np.diff(trie.begin[first : last + 1])).astype(grown.index)
        first, last = last, last + trie.level_sizes[order - 1]
        words, log_probs, log_backoffs = (
            array[first:last] for array in (trie.words, trie.log_probs, trie.log_backoffs)
        )
        if order in extras:
            extra = extras[order]
            extra_contexts = grown.nodes_of(extra.rows, order - 1)
            contexts = np.concatenate([contexts, extra_contexts])
            words = np.concatenate([words, extra.rows[:, -1]])
            log_probs = np.concatenate([log_probs, _backed_off(grown, extra, extra_contexts)])
            if order < trie.order:
                log_backoffs = np.concatenate([log_backoffs, extra.log_backoffs])
        start = grown.words.size
        source_indices = grown.add_level(contexts, words, log_probs, log_backoffs)
        moved = np.arange(start, start + words.size)
        if source_indices is not None:
            moved[source_indices] = np.arange(start, start + words.size)
        moved = moved[: last - first]
    return grown


def _missing_ngrams(trie: Trie, orphans: dict[int, Extra]) -> dict[int, Extra]:
    """Return all n-grams to be added, by order; from the highest order down, since a blank can require further ones."""
    extras: dict[int, Extra] = {}
    for order in range(trie.order, 1, -1):
        nothing = Extra.blanks(np.empty((0, order), np.int32))
        orphan = orphans.get(order, nothing)
        above = extras[order + 1].rows if order + 1 in extras else np.empty((0, order + 1), np.int32)
        required = [trie.missing.get(order, nothing.rows), above[:, :-1], above[:, 1:]]
        rows = np.concatenate([orphan.rows, *required])
        if not len(rows):
            continue
        distinct, first_index = np.unique(rows, axis=0, return_index=True)
        orphan_rows, orphan_counts = np.unique(orphan.rows, axis=0, return_counts=True)
        if np.any(orphan_counts > 1):
            raise DuplicateNgramError(orphan_rows[orphan_counts.argmax()].tolist())
        blanks = np.ascontiguousarray(distinct[first_index >= len(orphan.rows)])
        blanks = blanks[trie.nodes_of(blanks, order) == NO_NODE]
        extra = orphan + Extra.blanks(blanks)
        if len(extra.rows):
            extras[order] = extra
    return extras


def _backed_off(trie: Trie, extra: Extra, contexts: Int[ndarray, " ngrams"]) -> Float32[ndarray, " ngrams"]:
    """Return the log-probabilities of extra n-grams; those of blanks are backed off. All lower orders must be
    complete.
    """
    suffixes = trie.nodes_of(np.ascontiguousarray(extra.rows[:, 1:]), trie.order)
    by_backing_off = trie.log_backoffs[contexts] + trie.log_probs[suffixes]
    return np.where(np.isnan(extra.log_probs), by_backing_off, extra.log_probs)


def with_suffixes(table: Table) -> tuple[Table, Int[ndarray, " nodes"]]:
    """Return the table with all suffixes of its n-grams added, and the suffix of each node; no score changes.

    Raises ModelFormatError where the table is damaged.
    """
    check_trie(table)
    suffixes = _suffixes(table)
    if suffixes is None:
        table = _add_missing_suffixes(table)
        suffixes = _suffixes(table)
        assert suffixes is not None
    return replace(table, suffixes=suffixes), suffixes


def check_trie(table: Table) -> None:
    """Raise ModelFormatError where the table violates the layout: loading does not read the whole table."""
    bounds = np.array([table.level(order).start for order in range(1, table.order + 1)] + [table.words.size])
    node = run(first_disorder, *table.columns, bounds)
    if node >= 0:
        raise ModelFormatError(
            f"the n-gram table is out of order, or has an impossible number, at node {node}; its file is damaged: "
            "try chainrule verify"
        )


def _suffixes(table: Table) -> Int[ndarray, " nodes"] | None:
    """Return the suffix of each node, the root for unigrams; None if a suffix is missing."""
    suffixes = np.zeros(table.words.size, table.begin.dtype)
    return suffixes if write_suffixes(table.level_sizes, table.words, table.begin, suffixes) else None


def write_suffixes(
    level_sizes: Sequence[int],
    words: Int32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    suffixes: Int[ndarray, " nodes"],
) -> bool:
    """Write the suffix of each n-gram of a trie from bigrams on; return False where one is missing."""
    for order in range(2, len(level_sizes) + 1):
        contexts, level = level_slice(level_sizes, order - 1), level_slice(level_sizes, order)
        if order == 2:
            suffixes[level] = 1 + words[level]
            continue
        fixed, first = (words, begin, contexts.start), contexts.start
        outputs = suffixes[contexts], suffixes[level]
        calls = [(*fixed, start - first, stop - first, *outputs) for start, stop in parts_of(contexts)]
        if sum(run_all(find_suffixes, calls)):
            return False
    return True


def _add_missing_suffixes(table: Table) -> Table:
    unigrams = table.level(1)
    backoffs = table.log_backoffs
    trie = Trie(table.log_probs[unigrams], backoffs[unigrams], node_limit=table.order * table.words.size)
    for order in range(2, table.order + 1):
        contexts, level = table.level(order - 1), table.level(order)
        children = np.diff(table.begin[contexts.start : contexts.stop + 1])
        parents = np.repeat(np.arange(contexts.start, contexts.stop, dtype=trie.index), children)
        # empty at the highest order
        trie.add_level(parents, table.words[level], table.log_probs[level], backoffs[level])
    return complete_trie(trie, {}).table()
