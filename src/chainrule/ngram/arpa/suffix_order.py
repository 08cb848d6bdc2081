"""The trie of an ARPA file in suffix order, as lmplz writes them: no n-gram has to be searched for, and nothing sorted.

The ids of words ascend from n-gram to n-gram of an order, the last words first, then those before them. So both what an
n-gram ends with and what it begins with are found by going along the order below (`join`); and since last words ascend,
so do those after each context, when n-grams go to their contexts' children one by one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.jit import run, run_all, thread_count
from chainrule.ngram.arpa.suffix_order_kernels import (
    count_children,
    join,
    mark_extensions,
    place_children,
    set_cursors,
    sum_children,
)
from chainrule.ngram.trie.assembly import Trie
from chainrule.ngram.trie.parts import parts_of
from chainrule.ngram.trie.records import NODE, Records, context_type, narrowest
from chainrule.ngram.trie.table import Table, from_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray


class Ranks(NamedTuple):
    """Where the suffixes and contexts of n-grams stand among those of the order below."""

    suffixes: Int[ndarray, " ngrams"]
    contexts: Int[ndarray, " ngrams"]


class Part(NamedTuple):
    """Some n-grams of an order. ranks: None where they are not in suffix order, or the order below lacks one."""

    rows: Int32[ndarray, "ngrams order"]  # only the last words, at the highest order, of those that have ranks
    ends: Int32[ndarray, "2 order"]  # the words of the first and of the last one
    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " ngrams"]
    ranks: Ranks | None


@dataclass
class _Top:
    """The highest order so far, by rank."""

    rows: Int32[ndarray, "ngrams order"]
    firsts: Int32[ndarray, " ngrams"]  # the first words
    contexts: Int[ndarray, " ngrams"]  # the ranks of the contexts
    extensions: Int[ndarray, " contexts+1"]  # by the rank of a suffix, the first n-gram that ends with it
    places: Int[ndarray, " ngrams"]  # where they are in the trie, among those of their order


class SuffixOrder:
    """A table that grows by a level at a time, as long as the n-grams come in suffix order."""

    def __init__(
        self,
        log_probs: Float32[ndarray, " vocabulary"],
        log_backoffs: Float32[ndarray, " vocabulary"],
        *,
        node_limit: int,
    ) -> None:
        """The unigrams, by id. node_limit: how many nodes there may be in the end."""
        size = log_probs.size
        self.level_sizes = [size]
        self._index, self._node_limit = narrowest(node_limit), node_limit
        words = np.arange(size, dtype=np.int32)
        ranks = words.astype(self._index)
        self._top = _Top(words[:, None], words, np.zeros_like(ranks), np.array([0, size], self._index), ranks)
        self._nodes = [np.zeros(1, NODE), np.empty(size, NODE)]  # by level, as all that follow
        self._nodes[1]["word"], self._nodes[1]["log_prob"] = words, log_probs
        self._contexts = [self._new_contexts(1), self._new_contexts(size)]
        self._contexts[0]["begin"], self._contexts[1]["log_backoff"] = 1, log_backoffs
        self._suffixes = [np.zeros(1, self._index), np.zeros(size, self._index)]

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    def part(
        self,
        rows: Int32[ndarray, "ngrams order"],
        log_probs: Float32[ndarray, " ngrams"],
        log_backoffs: Float32[ndarray, " ngrams"],
        *,
        is_last: bool,
    ) -> Part:
        """Neighbours of the next order. is_last: whether it is the highest."""
        ranks = Ranks(np.empty(len(rows), self._index), np.empty(len(rows), self._index))
        top = self._top
        ends = rows[[0, -1]] if len(rows) else rows
        if not join(rows, top.rows, top.firsts, top.contexts, top.extensions, *ranks):
            return Part(rows, ends, log_probs, log_backoffs, None)
        return Part(rows[:, -1:].copy() if is_last else rows, ends, log_probs, log_backoffs, ranks)

    def add_level(self, parts: list[Part], *, is_last: bool) -> bool:
        """Adds all n-grams of the next order, and empties the list; False, and it stays, if they are not in order."""
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
        run_all(sum_children, [(cursors, lower.places, *piece, begin[1:]) for piece in cut])
        np.cumsum(begin, out=begin)
        run_all(set_cursors, [(cursors, lower.places, begin, *piece) for piece in cut])
        first = 1 + sum(self.level_sizes)
        self._contexts[-1]["begin"] = begin[:-1] + self._index(first)
        suffix_nodes = lower.places + self._index(first - lower_size)
        nodes, suffixes, places = np.empty(size, NODE), np.empty(size, self._index), np.empty(size, self._index)
        contexts = self._new_contexts(0 if is_last else size)
        backoffs = nodes["log_prob"] if is_last else contexts["log_backoff"]  # at the last not written
        fields = nodes["word"], nodes["log_prob"], backoffs, suffixes
        starts = np.cumsum([0, *(len(part.rows) for part in parts)]).tolist()
        calls = []
        for share, cursor in zip(shares, cursors, strict=True):
            span = slice(starts[share.start], starts[share.stop])
            calls.append((parts[share], cursor, suffix_nodes, fields, places[span], is_last))
        run_all(_place, calls)
        self.level_sizes.append(size)
        self._nodes.append(nodes)
        self._suffixes.append(suffixes)
        self._contexts.append(contexts)
        if not is_last:
            extensions = np.empty(lower_size + 1, self._index)
            run(mark_extensions, _joined([each.suffixes for each in ranks], self._index), extensions)
            rows = np.concatenate([part.rows for part in parts] or [np.empty((0, self.order), np.int32)])
            contexts_by_rank = _joined([each.contexts for each in ranks], self._index)
            self._top = _Top(rows, rows[:, 0].copy(), contexts_by_rank, extensions, places)
        parts.clear()
        return True

    def table(self) -> Table:
        """Lets go of the levels."""
        total = 1 + sum(self.level_sizes)
        end = self._new_contexts(1)
        end["begin"] = total
        if self.order == 1:
            self._contexts[1:] = []
        del self._top
        nodes, contexts = _joined(self._nodes, NODE), _joined([*self._contexts, end], end.dtype)
        return from_records(tuple(self.level_sizes), Records(nodes, contexts), _joined(self._suffixes, self._index))

    def trie(self) -> Trie:
        """The same levels, to go on with n-grams in any order."""
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
        """The nodes of the contexts of n-grams of the next order."""
        return self._top.places[ranks.contexts] + self._index(1 + sum(self.level_sizes[:-1]))

    def _new_contexts(self, size: int) -> ndarray:
        return np.zeros(size, context_type(self._index))  # zeros, for the bytes that belong to no field


def _are_in_order(parts: Sequence[Part]) -> bool:
    """Whether the n-grams of each part are in suffix order, and the parts themselves."""
    if any(part.ranks is None for part in parts):
        return False
    ends = [part.ends[:, ::-1].tolist() for part in parts]
    return all(before[1] < after[0] for before, after in itertools.pairwise(ends))


def _shares(sizes: Sequence[int], threads: int) -> list[slice]:
    """The parts, for each thread about as many n-grams as for the others."""
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1] if len(sizes) else 0, threads + 1)[1:-1]).tolist()
    edges = [0, *cuts, len(sizes)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def _count(ranks: Sequence[Ranks], counts: Int[ndarray, " contexts"]) -> None:
    for part in ranks:
        count_children(part.contexts, counts)


def _place(
    parts: Sequence[Part],
    cursor: Int[ndarray, " contexts"],
    suffix_nodes: Int[ndarray, " suffixes"],
    fields: tuple[ndarray, ndarray, ndarray, ndarray],
    places: Int[ndarray, " ngrams"],
    is_last: bool,
) -> None:
    at = 0
    for part in parts:
        assert part.ranks is not None
        lasts, size = np.ascontiguousarray(part.rows[:, -1]), len(part.rows)
        numbers = lasts, part.log_probs, part.log_backoffs, part.ranks.contexts, part.ranks.suffixes
        words, log_probs, log_backoffs, suffixes = fields
        outputs = words, log_probs, log_backoffs, suffixes, places[at : at + size]
        place_children(*numbers, cursor, suffix_nodes, *outputs, is_last)
        at += size


def _joined(parts: list[ndarray], dtype: type | np.dtype) -> ndarray:
    """The parts in one array; they themselves are let go, so that not all is in memory twice."""
    whole = np.concatenate([np.empty(0, dtype), *parts])
    parts.clear()
    return whole
