"""How good rankings are, given judgements of relevance: average precision and discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEPTH = 10  # of nDCG


@dataclass(frozen=True)
class RankingFigures:
    """Means over the queries that have a relevant document."""

    queries: int
    map: float
    ndcg: float  # of the first DEPTH documents

    def to_dict(self) -> dict[str, Any]:
        return {"queries": self.queries, "map": self.map, f"ndcg_{DEPTH}": self.ndcg}


def average_precision(ranking: Sequence[str], relevance: Mapping[str, int]) -> float:
    """Return the mean, over all relevant documents, of the precision where each is found; 0 for one that is not
    ranked.
    """
    relevant = sum(grade > 0 for grade in relevance.values())
    precisions: list[float] = []
    for rank, document in enumerate(ranking, 1):
        if relevance.get(document, 0) > 0:
            precisions.append((len(precisions) + 1) / rank)
    return sum(precisions) / relevant


def ndcg(ranking: Sequence[str], relevance: Mapping[str, int], depth: int = DEPTH) -> float:
    """Return normalised discounted cumulative gain, with gains 2^grade - 1 (Burges et al. 2005)."""
    best = sorted(relevance.values(), reverse=True)
    return _dcg([relevance.get(document, 0) for document in ranking[:depth]]) / _dcg(best[:depth])


def _dcg(grades: Sequence[int]) -> float:
    gains = 2.0 ** np.array(grades, np.float64) - 1
    return float((gains / np.log2(np.arange(2, len(grades) + 2))).sum())


def measure_rankings(
    rankings: Mapping[str, Sequence[str]], judgements: Mapping[str, Mapping[str, int]]
) -> RankingFigures | None:
    """Return the figures of rankings; None if no query has a relevant document.

    rankings: the documents of each query, best first. judgements: the grade of each judged document of a query. None if
    no query has a relevant document.
    """
    judged = {
        query: grades
        for query, grades in judgements.items()
        if query in rankings and any(grade > 0 for grade in grades.values())
    }
    if not judged:
        return None
    precisions = [average_precision(rankings[query], grades) for query, grades in judged.items()]
    gains = [ndcg(rankings[query], grades) for query, grades in judged.items()]
    return RankingFigures(len(judged), float(np.mean(precisions)), float(np.mean(gains)))
