"""The best ways through lattices of variants, by a channel and a language model: a beam that goes over many texts at once.

Position i of a text lies before its chunk i. An arc takes one or two chunks and has a variant: what may have been meant, as
tokens, and what the channel says. Tokens are scored only where a text has a choice, together with those since the last choice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import Scorer

    Tokens = Int32[ndarray, " T"]


class Variant(NamedTuple):
    """What may have been meant by one chunk, or two. surcharge: what unknown tokens cost besides P(<unk>). Nats."""

    text: str
    log_prob: float
    tokens: Tokens
    surcharge: float = 0.0


class Arc(NamedTuple):
    """A variant of `chunks` chunks of a text."""

    chunks: int
    variant: Variant


@dataclass
class Path:
    """A way through the first chunks of a text, with the arcs that it took.

    log_prob: of the channel, and of the language model for the tokens before `scored`.
    """

    log_prob: float = 0.0
    tokens: list[int] = field(default_factory=list)
    scored: int = 0
    arcs: tuple[Arc, ...] = ()

    def after(self, arc: Arc, *, weight: float) -> Path:
        added = arc.variant.log_prob + weight * arc.variant.surcharge
        tokens = [*self.tokens, *arc.variant.tokens.tolist()]
        return Path(self.log_prob + added, tokens, self.scored, (*self.arcs, arc))


def best_paths(
    model: Scorer, lattices: Sequence[Sequence[Sequence[Arc]]], *, beam: int, weight: float = 1.0
) -> list[list[Path]]:
    """For each text, up to `beam` ways through all of its chunks, </s> included, the best first.

    lattices: of each text, the arcs from each of its positions. weight: of the language model's log-probabilities.
    """
    scoring = _Scoring(model, weight)
    waiting: list[list[list[Path]]] = [[[] for _ in range(len(lattice) + 1)] for lattice in lattices]
    for paths in waiting:
        paths[0].append(Path())
    for position in range(max(map(len, lattices), default=0)):
        active = [i for i, lattice in enumerate(lattices) if position < len(lattice)]
        choosing = [
            i for i in active if len(lattices[i][position]) > 1 or len(waiting[i][position]) > beam
        ]
        extended = {
            i: [path.after(arc, weight=weight) for path in waiting[i][position] for arc in lattices[i][position]]
            for i in active
        }
        scoring.score([path for i in choosing for path in extended[i]])
        for i in active:
            for path in extended[i]:
                waiting[i][position + path.arcs[-1].chunks].append(path)
            waiting[i][position] = []
            following = waiting[i][position + 1]
            if len(following) > beam:
                scoring.score([path for path in following if path.scored < len(path.tokens)])
                waiting[i][position + 1] = sorted(following, key=lambda path: -path.log_prob)[:beam]
    ended = [paths[-1] for paths in waiting]
    scoring.score([path for paths in ended for path in paths], end=True)
    return [sorted(paths, key=lambda path: -path.log_prob)[:beam] for paths in ended]


class _Scoring:
    """Adds what a language model says of the tokens that a path has no score for yet."""

    def __init__(self, model: Scorer, weight: float) -> None:
        self._model, self._weight = model, weight
        order = getattr(model, "order", None)  # an n-gram model sees no further back
        self._reach = None if order is None else max(1, order - 1)

    def score(self, paths: Sequence[Path], *, end: bool = False) -> None:
        if not paths:
            return
        reach = self._reach
        contexts = [path.tokens[0 if reach is None else max(0, path.scored - reach) : path.scored] for path in paths]
        added = [path.tokens[path.scored :] for path in paths]
        rows = self._model.score(_as_arrays(added), prefixes=_as_arrays(contexts), end=end)
        for path, row in zip(paths, rows, strict=True):
            path.log_prob += self._weight * float(row.sum(dtype=np.float64))
            path.scored = len(path.tokens)


def _as_arrays(rows: Sequence[Sequence[int]]) -> list[Tokens]:
    """Rows as views of one array."""
    flat = np.fromiter((token for row in rows for token in row), np.int32, sum(map(len, rows)))
    ends = np.cumsum([len(row) for row in rows]).tolist()
    return [flat[end - len(row) : end] for row, end in zip(rows, ends, strict=True)]
