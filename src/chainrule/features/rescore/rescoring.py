"""Rescores lists: features batch by batch, the data for tuning weights, choices, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError
from chainrule.evaluation.resampling import Estimate, interval_of_sums
from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors
from chainrule.features.rescore.features import Features, batches_of, features_of, first_of_best
from chainrule.features.rescore.lists.nbest_files import TOTAL
from chainrule.features.rescore.tuning import maximum_likelihood, minimum_error_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.features.metrics.error_rates import CorpusMeasure
    from chainrule.features.rescore.config import Objective, TuningConfig
    from chainrule.features.rescore.features import HypothesisScorer
    from chainrule.features.rescore.lists.nbest import NBestList

STAGES = ("before", "after", "oracle")


@dataclass(frozen=True)
class Scored:
    """Lists with the features of their hypotheses and, if there are references, their word errors."""

    lists: Sequence[NBestList]
    features: Features
    errors: Int64[ndarray, "hypotheses 2"] | None = None

    def oracles(self) -> Int64[ndarray, " lists"]:
        """Return the row of each list's hypothesis with the fewest word errors; of equal ones, the first."""
        assert self.errors is not None
        return first_of_best(-self.errors[:, 0].astype(np.float64), self.features.offsets)

    def texts(self) -> list[str]:
        return [text for nbest in self.lists for text in nbest.texts]

    def references(self) -> list[str]:
        """Return the reference of each hypothesis."""
        return [nbest.reference or "" for nbest in self.lists for _ in nbest.texts]


def score_lists(lists: Iterable[NBestList], models: dict[str, HypothesisScorer]) -> Iterator[Scored]:
    """Return the lists batch by batch, on threads: memory holds a few batches. Raises SettingError, MarkerError."""

    def with_features(batch: list[NBestList]) -> Scored:
        block = Scored(batch, features_of(batch, models))
        if batch[0].reference is None:
            return block
        return replace(block, errors=WordErrors().statistics(block.texts(), block.references()))

    return map_in_order(with_features, batches_of(lists))


@dataclass(frozen=True)
class TuningData:
    """The data that tuning needs from lists with references: numbers, without texts."""

    features: Features
    errors: Int64[ndarray, "hypotheses 2"]
    statistics: Int64[ndarray, "hypotheses statistics"]  # of the measure that is tuned
    measure: CorpusMeasure

    @classmethod
    def of(cls, blocks: Iterable[Scored], objective: Objective) -> TuningData:
        """Return the data of scored lists. Raises SettingError if BLEU is asked for and cannot be measured."""
        measure = measure_of(objective)
        features, errors, statistics = [], [], []
        for block in blocks:
            assert block.errors is not None
            features.append(block.features)
            errors.append(block.errors)
            is_word = isinstance(measure, WordErrors)
            own = block.errors if is_word else measure.statistics(block.texts(), block.references())
            statistics.append(own)
        return cls(Features.joined(features), np.concatenate(errors), np.concatenate(statistics), measure)

    def replayed(self, lists: Iterable[NBestList]) -> Iterator[Scored]:
        """Yield the blocks that `score_lists` returned for the same lists, without scoring them again."""
        first = row = 0
        for batch in batches_of(lists):
            last, stop = first + len(batch), row + sum(map(len, batch))
            offsets = self.features.offsets[first : last + 1] - row
            features = replace(self.features, values=self.features.values[row:stop], offsets=offsets)
            yield Scored(batch, features, self.errors[row:stop])
            first, row = last, stop

    def tuned(
        self,
        objective: Objective,
        start: Float64[ndarray, " features"],
        config: TuningConfig,
        progress: Progress = silent,
    ) -> Float64[ndarray, " features"]:
        """Return the best weights, searched from the given ones."""
        if objective == "likelihood":
            nearest = first_of_best(-self.errors[:, 0].astype(np.float64), self.features.offsets)
            return maximum_likelihood(self.features, nearest, start, progress)
        if not start[0]:
            raise SettingError(f"the weight of {self.features.names[0]} is 0, and tuning keeps it; give it another one")
        return minimum_error_rate(self.features, self.statistics, self.measure, start, config, progress)

    def value(self, weights: Float64[ndarray, " features"]) -> float:
        """Return the measure of the hypotheses that some weights choose."""
        return float(self.measure.value(self.statistics[self.features.best(weights)].sum(axis=0).astype(np.float64)))


def measure_of(objective: Objective) -> CorpusMeasure:
    """Return the measure that is counted for an objective; word errors for likelihood. Raises SettingError."""
    if objective == "bleu":
        from chainrule.features.metrics.bleu import Bleu

        return Bleu()
    return CharacterErrors() if objective == "cer" else WordErrors()


class RerankingEvaluation:
    """Compares the choices with the references: before (by own scores alone), after, and at best (the oracle).

    The oracle is the hypothesis of each list with the fewest word errors.
    """

    def __init__(self, measures: Sequence[CorpusMeasure]) -> None:
        self.measures = measures
        self._rows: dict[str, list[Int64[ndarray, "lists statistics"]]] = {}

    def add(self, block: Scored, before: Int64[ndarray, " lists"], after: Int64[ndarray, " lists"]) -> None:
        """Add the choices of a block. before, after: the chosen row of each list."""
        texts = block.texts()
        chosen = np.concatenate([before, after, block.oracles()]).tolist()
        pairs = [
            (texts[row], nbest.reference or "") for row, nbest in zip(chosen, chain(*[block.lists] * 3), strict=True)
        ]
        distinct = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        where = np.array([distinct[pair] for pair in pairs])
        for measure in self.measures:
            statistics = measure.statistics([text for text, _ in distinct], [reference for _, reference in distinct])
            for stage, rows in zip(STAGES, np.split(statistics[where], 3), strict=True):
                self._rows.setdefault(measure.name + stage, []).append(rows)

    def figure(self, measure: CorpusMeasure, stage: str) -> Estimate:
        rows = np.concatenate(self._rows[measure.name + stage])
        value = float(measure.value(rows.sum(axis=0).astype(np.float64)))
        return Estimate(value, interval_of_sums([rows], measure.value))

    def change(self, measure: CorpusMeasure) -> Estimate:
        """Return the difference from before to after, on the same lists."""
        both = [np.concatenate(self._rows[measure.name + stage]) for stage in STAGES[:2]]

        def difference(before: ndarray, after: ndarray) -> ndarray:
            old, new = measure.value(before), measure.value(after)
            return np.subtract(new, old, out=np.zeros_like(new), where=new != old)  # both may be infinite

        before, after = (rows.sum(axis=0).astype(np.float64) for rows in both)
        return Estimate(float(difference(before, after)), interval_of_sums(both, difference))


@dataclass(frozen=True)
class Reranker:
    """Chooses by weighted sums. own: the weights for the lists' own scores alone, as before rescoring."""

    weights: Float64[ndarray, " features"]
    own: Float64[ndarray, " features"]

    def before(self, block: Scored) -> Int64[ndarray, " lists"]:
        """Return the row of each list's best hypothesis by its own scores."""
        return block.features.best(self.own)

    def after(self, block: Scored) -> Int64[ndarray, " lists"]:
        """Return the row of each list's best hypothesis by all scores."""
        return block.features.best(self.weights)

    def rows(self, block: Scored) -> Iterator[dict[str, Any]]:
        """A row for each list: its best hypothesis by all scores, with these, and by its own scores alone; and with
        references whether it is right, and the word errors of both and of the best possible choice.
        """
        texts, errors = block.texts(), block.errors
        chosen = zip(self.before(block).tolist(), self.after(block).tolist(), strict=True)
        starts = block.features.offsets[:-1].tolist()
        for (nbest, scores, _), start, (before, after) in zip(self.ranked(block), starts, chosen, strict=True):
            row: dict[str, Any] = {"id": nbest.id, "text": texts[after], "text_before": texts[before]}
            row |= {"changed": texts[after] != texts[before], "hypotheses": len(nbest)}
            for name, values in scores.items():
                row[f"score_{name}" if name in row else name] = values[after - start]
            row[f"{TOTAL}_before"] = scores[TOTAL][before - start]
            if errors is not None:
                of_list = errors[start : start + len(nbest), 0]
                row |= {"reference": nbest.reference, "right": bool(errors[after, 0] == 0)}
                row |= {"errors": int(errors[after, 0]), "errors_before": int(errors[before, 0])}
                row |= {"errors_oracle": int(of_list.min()), "words": int(errors[after, 1])}
            yield row

    def ranked(self, block: Scored) -> Iterator[tuple[NBestList, dict[str, list[float]], list[int]]]:
        """Yield each list with its scores, the total last, and the order of its hypotheses, best first.

        A hypothesis that a model finds impossible has the score -inf, and so is its total, unless the model's weight is
        0.
        """
        features, own = block.features, len(block.lists[0].scores)
        totals = features.totals(self.weights)
        impossible = features.impossible(own)
        values = features.values.copy()
        values[:, own:-1][impossible] = -np.inf
        shown = np.where((impossible & (self.weights[own:-1] != 0)).any(axis=1), -np.inf, totals)
        for nbest, start, stop in zip(block.lists, features.offsets[:-1], features.offsets[1:], strict=True):
            columns = values[start:stop].T.tolist()
            scores = dict(zip(features.names[:-1], columns, strict=False))
            scores[TOTAL] = shown[start:stop].tolist()
            yield nbest, scores, np.argsort(-totals[start:stop], kind="stable").tolist()
