"""The best texts of lattices: exact for n-gram models, by dynamic programming over lattice nodes and model states.

A lattice and an n-gram model are one graph, whose nodes are a node of the lattice with a state of the model: the best
path through it is the best text. The n best texts come in order by A* over beginnings of texts: a beginning holds, for
each node that it may lead to, its best path there, and the best rest of every path is known from a pass backwards, so
that only beginnings of the n texts are extended. Texts are distinct; of the paths of one text, the best counts.
(M. Mohri and M. Riley, An efficient algorithm for the n-best-strings problem, 2002.)
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

import numpy as np

from chainrule.features.rescore.features import IMPOSSIBLE, SpelledScorer, names_of
from chainrule.features.rescore.lattices import Unreadable
from chainrule.features.rescore.lists.nbest import NBestList
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.features.rescore.features import HypothesisScorer
    from chainrule.features.rescore.lattices import Lattice
    from chainrule.features.rescore.tuning import Weights
    from chainrule.protocol import LanguageModel

Contexts = tuple[int, ...]  # of the models, each by its number


class Path(NamedTuple):
    """A text of a lattice, with the scores of its best path, in the order of the lattice's names."""

    text: str
    scores: tuple[float, ...]
    total: float


class LatticeSearch:
    """The best texts of lattices as n-best lists, by weighted sums of the lattices' scores, models and words.

    left_out: the names of models that are no n-gram models; lists are the best without them.
    """

    def __init__(self, scorers: Mapping[str, HypothesisScorer], weights: Weights, nbest: int) -> None:
        self._scorers, self._weights, self._nbest = dict(scorers), weights, nbest
        self._searched = {name: scorer for name, scorer in scorers.items() if _can_search_with(scorer)}
        self.left_out = [name for name in scorers if name not in self._searched]

    def lists(
        self, lattices: Iterable[Lattice | Unreadable], on_unreadable: Callable[[Unreadable], object]
    ) -> Iterator[NBestList]:
        """Yield the lists of lattices, without those that are wrong. Raises TextError of the first, if all are
        wrong.
        """
        first: Unreadable | None = None
        is_empty = True
        for lattice in lattices:
            if isinstance(lattice, Unreadable):
                if is_empty and first is None:
                    first = lattice  # it may be the only one
                else:
                    on_unreadable(lattice)
                continue
            if first is not None and is_empty:
                on_unreadable(first)
            is_empty = False
            yield self.nbest(lattice)
        if is_empty and first is not None:
            raise first.error

    def nbest(self, lattice: Lattice) -> NBestList:
        """Return the best texts, best first, and the best one by its own scores alone.

        Raises SettingError, MarkerError.
        """
        replaced = (
            lattice.priors if self._searched else ()
        )  # without a model in its place, the old one leads the search
        names = names_of(lattice.names, self._scorers)
        weights = self._weights.with_defaults(names, replaced).values
        own = [weights[name] for name in lattice.names]
        models = [(weights[name], scorer) for name, scorer in self._searched.items() if weights[name]]
        paths = best_paths(lattice, own, models, weights[names[-1]], self._nbest)
        before = self._weights.with_defaults(names).values
        [first] = best_paths(lattice, [before[name] for name in lattice.names], [], 0.0, 1)
        if all(path.text != first.text for path in paths):
            paths.append(first)
        scores = {name: tuple(path.scores[i] for path in paths) for i, name in enumerate(lattice.names)}
        return NBestList(lattice.id, tuple(path.text for path in paths), scores, lattice.place, priors=lattice.priors)


def _can_search_with(scorer: HypothesisScorer) -> TypeGuard[SpelledScorer]:
    """Return whether a model has the states of n-grams, a row of an array each."""
    if not isinstance(scorer, SpelledScorer) or not isinstance(getattr(scorer.model, "order", None), int):
        return False
    model = scorer.model
    return hasattr(model, "log_probs_of") and isinstance(cast("Any", model).start([np.empty(0, np.int32)]), np.ndarray)


def best_paths(
    lattice: Lattice,
    own: Sequence[float],
    models: Sequence[tuple[float, SpelledScorer]],
    words: float,
    nbest: int,
) -> list[Path]:
    """Return the best texts of a lattice, best first, by own . scores + the sum of weight x log P + words x their
    number.

    models: with their weights. The models must be n-gram models.
    """
    graph = _Graph(lattice, own, [(weight, _Words(scorer)) for weight, scorer in models], words)
    return graph.best(nbest)


class _Edge(NamedTuple):
    target: int
    word: str
    total: float
    scores: tuple[float, ...]


class _Graph:
    """A lattice with the states of models: a vertex is a node with a context of each model."""

    def __init__(
        self, lattice: Lattice, own: Sequence[float], models: Sequence[tuple[float, _Words]], words: float
    ) -> None:
        self._lattice, self._own, self._models, self._words = lattice, own, models, words
        self._order: list[int] = []  # all vertices, so that edges lead to later ones
        self._spoken: dict[int, list[_Edge]] = {}  # the edges with words, by vertex
        self._silent: dict[int, list[_Edge]] = {}
        self._ends: dict[int, tuple[float, tuple[float, ...]]] = {}  # the total of ending at a vertex, and its scores
        self._build()
        self._places = {vertex: place for place, vertex in enumerate(self._order)}
        self._rests = self._best_rests()

    def _build(self) -> None:
        lattice = self._lattice
        numbers: list[dict[Contexts, int]] = [{} for _ in lattice.arcs]  # of vertices by node, as they are found
        numbers[0][(0,) * len(self._models)] = 0
        size = 1
        for level in _levels(lattice):
            self._learn(level, numbers)
            for node in level:
                arcs = [(arc.target, arc.word, self._total(arc.scores), arc.scores) for arc in lattice.arcs[node]]
                for contexts, vertex in numbers[node].items():
                    self._order.append(vertex)
                    spoken = self._spoken[vertex] = []
                    silent = self._silent[vertex] = []
                    if node in lattice.finals:
                        self._ends[vertex] = self._end(node, contexts)
                    for target, word, total, scores in arcs:
                        after = contexts
                        if word:
                            total, after = self._said(word, total, contexts)
                        following = numbers[target].setdefault(after, size)
                        size += following == size
                        (spoken if word else silent).append(_Edge(following, word, total, scores))

    def _learn(self, level: Sequence[int], numbers: Sequence[Mapping[Contexts, int]]) -> None:
        """Score the words after the nodes of a level at once."""
        finals = self._lattice.finals
        for i, (_, model) in enumerate(self._models):
            pairs = {
                (contexts[i], arc.word)
                for node in level
                for arc in self._lattice.arcs[node]
                if arc.word
                for contexts in numbers[node]
            }
            model.learn(pairs, {contexts[i] for node in level if node in finals for contexts in numbers[node]})

    def _said(self, word: str, total: float, contexts: Contexts) -> tuple[float, Contexts]:
        """Return the total with a word's part, and the contexts after it."""
        total += self._words
        after = []
        for (weight, model), context in zip(self._models, contexts, strict=True):
            log_prob, following = model.known[context, word]
            total += weight * log_prob
            after.append(following)
        return total, tuple(after)

    def _end(self, node: int, contexts: Contexts) -> tuple[float, tuple[float, ...]]:
        scores = self._lattice.finals[node]
        pairs = zip(self._models, contexts, strict=True)
        return self._total(scores) + sum(weight * model.ends[context] for (weight, model), context in pairs), scores

    def _total(self, scores: Sequence[float]) -> float:
        return sum(weight * score for weight, score in zip(self._own, scores, strict=True))

    def _best_rests(self) -> dict[int, float]:
        """Return the best total of what may follow each vertex."""
        rests: dict[int, float] = {}
        for vertex in reversed(self._order):
            ways = [edge.total + rests[edge.target] for edge in self._spoken[vertex]]
            ways += [edge.total + rests[edge.target] for edge in self._silent[vertex]]
            if vertex in self._ends:
                ways.append(self._ends[vertex][0])
            rests[vertex] = max(ways)
        return rests

    def best(self, nbest: int) -> list[Path]:
        """Return the best texts, best first; fewer where the lattice has fewer."""
        nothing = (0.0,) * len(self._lattice.names)
        numbers = count()  # of equal totals, what was found first comes first
        paths: list[Path] = []
        waiting: list[tuple[float, int, tuple[str, ...], Beginning | Path]] = []
        heapq.heappush(waiting, (-self._rests[0], next(numbers), (), {0: (0.0, nothing)}))
        while waiting and len(paths) < nbest:
            _, _, words, item = heapq.heappop(waiting)
            if isinstance(item, Path):
                paths.append(item)
                continue
            self._close(item)
            ended = [
                (total + self._ends[vertex][0], _sum(scores, self._ends[vertex][1]))
                for vertex, (total, scores) in item.items()
                if vertex in self._ends
            ]
            if ended:
                total, scores = max(ended, key=lambda pair: pair[0])
                heapq.heappush(waiting, (-total, next(numbers), words, Path(" ".join(words), scores, total)))
            for word, beginning in self._longer(item).items():
                bound = max(total + self._rests[vertex] for vertex, (total, _) in beginning.items())
                heapq.heappush(waiting, (-bound, next(numbers), (*words, word), beginning))
        return paths

    def _close(self, beginning: Beginning) -> None:
        """Add the vertices that are reached without a word."""
        pending = sorted(self._places[vertex] for vertex in beginning if self._silent[vertex])  # a heap
        while pending:
            vertex = self._order[heapq.heappop(pending)]
            total, scores = beginning[vertex]
            for edge in self._silent[vertex]:
                if edge.target not in beginning:
                    heapq.heappush(pending, self._places[edge.target])
                _improve(beginning, edge, total, scores)

    def _longer(self, beginning: Beginning) -> dict[str, Beginning]:
        """Return the beginnings with one more word, by the word."""
        longer: dict[str, Beginning] = {}
        for vertex, (total, scores) in beginning.items():
            for edge in self._spoken[vertex]:
                _improve(longer.setdefault(edge.word, {}), edge, total, scores)
        return longer


Beginning = dict[int, tuple[float, tuple[float, ...]]]  # by vertex, the total and own scores of the best path to it


def _improve(beginning: Beginning, edge: _Edge, total: float, scores: tuple[float, ...]) -> None:
    """Enter a path that goes on by an edge, if it is the best one to its target."""
    total += edge.total
    if edge.target not in beginning or total > beginning[edge.target][0]:
        beginning[edge.target] = total, _sum(scores, edge.scores)


def _sum(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _levels(lattice: Lattice) -> list[list[int]]:
    """Return the nodes by the length of the longest path to them, so that arcs lead to later levels."""
    depths = [0] * len(lattice.arcs)
    for node, arcs in enumerate(lattice.arcs):
        for arc in arcs:
            depths[arc.target] = max(depths[arc.target], depths[node] + 1)
    levels: list[list[int]] = [[] for _ in range(max(depths) + 1)]
    for node, depth in enumerate(depths):
        levels[depth].append(node)
    return levels


class _Words:
    """An n-gram model's scores of words after contexts, which are numbered rows of its state; 0 is the start of a text.

    known: log P of a word after a context, in nats, and the context after it. ends: log P of the end of a text.
    """

    def __init__(self, scorer: SpelledScorer) -> None:
        self._scorer, self._model = scorer, cast("LanguageModel[Any]", scorer.model)
        [start] = self._model.start([np.empty(0, np.int32)])
        self._rows = [start]
        self._numbers: dict[bytes, int] = {}  # without the start, after which words may have other tokens
        self._tokens: dict[tuple[str, bool], tuple[Int32[ndarray, " T"], float]] = {}
        self.known: dict[tuple[int, str], tuple[float, int]] = {}
        self.ends: dict[int, float] = {}

    def learn(self, pairs: set[tuple[int, str]], ending: set[int]) -> None:
        """Score words after contexts, and the end of a text there, as far as they are not known."""
        new = sorted(pairs - self.known.keys())
        if new:
            self._encode({(word, context == 0) for context, word in new} - self._tokens.keys())
            tokens, spelled = zip(*(self._tokens[word, context == 0] for context, word in new), strict=True)
            log_probs, states = np.array(spelled, np.float64), self._states([context for context, _ in new])
            for place in range(max(map(len, tokens))):
                rows = np.flatnonzero([place < len(own) for own in tokens])
                ids = np.array([tokens[row][place] for row in rows], np.int32)
                log_probs[rows] += self._model.log_probs_of(states[rows], np.arange(len(rows), dtype=np.int32), ids)
                states[rows] = self._model.advance(states[rows], ids)
            for (context, word), own, log_prob, state in zip(new, tokens, log_probs.tolist(), states, strict=True):
                self.known[context, word] = max(log_prob, IMPOSSIBLE), self._number(state) if len(own) else context
        left = sorted(ending - self.ends.keys())
        if left:
            rows, ids = np.arange(len(left), dtype=np.int32), np.full(len(left), END, np.int32)
            log_probs = self._model.log_probs_of(self._states(left), rows, ids)
            self.ends |= zip(left, np.maximum(log_probs, IMPOSSIBLE).tolist(), strict=True)

    def _states(self, contexts: Sequence[int]) -> ndarray:
        return np.array([self._rows[context] for context in contexts])

    def _number(self, state: ndarray) -> int:
        number = self._numbers.setdefault(state.tobytes(), len(self._rows))
        if number == len(self._rows):
            self._rows.append(state.copy())
        return number

    def _encode(self, words: set[tuple[str, bool]]) -> None:
        """Encode words at the beginning of a text or after another word, and store the cost of their spelling."""
        ordered = sorted(words)
        texts = [word if is_first else f"{word} {word}" for word, is_first in ordered]
        ids, spellings = self._scorer.encode(texts)
        firsts = self._scorer.encode([word for word, _ in ordered])[0]
        for (word, is_first), own, costs, first in zip(ordered, ids, spellings, firsts, strict=True):
            begin = 0 if is_first else len(first)
            self._tokens[word, is_first] = own[begin:], float(costs[begin:].sum())
