"""Counts of n-grams that begin with a range of words: cut from counts, packed into bytes, merged, joined.

The n-grams of a level are sorted by context and last word, so those that begin with a range of words are a range of
every level: its children follow those of the range before. Merged sections, one after the other, are the whole again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run_all
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.trie.assembly_kernels import find_suffixes
from chainrule.ngram.trie.node_ranges import parts_of
from chainrule.ngram.trie.records import narrowest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int, Int32, Int64
    from numpy import ndarray

_WORD_BITS = 32


@dataclass(frozen=True)
class Level:
    """The n-grams of an order. children: how many follow each n-gram of the order below."""

    children: Int32[ndarray, " contexts"]
    words: Int32[ndarray, " ngrams"]
    counts: Int[ndarray, " ngrams"]


@dataclass(frozen=True)
class Section:
    """The n-grams of all orders that begin with a range of words; counts: of the words themselves."""

    counts: Int64[ndarray, " words"]
    levels: list[Level]  # from bigrams on

    @classmethod
    def empty(cls, words: int, order: int) -> Section:
        """Of words that begin no n-gram."""
        none = np.zeros(0, np.int32)
        levels = [
            Level(np.zeros(words, np.int32) if n == 2 else none, none, none.astype(np.int64))
            for n in range(2, order + 1)
        ]
        return cls(np.zeros(words, np.int64), levels)

    def pack(self) -> bytes:
        """Bytes for `unpack`: the sizes of the levels first, and of a count."""
        columns = [column for level in self.levels for column in (level.counts, level.children, level.words)]
        kind = narrowest(max((int(column.max()) for column in [self.counts, *columns[::3]] if column.size), default=0))
        columns[::3] = [column.astype(kind) for column in columns[::3]]
        sizes = [
            len(self.levels),
            np.dtype(kind).itemsize,
            self.counts.size,
            *(level.words.size for level in self.levels),
        ]
        parts = [np.array(sizes, np.int64), self.counts.astype(kind), *columns]
        return b"".join([part.tobytes() for part in parts])

    @classmethod
    def unpack(cls, data: bytes) -> Section:
        """What `pack` packed."""
        place = 0

        def take(size: int, dtype: type[np.int32] | type[np.int64]) -> ndarray:
            nonlocal place
            array = np.frombuffer(data, dtype, size, place)
            place += array.nbytes
            return array

        orders, itemsize = take(2, np.int64).tolist()
        sizes, kind = take(orders + 1, np.int64).tolist(), np.int32 if itemsize == 4 else np.int64
        counts = take(sizes[0], kind).astype(np.int64)
        levels = []
        for contexts, size in itertools.pairwise(sizes):
            own = take(size, kind)
            levels.append(Level(take(contexts, np.int32), take(size, np.int32), own))
        return cls(counts, levels)


def sections(counts: Counts, bounds: Sequence[int]) -> Iterator[Section]:
    """Cuts counts into the sections of words bounds[0] .. bounds[1], bounds[1] .. bounds[2], and so on."""
    for first, stop in itertools.pairwise(bounds):
        contexts = slice(1 + first, 1 + stop)
        own = counts.counts[contexts].astype(np.int64)
        levels = []
        for _ in range(2, counts.order + 1):
            begin = counts.begin[contexts.start : contexts.stop + 1]
            nodes = slice(int(begin[0]), int(begin[-1]))
            levels.append(
                Level(
                    np.diff(begin).astype(np.int32),
                    counts.words[nodes].astype(np.int32),
                    counts.counts[nodes].astype(np.int64),
                )
            )
            contexts = nodes
        yield Section(own, levels)


def merged(parts: Sequence[Section]) -> Section:
    """The sum of sections of the same words."""
    counts = np.sum([part.counts for part in parts], axis=0)
    levels = []
    places = [np.arange(counts.size)] * len(parts)  # of each part's contexts among the merged ones
    contexts = counts.size
    for order in range(len(parts[0].levels)):
        own = [part.levels[order] for part in parts]
        keys = np.concatenate(
            [
                np.repeat(place << _WORD_BITS, level.children) | level.words
                for place, level in zip(places, own, strict=True)
            ]
        )
        by_key = np.argsort(keys, kind="stable")  # which merges sorted lists
        keys = keys[by_key]
        is_new = np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size]
        of_all = np.empty(keys.size, np.int64)
        of_all[by_key] = np.cumsum(is_new) - 1
        places = np.split(of_all, np.cumsum([level.words.size for level in own])[:-1])
        starts = np.flatnonzero(is_new)
        sums = np.concatenate([level.counts for level in own])[by_key].astype(np.int64)
        keys = keys[starts]
        levels.append(
            Level(
                np.bincount(keys >> _WORD_BITS, minlength=contexts).astype(np.int32),
                (keys & ((1 << _WORD_BITS) - 1)).astype(np.int32),
                np.add.reduceat(sums, starts) if starts.size else sums,
            )
        )
        contexts = keys.size
    return Section(counts, levels)


def joined(parts: Sequence[Section], tokens: int) -> Counts:
    """The counts of all words, from the sections of consecutive ranges. tokens: of the text, which limit counts."""
    unigrams = np.concatenate([part.counts for part in parts])
    orders = range(len(parts[0].levels))
    level_sizes = [unigrams.size, *(sum(part.levels[order].words.size for part in parts) for order in orders)]
    nodes = 1 + sum(level_sizes)
    index = narrowest(nodes)
    words, counts = np.zeros(nodes, np.int32), np.zeros(nodes, narrowest(tokens))
    begin = np.zeros(nodes - level_sizes[-1] + 1, index)
    words[1 : 1 + unigrams.size], counts[1 : 1 + unigrams.size] = np.arange(unigrams.size), unigrams
    begin[0], context, node = 1, 1, 1 + unigrams.size
    for order in orders:
        for part in parts:
            level = part.levels[order]
            words[node : node + level.words.size], counts[node : node + level.words.size] = level.words, level.counts
            begin[context : context + level.children.size] = (
                node + np.cumsum(level.children, dtype=np.int64) - level.children
            )
            context, node = context + level.children.size, node + level.words.size
    begin[-1] = nodes
    found = Counts(tuple(level_sizes), words, begin, np.zeros(nodes, index), counts)
    _write_suffixes(found)
    return found


def _write_suffixes(counts: Counts) -> None:
    """Every n-gram's suffix occurs where it does, so that none is missing."""
    suffixes: Int[ndarray, " nodes"] = counts.suffixes
    for order in range(2, counts.order + 1):
        contexts, level = counts.level(order - 1), counts.level(order)
        if order == 2:
            suffixes[level] = 1 + counts.words[level]
            continue
        fixed = counts.words, counts.begin, contexts.start
        outputs = suffixes[contexts], suffixes[level]
        run_all(
            find_suffixes,
            [(*fixed, start - contexts.start, stop - contexts.start, *outputs) for start, stop in parts_of(contexts)],
        )
