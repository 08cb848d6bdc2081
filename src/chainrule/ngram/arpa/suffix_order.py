"""Builds the trie of an ARPA file in suffix order, as lmplz writes it, without searching or sorting.

In suffix order, the n-grams of an order ascend by their last words, then by the words before these. So the suffixes and
contexts of n-grams are found in one pass along the order below (`find_parents`). And since last words ascend, each
context's children ascend when the n-grams are appended to their contexts in order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.threads import run, run_all, thread_count
from chainrule.ngram.arpa.suffix_order_kernels import (
    count_children,
    find_parents,
    mark_extensions,
    set_cursors,
    sum_children,
    write_children,
)
from chainrule.ngram.trie.assembly import Trie
from chainrule.ngram.trie.table import NODE, Records, Table, context_type, narrowest, parts_of, table_from_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray


class Ranks(NamedTuple):
    """The ranks of the suffixes and contexts of n-grams, in the suffix order of the order below."""

    suffixes: Int[ndarray, " ngrams"]
    contexts: Int[ndarray, " ngrams"]


class Part(NamedTuple):
    """N-grams of one order. ranks: None if these are out of order, or a suffix or context is missing."""

    rows: Int32[ndarray, "ngrams order"]  # only the last words at the highest order, if `ranks` is given
    ends: Int32[ndarray, "2 order"]  # the words of the first n-gram and of the last
    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " ngrams"]
    ranks: Ranks | None


@dataclass
class _HighestLevel:
    """The highest order so far; all arrays are by rank."""

    rows: Int32[ndarray, "ngrams order"]
    firsts: Int32[ndarray, " ngrams"]  # their first words
    contexts: Int[ndarray, " ngrams"]  # the ranks of the contexts
    extensions: Int[ndarray, " contexts+1"]  # by the rank of a suffix, the first n-gram with it
    indices: Int[ndarray, " ngrams"]  # their indices in the trie, within the level


class SuffixOrder:
    """A table that grows by a level at a time, from n-grams in suffix order."""

    def __init__(
        self,
        log_probs: Float32[ndarray, " vocabulary"],
        log_backoffs: Float32[ndarray, " vocabulary"],
        *,
        node_limit: int,
    ) -> None:
        """Begin with the unigrams.

        log_probs, log_backoffs: those of the unigrams, in nats. node_limit: the largest possible number of nodes.
        """
        size = log_probs.size
        self.level_sizes = [size]
        self._index, self._node_limit = narrowest(node_limit), node_limit
        words = np.arange(size, dtype=np.int32)
        ranks = words.astype(self._index)
        self._top = _HighestLevel(words[:, None], words, np.zeros_like(ranks), np.array([0, size], self._index), ranks)
        self._nodes = [np.zeros(1, NODE), np.empty(size, NODE)]  # by level, as are the next two
        self._nodes[1]["word"], self._nodes[1]["log_prob"] = words, log_probs
        self._contexts = [self._new_contexts(1), self._new_contexts(size)]
        self._contexts[0]["begin"], self._contexts[1]["log_backoff"] = 1, log_backoffs
        self._suffixes = [np.zeros(1, self._index), np.zeros(size, self._index)]

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    def rank_part(
        self,
        rows: Int32[ndarray, "ngrams order"],
        log_probs: Float32[ndarray, " ngrams"],
        log_backoffs: Float32[ndarray, " ngrams"],
        *,
        is_last: bool,
    ) -> Part:
        """Rank consecutive n-grams of the next order. is_last: whether it is the highest."""
        ranks = Ranks(np.empty(len(rows), self._index), np.empty(len(rows), self._index))
        top = self._top
        ends = rows[[0, -1]] if len(rows) else rows
        if not find_parents(rows, top.rows, top.firsts, top.contexts, top.extensions, *ranks):
            return Part(rows, ends, log_probs, log_backoffs, None)
        return Part(rows[:, -1:].copy() if is_last else rows, ends, log_probs, log_backoffs, ranks)

    def add_level(self, parts: list[Part], *, is_last: bool) -> bool:
        """Add all n-grams of the next order and clear the list.

        If they are not in order, returns False and keeps it.
        """
        parts[:] = [part for part in parts if len(part.rows)]
        if not _are_in_order(parts):
            return False
        ranks = [part.ranks for part in parts if part.ranks is not None]
        size = sum(len(part.rows) for part in parts)
        lower, lower_size = self._top, self.level_sizes[-1]
        shares = _shares([len(part.rows) for part in parts], thread_count())
        cursors = np.zeros((len(shares), lower_size), self._index)
        run_all(_count, [(ranks[share], cursor) for share, cursor in zip(shares, cursors, strict=True)])
        begin = np.zeros(lower_size + 1, self._index)
        cut = parts_of(slice(0, lower_size))
        run_all(sum_children, [(cursors, lower.indices, *piece, begin[1:]) for piece in cut])
        np.cumsum(begin, out=begin)
        run_all(set_cursors, [(cursors, lower.indices, begin, *piece) for piece in cut])
        first = 1 + sum(self.level_sizes)
        self._contexts[-1]["begin"] = begin[:-1] + self._index(first)
        suffix_nodes = lower.indices + self._index(first - lower_size)
        nodes, suffixes, indices = np.empty(size, NODE), np.empty(size, self._index), np.empty(size, self._index)
        contexts = self._new_contexts(0 if is_last else size)
        backoffs = nodes["log_prob"] if is_last else contexts["log_backoff"]  # not written at the highest order
        fields = nodes["word"], nodes["log_prob"], backoffs, suffixes
        starts = np.cumsum([0, *(len(part.rows) for part in parts)]).tolist()
        calls = []
        for share, cursor in zip(shares, cursors, strict=True):
            span = slice(starts[share.start], starts[share.stop])
            calls.append((parts[share], cursor, suffix_nodes, fields, indices[span], is_last))
        run_all(_write_children, calls)
        self.level_sizes.append(size)
        self._nodes.append(nodes)
        self._suffixes.append(suffixes)
        self._contexts.append(contexts)
        if not is_last:
            extensions = np.empty(lower_size + 1, self._index)
            run(mark_extensions, join([part.suffixes for part in ranks], self._index), extensions)
            rows = np.concatenate([part.rows for part in parts] or [np.empty((0, self.order), np.int32)])
            contexts_by_rank = join([part.contexts for part in ranks], self._index)
            self._top = _HighestLevel(rows, rows[:, 0].copy(), contexts_by_rank, extensions, indices)
        parts.clear()
        return True

    def table(self) -> Table:
        """Return the finished table; the levels are freed."""
        total = 1 + sum(self.level_sizes)
        end = self._new_contexts(1)
        end["begin"] = total
        if self.order == 1:
            self._contexts[1:] = []
        del self._top
        nodes, contexts = join(self._nodes, NODE), join([*self._contexts, end], end.dtype)
        return table_from_records(tuple(self.level_sizes), Records(nodes, contexts), join(self._suffixes, self._index))

    def trie(self) -> Trie:
        """Return the same levels as a `Trie`, to which n-grams can be added in any order."""
        unigrams = self._nodes[1]["log_prob"], self._contexts[1]["log_backoff"]
        trie = Trie(*unigrams, node_limit=self._node_limit)
        for order in range(2, self.order + 1):
            begin = np.append(self._contexts[order - 1]["begin"], 1 + sum(self.level_sizes[:order]))
            first = 1 + sum(self.level_sizes[: order - 2])
            parents = np.repeat(np.arange(first, first + begin.size - 1, dtype=self._index), np.diff(begin))
            nodes = self._nodes[order]
            trie.add_level(parents, nodes["word"], nodes["log_prob"], self._contexts[order]["log_backoff"])
        return trie

    def context_nodes(self, ranks: Ranks) -> Int[ndarray, " ngrams"]:
        """Return the nodes of the contexts of n-grams of the next order."""
        return self._top.indices[ranks.contexts] + self._index(1 + sum(self.level_sizes[:-1]))

    def _new_contexts(self, size: int) -> ndarray:
        return np.zeros(size, context_type(self._index))  # zeros in the padding bytes, too


def _are_in_order(parts: Sequence[Part]) -> bool:
    """Return whether all parts, and the n-grams in each, are in suffix order."""
    if any(part.ranks is None for part in parts):
        return False
    ends = [part.ends[:, ::-1].tolist() for part in parts]
    return all(before[1] < after[0] for before, after in itertools.pairwise(ends))


def _shares(sizes: Sequence[int], threads: int) -> list[slice]:
    """Return slices of the parts, one for each thread, with about equally many n-grams."""
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1] if len(sizes) else 0, threads + 1)[1:-1]).tolist()
    edges = [0, *cuts, len(sizes)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def _count(ranks: Sequence[Ranks], counts: Int[ndarray, " contexts"]) -> None:
    for part in ranks:
        count_children(part.contexts, counts)


def _write_children(
    parts: Sequence[Part],
    cursor: Int[ndarray, " contexts"],
    suffix_nodes: Int[ndarray, " suffixes"],
    fields: tuple[ndarray, ndarray, ndarray, ndarray],
    indices: Int[ndarray, " ngrams"],
    is_last: bool,
) -> None:
    done = 0
    for part in parts:
        assert part.ranks is not None
        last_words, size = np.ascontiguousarray(part.rows[:, -1]), len(part.rows)
        values = last_words, part.log_probs, part.log_backoffs, part.ranks.contexts, part.ranks.suffixes
        words, log_probs, log_backoffs, suffixes = fields
        outputs = words, log_probs, log_backoffs, suffixes, indices[done : done + size]
        write_children(*values, cursor, suffix_nodes, *outputs, is_last)
        done += size


def join(parts: list[ndarray], dtype: type | np.dtype | None = None) -> ndarray:
    """Concatenate the parts, and clear their list so that they do not stay in memory."""
    whole = np.concatenate([np.empty(0, dtype), *parts] if dtype is not None else parts)
    parts.clear()
    return whole
