"""Slow and plain: what the engine is compared with. Written from the formulas, sharing no code with it.

An n-gram is a tuple of ids, 0, 1, 2 being <unk>, <s> and </s>; a document is a list of ids without markers.
"""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.trie.table import Table, pack_records

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN, BEGIN, END = 0, 1, 2

Gram = tuple[int, ...]
Grams = dict[Gram, tuple[float, float]]  # log-probability and log-back-off, in nats


def stream_of(documents: list[list[int]]) -> np.ndarray:
    return np.array([word for document in documents for word in [*document, END]], np.int32)


def random_documents(seed: int, vocabulary_size: int, documents: int, longest: int) -> list[list[int]]:
    """With skewed words, so that some n-grams are frequent; unknown words among them, and empty documents."""
    chance = random.Random(seed)
    words = [UNKNOWN, *range(3, vocabulary_size)]
    weights = [1 / (1 + i) for i in range(len(words))]
    return [chance.choices(words, weights, k=chance.randint(0, longest)) for _ in range(documents)]


def naive_counts(documents: list[list[int]], order: int) -> list[Counter[Gram]]:
    """Raw counts by order; <s> alone is context only and has none."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for document in documents:
        padded = [BEGIN, *document, END]
        for n in range(1, order + 1):
            counts[n - 1].update(
                tuple(padded[i : i + n]) for i in range(len(padded) - n + 1) if padded[i : i + n] != [BEGIN]
            )
    return counts


class NaiveKneserNey:
    """Interpolated modified Kneser-Ney, n-gram by n-gram."""

    def __init__(
        self,
        documents: list[list[int]],
        vocabulary_size: int,
        order: int,
        prune: tuple[int, ...] = (0,),
        interpolate_unigrams: bool = True,
        kenlm_compatible: bool = False,
    ) -> None:
        raw = naive_counts(documents, order)
        self.interpolate_unigrams = interpolate_unigrams
        self.words = [word for word in range(vocabulary_size) if word != BEGIN]
        self.adjusted: list[dict[Gram, int]] = []
        for n in range(1, order + 1):
            neighbours: dict[Gram, set[int]] = {}
            for gram in raw[n] if n < order else ():
                neighbours.setdefault(gram[1:], set()).add(gram[0])
            self.adjusted.append(
                {g: count if n == order or g[0] == BEGIN else len(neighbours[g]) for g, count in raw[n - 1].items()}
            )
        self.kept = [
            {g for g, count in raw[n].items() if n == 0 or count > prune[min(n, len(prune) - 1)]} for n in range(order)
        ]
        # lmplz fills what begins a document with <s> up to the highest order, and compares the last word first
        whole = [g for level in raw for g in level if len(g) == order or g[0] == BEGIN]
        last = max(whole, key=lambda g: g[::-1], default=())
        self.discounts = []
        for n in range(1, order + 1):
            counts = dict(self.adjusted[n - 1])
            if kenlm_compatible and n <= min(len(last), order - 1):
                counts[last[-n:]] = raw[n - 1][last[-n:]]
            self.discounts.append(naive_discounts(list(counts.values())))
        self.followers: dict[Gram, list[Gram]] = {(): list(self.adjusted[0])}
        for level in self.adjusted[1:]:
            for gram in level:
                self.followers.setdefault(gram[:-1], []).append(gram)
        self.prob = cache(self._prob)
        self.gamma = cache(self._gamma)

    def _gamma(self, context: Gram) -> float:
        followers = self.followers.get(context)
        if not followers:
            return 1.0
        n = len(context)
        spared = sum(
            self.discounts[n][min(self.adjusted[n][g], 3) - 1] if g in self.kept[n] else self.adjusted[n][g]
            for g in followers
        )
        return spared / self._total(context)

    def _total(self, context: Gram) -> int:
        return sum(self.adjusted[len(context)][g] for g in self.followers[context])

    def _prob(self, gram: Gram) -> float:
        if gram == (BEGIN,):
            return 0.0
        n = len(gram) - 1
        count = self.adjusted[n].get(gram, 0)
        share = (count - self.discounts[n][min(count, 3) - 1]) / self._total(gram[:-1]) if count else 0.0
        if n > 0:
            return share + self.gamma(gram[:-1]) * self.prob(gram[1:])
        if self.interpolate_unigrams:
            return share + self.gamma(()) / len(self.words)
        unseen = [word for word in self.words if word == UNKNOWN or not self.adjusted[0].get((word,))]
        return share + (self.gamma(()) / len(unseen) if gram[0] in unseen else 0.0)

    def table(self) -> dict[Gram, tuple[float, float]]:
        """Probability and back-off of what is kept and of all words."""
        grams = {(word,) for word in [BEGIN, *self.words]}.union(*self.kept)
        return {g: (self.prob(g), self.gamma(g) if len(g) < len(self.kept) else 1.0) for g in grams}


def naive_discounts(counts: list[int]) -> tuple[float, float, float]:
    n = Counter(counts)
    if n[1] and n[2] and n[3]:
        y = n[1] / (n[1] + 2 * n[2])
        one, two, three = (j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3))
        if 0 <= one <= 1 and 0 <= two <= 2 and 0 <= three <= 3:
            return one, two, three
    return 0.5, 1.0, 1.5


def parsed_arpa(path: Path) -> dict[tuple[str, ...], tuple[float, float]]:
    """The n-grams of an ARPA file as they stand there, in log10."""
    grams = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if len(columns) > 1:
                words = tuple(columns[1].split(" "))
                grams[words] = (float(columns[0]), float(columns[2]) if len(columns) > 2 else 0.0)
    return grams


def katz(grams: Grams, context: Gram, word: int) -> tuple[float, int]:
    """log P(word | context) and the length of the n-gram found; a context that is not there backs off for free."""
    backoff = 0.0
    while (*context, word) not in grams:
        backoff += grams[context][1] if context in grams else 0.0
        context = context[1:]
    return backoff + grams[*context, word][0], len(context) + 1


def katz_stream(grams: Grams, order: int, stream: list[int], asked: int | None = None) -> list[tuple[float, int]]:
    """`katz` for each token of a stream of documents, or for always the same one in its place."""
    found = []
    context: Gram = (BEGIN,)
    for word in stream:
        history = context[len(context) - (order - 1) :] if len(context) >= order else context
        found.append(katz(grams, history, word if asked is None else asked))
        context = (BEGIN,) if word == END else (*context, word)
    return found


def grams_of(table: Table) -> Grams:
    """The n-grams of a table, spelled by walking down the trie."""
    grams: list[Gram] = [()] * len(table.words)
    inner = len(table.log_backoffs)
    for context in range(inner):
        for node in range(table.begin[context], table.begin[context + 1]):
            grams[node] = (*grams[context], int(table.words[node]))
    backoffs = [*table.log_backoffs.tolist(), *[0.0] * (len(grams) - inner)]
    return dict(zip(grams[1:], zip(table.log_probs[1:].tolist(), backoffs[1:], strict=True), strict=True))


def table_of(grams: Grams, order: int) -> Table:
    """A table of n-grams whose contexts are all among them."""
    levels = [sorted(g for g in grams if len(g) == n) for n in range(1, order + 1)]
    nodes: list[Gram] = [(), *(g for level in levels for g in level)]
    inner = nodes[: len(nodes) - len(levels[-1])]
    children = Counter(g[:-1] for g in nodes[1:])
    records = pack_records(
        words=np.array([g[-1] if g else 0 for g in nodes], np.int32),
        log_probs=np.array([grams[g][0] if g else 0 for g in nodes], np.float32),
        begin=np.cumsum([1, *(children[g] for g in inner)]).astype(np.int32),
        log_backoffs=np.array([grams[g][1] if g else 0 for g in inner], np.float32),
    )
    nothing = np.zeros(0, np.int32)
    return Table(tuple(len(level) for level in levels), *records, nothing, nothing)


def random_backoff_grams(seed: int, vocabulary_size: int, order: int) -> Grams:
    """A back-off model whose distributions sum to one; suffixes of its n-grams may be missing, as after pruning."""
    chance = random.Random(seed)
    words = [word for word in range(vocabulary_size) if word != BEGIN]
    grams: Grams = {(BEGIN,): (-math.inf, 0.0)}
    grams.update(zip([(word,) for word in words], _split(chance, 1.0, len(words)), strict=True))
    for n in range(2, order + 1):
        for context in [g for g in grams if len(g) == n - 1 and g[-1] != END]:
            seen = chance.sample(words, chance.randint(0, len(words) // 2))
            if seen:
                mass = chance.uniform(0.2, 0.8)
                lower = sum(math.exp(katz(grams, context[1:], word)[0]) for word in seen)
                grams[context] = (grams[context][0], math.log((1 - mass) / (1 - lower)))
                grams.update(zip([(*context, word) for word in seen], _split(chance, mass, len(seen)), strict=True))
    return grams


def _split(chance: random.Random, mass: float, parts: int) -> list[tuple[float, float]]:
    weights = [chance.uniform(0.1, 1) for _ in range(parts)]
    return [(math.log(mass * weight / sum(weights)), 0.0) for weight in weights]


def widened(table: Table) -> Table:
    """The same table with numbers of nodes in 64 bits, which only tables of billions of n-grams have."""
    records = pack_records(table.words, table.log_probs, table.begin.astype(np.int64), table.log_backoffs)
    return Table(table.level_sizes, *records, table.slots.astype(np.int64), table.suffixes.astype(np.int64))


def wild_table(seed: int, index_type: type[np.int32] | type[np.int64] = np.int32) -> Table:
    """The right shapes and nonsense in them, as a damaged file may hold. index_type: of the numbers of nodes."""
    chance = np.random.default_rng(seed)
    sizes = [int(size) for size in chance.integers(0, 9, chance.integers(1, 5))]
    sizes[0] = int(chance.integers(3, 9))
    inner = 1 + sum(sizes[:-1])
    nodes = inner + sizes[-1]
    extremes = [np.iinfo(index_type).min, -1, 0, 1, 2, nodes - 1, nodes, nodes + 1, np.iinfo(index_type).max]
    numbers = np.array([-np.inf, np.inf, np.nan, -1, 0, 1, 3e38], np.float32)
    words = chance.choice([-(2**31), -1, 2**31 - 1, *range(sizes[0] + 1)], nodes)
    begin = np.where(chance.random(inner + 1) < 0.5, chance.integers(0, nodes + 1, inner + 1), 0)
    begin = np.where(begin > 0, begin, chance.choice(extremes, inner + 1))
    slots = chance.choice([*extremes, *range(nodes)], chance.choice([0, 1, 9])).astype(index_type)
    suffixes = chance.choice([*extremes, *range(nodes)], nodes).astype(index_type)
    log_probs, log_backoffs = chance.choice(numbers, nodes), chance.choice(numbers, inner)
    records = pack_records(words.astype(np.int32), log_probs, begin.astype(index_type), log_backoffs)
    return Table(tuple(sizes), *records, slots, suffixes)
