"""Beam search for the best paths through lattices of variants, by a channel and a language model, for many texts at
once.

Position i of a text is before its chunk i. An arc spans one or more chunks and has a variant: a text that may have been
meant, as tokens, and its log-probability under the channel. Tokens are scored only where a text has a choice, together
with those since the last choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import Scorer


class Variant(NamedTuple):
    """A text that some chunks may have meant. surcharge: the cost of unknown tokens besides P(<unk>), in nats."""

    text: str
    log_prob: float
    tokens: tuple[int, ...]
    surcharge: float = 0.0


_BEFORE = 2  # tokens before a text that it is judged by
NOTHING = -1  # in place of the number of a variant


class Variants(NamedTuple):
    """Texts as tokens: those of text i end before ids[ends[i]], which is </s>.

    numbers: of the texts. costs: of the spelling of unknown tokens, in nats.
    """

    numbers: dict[str, int]
    ids: Int32[ndarray, " tokens"]
    ends: Int64[ndarray, " texts"]
    costs: Float64[ndarray, " texts"]

    def of(self, text: str) -> tuple[tuple[int, ...], float]:
        """Return the tokens of a text, and their cost."""
        i = self.numbers[text]
        begin = int(self.ends[i - 1]) + 1 if i else 0
        return tuple(self.ids[begin : self.ends[i]].tolist()), float(self.costs[i])


class Arc(NamedTuple):
    """A variant that spans `chunks` chunks of a text."""

    chunks: int
    variant: Variant


class Path(NamedTuple):
    """A path through the first chunks of a text: its last arc, and the path before it.

    log_prob: the channel's, plus the language model's for all tokens except `pending`, in nats. context: the tokens
    before these, as far back as the model sees.
    """

    log_prob: float = 0.0
    context: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    before: Path | None = None
    arc: Arc | None = None

    def arcs(self) -> list[Arc]:
        """Return the arcs from the text's first chunk on."""
        arcs: list[Arc] = []
        path: Path | None = self
        while path is not None:
            if path.arc is not None:
                arcs.append(path.arc)
            path = path.before
        return arcs[::-1]

    def text(self) -> str:
        """Return the chunks that were meant, with a space between."""
        return " ".join(arc.variant.text for arc in self.arcs() if arc.variant.text)


def best_paths(
    model: Scorer,
    lattices: Sequence[Sequence[Sequence[Arc]]],
    *,
    beam: int,
    weight: float = 1.0,
    begin: tuple[int, ...] = (),
    end: bool = True,
) -> list[list[Path]]:
    """Return, for each text, up to `beam` paths through all of its chunks, best first.

    lattices: for each text, the arcs from each of its positions. weight: the factor of the language model's
    log-probabilities. begin: tokens before each text. end: whether </s> follows.
    """
    scoring = _Scoring(model, weight)
    waiting: list[list[list[Path]]] = [[[] for _ in range(len(lattice) + 1)] for lattice in lattices]
    for positions in waiting:
        positions[0].append(Path(context=begin))
    for position in range(max(map(len, lattices), default=0)):
        active = [i for i, lattice in enumerate(lattices) if position < len(lattice)]
        for i, paths in zip(active, scoring.narrowed([waiting[i][position] for i in active], beam), strict=True):
            waiting[i][position] = paths
        choosing = [i for i in active if len(lattices[i][position]) > 1]
        pairs = [(path, arc) for i in choosing for path in waiting[i][position] for arc in lattices[i][position]]
        log_probs = iter(scoring.log_probs_of(pairs).tolist())
        for i in active:
            arcs, paths = lattices[i][position], waiting[i][position]
            waiting[i][position] = []
            if len(arcs) > 1:
                totals = [
                    (path.log_prob + arc.variant.log_prob + next(log_probs), path, arc)
                    for path in paths
                    for arc in arcs
                ]
                best = sorted(totals, key=_by_total)[:beam] if len(totals) > beam else totals
                for total, path, arc in best:
                    context = scoring.context(path.context + path.pending + arc.variant.tokens)
                    waiting[i][position + arc.chunks].append(Path(total, context, (), path, arc))
            else:
                [arc] = arcs
                cost = arc.variant.log_prob + weight * arc.variant.surcharge
                waiting[i][position + 1] += [
                    Path(path.log_prob + cost, path.context, path.pending + arc.variant.tokens, path, arc)
                    for path in paths
                ]
    ended = scoring.scored([path for positions in waiting for path in positions[-1]], end=end)
    results, first = [], 0
    for positions in waiting:
        stop = first + len(positions[-1])
        results.append(sorted(ended[first:stop], key=_by_log_prob)[:beam])
        first = stop
    return results


def local_log_probs(
    model: Scorer,
    variants: Variants,
    before: Sequence[int] | Int64[ndarray, " rows"],
    middle: Sequence[int] | Int64[ndarray, " rows"],
    after: Sequence[int] | Int64[ndarray, " rows"],
) -> Float64[ndarray, " rows"]:
    """Return log P of a text and of the first token after it, given the last two before it, by an n-gram model, in
    nats.

    before, middle, after: numbers of variants; the first and the last may be NOTHING.
    """
    before, middle, after = (np.asarray(part, np.int64) for part in (before, middle, after))
    if not middle.size:
        return np.empty(0)
    ends = variants.ends
    begins = np.concatenate([[0], ends[:-1] + 1])
    sizes = np.stack(
        [
            np.where(before < 0, 0, np.minimum(_BEFORE, (ends - begins)[before])),
            (ends - begins)[middle],
            np.where(after < 0, 0, np.minimum(1, (ends - begins)[after])),
            np.ones(middle.size, np.int64),  # </s>, which parts the rows
        ],
        axis=1,
    )
    starts = np.stack([ends[before] - sizes[:, 0], begins[middle], begins[after], ends[middle]], axis=1)
    stops = np.cumsum(sizes)
    flat = np.arange(stops[-1]) + np.repeat(starts.ravel() - (stops - sizes.ravel()), sizes.ravel())
    scores = model.score_stream(variants.ids[flat]).astype(np.float64)
    totals = np.concatenate([[0.0], np.cumsum(scores)])
    stops = stops.reshape(sizes.shape)
    return totals[stops[:, 2]] - totals[stops[:, 0]] + variants.costs[middle]


def _by_total(extension: tuple[float, Path, Arc]) -> float:
    return -extension[0]


def _by_log_prob(path: Path) -> float:
    return -path.log_prob


class _Scoring:
    """Scores of the tokens after a path, by a language model."""

    def __init__(self, model: Scorer, weight: float) -> None:
        self._model, self._weight = model, weight
        order = getattr(model, "order", None)  # an n-gram model sees no further back
        self._reach = None if order is None else max(1, order - 1)

    def log_probs_of(self, pairs: Sequence[tuple[Path, Arc]]) -> Float64[ndarray, " pairs"]:
        """Return the weighted log-probability that each arc adds to its path: of its tokens and of the pending ones."""
        contexts = [path.context for path, _ in pairs]
        added = [path.pending + arc.variant.tokens for path, arc in pairs]
        surcharges = np.array([arc.variant.surcharge for _, arc in pairs], np.float64)
        return self._weight * (self._sums(contexts, added, end=False) + surcharges)

    def scored(self, paths: Sequence[Path], *, end: bool = False) -> list[Path]:
        """Return the paths with all of their tokens scored. end: with </s> after them."""
        sums = self._sums([path.context for path in paths], [path.pending for path in paths], end=end)
        return [
            path._replace(
                log_prob=path.log_prob + self._weight * added,
                context=self.context(path.context + path.pending),
                pending=(),
            )
            for path, added in zip(paths, sums.tolist(), strict=True)
        ]

    def narrowed(self, groups: Sequence[list[Path]], beam: int) -> list[list[Path]]:
        """Return the best paths of each group with more than the beam holds; other groups unchanged."""
        wide = [i for i, paths in enumerate(groups) if len(paths) > beam]
        scored = iter(self.scored([path for i in wide for path in groups[i]]) if wide else [])
        narrowed = list(groups)
        for i in wide:
            narrowed[i] = sorted((next(scored) for _ in groups[i]), key=_by_log_prob)[:beam]
        return narrowed

    def context(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Return the last tokens, as far back as the model sees."""
        return tokens if self._reach is None else tokens[-self._reach :]

    def _sums(
        self, contexts: Sequence[tuple[int, ...]], added: Sequence[tuple[int, ...]], *, end: bool
    ) -> Float64[ndarray, " rows"]:
        """Return log P of the added tokens of each row, after its context."""
        if not added:
            return np.empty(0)
        if self._reach is None:
            rows = self._model.score(_as_arrays(added), prefixes=_as_arrays(contexts), end=end)
            return np.array([row.sum(dtype=np.float64) for row in rows])
        # As documents of one stream: an n-gram model then needs no array for each row.
        flat = [token for context, tokens in zip(contexts, added, strict=True) for token in (*context, *tokens, END)]
        scores = self._model.score_stream(np.array(flat, np.int32)).astype(np.float64)
        before, sizes = (np.fromiter(map(len, rows), np.int64, len(rows)) for rows in (contexts, added))
        first = np.cumsum(before + sizes + 1) - sizes - 1
        counted = np.zeros(scores.size + 1, np.int64)
        np.add.at(counted, first, 1)
        np.add.at(counted, first + sizes + end, -1)
        scores[np.cumsum(counted[:-1]) == 0] = 0.0
        return np.add.reduceat(scores, np.cumsum(before + sizes + 1) - (before + sizes + 1))


def _as_arrays(rows: Sequence[Sequence[int]]) -> list[Int32[ndarray, " T"]]:
    """Return rows as views of one array."""
    flat = np.fromiter((token for row in rows for token in row), np.int32, sum(map(len, rows)))
    ends = np.cumsum([len(row) for row in rows]).tolist()
    return [flat[end - len(row) : end] for row, end in zip(rows, ends, strict=True)]
