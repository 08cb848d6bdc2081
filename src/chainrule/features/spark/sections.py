"""Counts of n-grams that begin with a range of words: cut from counts, packed into bytes, merged, joined.

The n-grams of a level are sorted by context and last word, so those that begin with a range of words are a range of
every level: its children follow those of the range before. Merged sections, one after the other, are the whole again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.spark.transport import pack, unpack
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.trie.assembly import write_suffixes
from chainrule.ngram.trie.table import narrowest

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
        """Return a section of words that begin no n-gram."""
        none = np.zeros(0, np.int32)
        levels = [
            Level(np.zeros(words, np.int32) if n == 2 else none, none, none.astype(np.int64))
            for n in range(2, order + 1)
        ]
        return cls(np.zeros(words, np.int64), levels)

    @property
    def is_empty(self) -> bool:
        return not self.counts.any() and not self.ngrams

    @property
    def ngrams(self) -> int:
        """The number of n-grams, from bigrams on."""
        return sum(level.words.size for level in self.levels)

    def without_counts(self, order: int) -> Section:
        """Return the same n-grams up to an order, each with a count of 0."""
        levels = [Level(level.children, level.words, np.zeros_like(level.counts)) for level in self.levels[: order - 1]]
        return Section(np.zeros_like(self.counts), levels)

    def arrays(self) -> list[ndarray[Any, Any]]:
        """Return the arrays for `of_arrays`; counts are as narrow as they can be."""
        columns = [self.counts, *(level.counts for level in self.levels)]
        kind = narrowest(max((int(column.max()) for column in columns if column.size), default=0))
        levels = [(level.counts.astype(kind), level.children, level.words) for level in self.levels]
        return [self.counts.astype(kind), *itertools.chain.from_iterable(levels)]

    @classmethod
    def of_arrays(cls, arrays: Sequence[ndarray[Any, Any]]) -> Section:
        """Return the section of the arrays that `arrays` gives."""
        levels = [Level(arrays[i + 1], arrays[i + 2], arrays[i]) for i in range(1, len(arrays), 3)]
        return cls(arrays[0].astype(np.int64), levels)

    def pack(self) -> bytes:
        """Return bytes for `unpack`."""
        return pack(*self.arrays())

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Section:
        """Return the section that `pack` packed."""
        return cls.of_arrays(unpack(data))


def sections(counts: Counts, bounds: Sequence[int]) -> Iterator[Section]:
    """Cut counts into the sections of words bounds[0] .. bounds[1], bounds[1] .. bounds[2], and so on."""
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


def cut(section: Section, bounds: Sequence[int]) -> Iterator[Section]:
    """Yield sections as `sections` does, from a section, whose first word is bounds[0] or before it and counts as 0."""
    begins = [starts(level.children) for level in section.levels]
    for first, stop in itertools.pairwise(bounds):
        spans = spans_of(begins, first, stop)
        levels = [
            Level(level.children[contexts], level.words[own], level.counts[own])
            for level, contexts, own in zip(section.levels, spans, spans[1:], strict=False)
        ]
        yield Section(section.counts[first:stop], levels)


def starts(children: Int32[ndarray, " contexts"]) -> Int64[ndarray, " contexts+1"]:
    """Return the first n-gram after each context, and the end of the last one's."""
    return np.concatenate([[0], np.cumsum(children, dtype=np.int64)])


def spans_of(begins: Sequence[Int64[ndarray, " contexts+1"]], first: int, stop: int) -> list[slice]:
    """Return the words first .. stop, and by level the n-grams that begin with them. begins: `starts`, by level."""
    spans = [slice(first, stop)]
    for begin in begins:
        spans.append(slice(int(begin[spans[-1].start]), int(begin[spans[-1].stop])))
    return spans


def merge_sections(parts: Sequence[Section]) -> Section:
    """Return the sum of sections of the same words."""
    return Section(_sum_of_words(parts), [level for level, _ in _merged_levels(parts)])


def merge(parts: Sequence[Section]) -> tuple[Section, list[list[Int32[ndarray, " ngrams"]]]]:
    """Return the sum of sections of the same words; and, by part and level, the place of each n-gram among the merged
    ones.
    """
    levels, by_level = [], []
    for level, places in _merged_levels(parts):
        levels.append(level)
        by_level.append(places)
    return Section(_sum_of_words(parts), levels), [[level[i] for level in by_level] for i in range(len(parts))]


def _sum_of_words(parts: Sequence[Section]) -> Int64[ndarray, " words"]:
    total: Int64[ndarray, " words"] = np.sum([part.counts for part in parts], axis=0)
    return total


def _merged_levels(parts: Sequence[Section]) -> Iterator[tuple[Level, list[Int32[ndarray, " ngrams"]]]]:
    """Yield each level of the sum of some sections; and, by part, the place of each n-gram of the level among those."""
    contexts = parts[0].counts.size
    places: list[Int[ndarray, " contexts"]] = [np.arange(contexts)] * len(parts)
    for order in range(len(parts[0].levels)):
        own = [part.levels[order] for part in parts]
        stops = np.cumsum([level.words.size for level in own])
        level, of_all = sum_by_key(
            np.concatenate([keys_of(place, level) for place, level in zip(places, own, strict=True)]),
            np.concatenate([level.counts for level in own]),
            contexts,
        )
        places, contexts = np.split(of_all, stops[:-1]), level.words.size
        yield level, places


def suffixes_of(section: Section, vocabulary_size: int) -> tuple[Section, list[Int[ndarray, " ngrams"]]]:
    """Return the n-grams of a section without their first words, each with the number of those that end in it.

    Also, by level from trigrams on, the place of each n-gram's suffix in the level below.
    """
    contexts = section.levels[0].words  # by bigram, the number of its suffix
    counts = np.bincount(contexts, minlength=vocabulary_size)
    levels: list[Level] = []
    places: list[Int[ndarray, " ngrams"]] = []
    for level in section.levels[1:]:
        size = levels[-1].words.size if levels else vocabulary_size
        suffixes, contexts = sum_by_key(keys_of(contexts, level), np.ones(level.words.size, np.int64), size)
        levels.append(suffixes)
        places.append(contexts)
    return Section(counts, levels), places


def keys_of(contexts: Int[ndarray, " contexts"], level: Level) -> Int64[ndarray, " ngrams"]:
    """Return a number for each n-gram of a level: the number of its context in the upper bits, and the word."""
    keys: Int64[ndarray, " ngrams"] = np.repeat(contexts.astype(np.int64) << _WORD_BITS, level.children)
    keys |= level.words
    return keys


def sum_by_key(
    keys: Int64[ndarray, " keys"], counts: Int[ndarray, " keys"], contexts: int
) -> tuple[Level, Int32[ndarray, " keys"]]:
    """Return the level of the distinct keys, with the sums of their counts; and the place of each key in it.

    keys: of `keys_of`, with contexts below `contexts`.
    """
    by_key = np.argsort(keys, kind="stable")  # which merges sorted lists
    keys = keys[by_key]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size])
    places = np.empty(keys.size, np.int32)
    places[by_key] = np.repeat(np.arange(first.size, dtype=np.int32), np.diff(first, append=keys.size))
    keys = keys[first]
    counts = counts[by_key]
    level = Level(
        np.bincount(keys >> _WORD_BITS, minlength=contexts).astype(np.int32),
        (keys & ((1 << _WORD_BITS) - 1)).astype(np.int32),
        np.add.reduceat(counts, first, dtype=np.int64) if first.size else counts.astype(np.int64),
    )
    return level, places


def join_sections(parts: Sequence[Section], tokens: int) -> Counts:
    """Return the counts of all words, from the sections of consecutive ranges. tokens: of the text, which limit
    counts.
    """
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
    # None is missing: an n-gram occurs where a longer one does.
    write_suffixes(found.level_sizes, found.words, found.begin, found.suffixes)
    return found
