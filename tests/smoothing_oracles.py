"""Every estimator, n-gram by n-gram with dictionaries, written from the textbooks' formulas; shares no code with them.

A context is a tuple of ids, as long as the document has room for. `prob(context, word)` is P(word | context).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oracles import BEGIN, END, UNKNOWN, naive_discounts

if TYPE_CHECKING:
    from collections.abc import Callable

    Gram = tuple[int, ...]
    Prob = Callable[[Gram, int], float]


class NaiveCounts:
    """How often each word follows each context, of 0 to order - 1 words."""

    def __init__(
        self,
        documents: list[list[int]],
        vocabulary_size: int,
        order: int,
        *,
        begins: str = "one",
        open_vocabulary: bool = True,
        prune: tuple[int, ...] = (0,),
    ) -> None:
        self.order, self.prune = order, prune
        self.begins = max(1, order - 1) if begins == "all" else 1
        self.events: list[tuple[Gram, int]] = []  # each word of the text with its whole history
        for document in documents:
            whole = [BEGIN] * self.begins + document + [END]
            for i in range(self.begins, len(whole)):
                self.events.append((tuple(whole[max(0, i - order + 1) : i]), whole[i]))
        self.after: dict[Gram, Counter[int]] = defaultdict(Counter)
        for history, word in self.events:
            for n in range(len(history) + 1):
                self.after[history[len(history) - n :]][word] += 1
        unseen_unknown = not open_vocabulary and not self.after[()][UNKNOWN]
        self.words = [w for w in range(vocabulary_size) if w != BEGIN and not (w == UNKNOWN and unseen_unknown)]

    def histories(self) -> set[Gram]:
        """Contexts in full, seen and unseen."""
        seen = {history for history, _ in self.events}
        strange = {(*history[1:], word) for history in seen for word in (UNKNOWN, 3) if len(history) == self.order - 1}
        return seen | (strange if self.order > 1 else set())

    def kept(self, history: Gram, word: int) -> bool:
        order = len(history) + 1
        threshold = self.prune[min(order, len(self.prune)) - 1] if order > 1 else 0
        return self.after[history][word] > threshold

    def level(self, order: int) -> Counter[tuple[Gram, int]]:
        return Counter({(h, w): c for h, f in self.after.items() if len(h) == order - 1 for w, c in f.items()})

    def adjusted(self) -> dict[Gram, Counter[int]]:
        """Kneser-Ney's: raw at the highest order and after <s>, else how many words stand before."""
        found: dict[Gram, Counter[int]] = {}
        for history, followers in list(self.after.items()):
            if len(history) == self.order - 1 or history[:1] == (BEGIN,):
                found[history] = Counter(followers)
            else:
                longer = [f for h, f in self.after.items() if len(h) == len(history) + 1 and h[1:] == history]
                found[history] = Counter({word: sum(word in f for f in longer) for word in followers})
        return found

    def uniform(self, word: int) -> float:
        return 1 / len(self.words) if word in self.words else 0.0


def maximum_likelihood(counts: NaiveCounts) -> Prob:
    def prob(history: Gram, word: int) -> float:
        while not counts.after[history]:
            history = history[1:]
        return counts.after[history][word] / counts.after[history].total()

    return prob


def lidstone(counts: NaiveCounts, k: float) -> Prob:
    def prob(history: Gram, word: int) -> float:
        if word not in counts.words:
            return 0.0
        followers = counts.after[history]
        return (followers[word] + k) / (followers.total() + k * len(counts.words))

    return prob


def interpolated(counts: NaiveCounts, alpha: Callable[[Gram, int], float]) -> Prob:
    """alpha for what is kept, and what is missing to one for the lower order."""

    @cache
    def gamma(history: Gram) -> float:
        return 1 - sum(alpha(history, w) for w in counts.after[history] if counts.kept(history, w))

    def prob(history: Gram, word: int) -> float:
        lower = prob(history[1:], word) if history else counts.uniform(word)
        if not counts.after[history]:
            return lower
        return (alpha(history, word) if counts.kept(history, word) else 0.0) + gamma(history) * lower

    return prob


def witten_bell(counts: NaiveCounts) -> Prob:
    def alpha(history: Gram, word: int) -> float:
        followers = counts.after[history]
        return followers[word] / (followers.total() + len(followers))

    return interpolated(counts, alpha)


def jelinek_mercer(counts: NaiveCounts, weight: Callable[[int, int], float]) -> Prob:
    """weight: by order and the context's count."""

    def alpha(history: Gram, word: int) -> float:
        total = counts.after[history].total()
        return weight(len(history) + 1, total) * counts.after[history][word] / total

    return interpolated(counts, alpha)


def discounted(
    counts: NaiveCounts, values: dict[Gram, Counter[int]], discounts: list[tuple[float, ...]], backing_off: bool
) -> Prob:
    """discounts: by order, for counts of 1, 2, ..., the last one for all larger."""

    @cache
    def alpha(history: Gram, word: int) -> float:
        row, count = discounts[len(history)], values[history][word]
        return (count - row[min(count, len(row)) - 1]) / values[history].total()

    if not backing_off:
        return interpolated(counts, alpha)

    @cache
    def gamma(history: Gram) -> tuple[float, float]:
        seen = [w for w in values[history] if counts.kept(history, w)]
        left, total = 1 - sum(alpha(history, w) for w in seen), values[history].total()
        scale = 1.0
        if left < 1e-12:  # nothing is discounted: one count is set aside
            scale, left = total / (total + 1), 1 / (total + 1)
        below = 1 - sum(prob(history[1:], w) if history else counts.uniform(w) for w in seen)
        if below > 1e-8:
            return scale, left / below
        return (scale / (1 - left), 0.0) if left < 1 - 1e-8 else (0.0, 1.0)

    @cache
    def prob(history: Gram, word: int) -> float:
        if not counts.after[history]:
            return prob(history[1:], word)
        scale, factor = gamma(history)
        if counts.kept(history, word) and scale:
            return alpha(history, word) * scale
        return factor * (prob(history[1:], word) if history else counts.uniform(word))

    return prob


def one_discount(level: Counter[tuple[Gram, int]]) -> tuple[float, ...]:
    n = Counter(level.values())
    return (n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else 0.75,)


def katz_discounts(level: Counter[tuple[Gram, int]]) -> tuple[float, ...]:
    n = Counter(level.values())
    for k in (5, 4, 3, 2, 1):
        if all(n[r] for r in range(1, k + 2)):
            common = (k + 1) * n[k + 1] / n[1]
            if common < 1:
                d = [((r + 1) * n[r + 1] / (r * n[r]) - common) / (1 - common) for r in range(1, k + 1)]
                if all(0 < x < 1 for x in d):
                    return (*(r * (1 - x) for r, x in enumerate(d, 1)), 0.0)
    return (0.0,)


def levels(values: dict[Gram, Counter[int]], order: int) -> list[Counter[tuple[Gram, int]]]:
    return [Counter({(h, w): c for h, f in values.items() if len(h) == n for w, c in f.items()}) for n in range(order)]


def absolute(counts: NaiveCounts, given: float | None = None) -> Prob:
    found = [(given,) if given else one_discount(counts.level(n)) for n in range(1, counts.order + 1)]
    return discounted(counts, counts.after, found, backing_off=False)


def good_turing(counts: NaiveCounts) -> Prob:
    found = [katz_discounts(counts.level(n)) for n in range(1, counts.order + 1)]
    return discounted(counts, counts.after, found, backing_off=True)


def kneser_ney(counts: NaiveCounts, *, backing_off: bool, modified: bool) -> Prob:
    values = counts.adjusted()
    found = [
        naive_discounts(list(level.values())) if modified else one_discount(level)
        for level in levels(values, counts.order)
    ]
    return discounted(counts, defaultdict(Counter, values), found, backing_off)


def stupid_backoff(counts: NaiveCounts, factor: float, vocabulary_size: int) -> Prob:
    def score(history: Gram, word: int) -> float:
        if counts.kept(history, word):
            return counts.after[history][word] / counts.after[history].total()
        if history:
            return factor * score(history[1:], word)
        return factor / (vocabulary_size - 1) if word in counts.words else 0.0

    return score


class Left(NamedTuple):
    """What is known of a word by an order: how often it follows, and how often anything does."""

    count: int
    total: int


def weights_by_em(
    counts: NaiveCounts, events: list[tuple[Gram, int]], *, left_out: bool, by_count: bool, steps: int
) -> dict[tuple[int, int], float]:
    """Weights by order and bucket, each with one more event that the lower order wins."""

    def bucket(total: int) -> int:
        return int(math.log2(total)) if by_count else 0

    weights: dict[tuple[int, int], float] = defaultdict(lambda: 0.5)
    for _ in range(steps):
        stopped: Counter[tuple[int, int]] = Counter()  # of floats
        reached: Counter[tuple[int, int]] = Counter()
        for history, word in events:
            chain: list[tuple[tuple[int, int], float]] = []
            for n in range(len(history) + 1):
                followers = counts.after[history[len(history) - n :]]
                known = Left(followers[word] - (left_out and word in followers), followers.total() - left_out)
                if known.total > 0 and followers:
                    chain.append(((n + 1, bucket(known.total)), known.count / known.total))
            probs = [counts.uniform(word)]
            for key, share in chain:
                probs.append(weights[key] * share + (1 - weights[key]) * probs[-1])
            reach = 1.0
            for i in range(len(chain) - 1, -1, -1):
                key, share = chain[i]
                reached[key] += reach  # type: ignore[assignment]
                stopped[key] += reach * weights[key] * share / probs[i + 1]  # type: ignore[assignment]
                reach *= (1 - weights[key]) * probs[i] / probs[i + 1]
        new = {key: stopped[key] / (reached[key] + 1) for key in reached}
        if all(abs(new[key] - weights[key]) < 1e-12 for key in new):
            break
        weights = defaultdict(lambda: 0.5, new)
    return weights
