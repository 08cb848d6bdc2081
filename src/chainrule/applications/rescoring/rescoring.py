"""From lists to choices: features block by block, the lists that weights are tuned on, and what a choice is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.applications.nbest.writing import TOTAL
from chainrule.applications.rescoring.features import Features, features_of, first_of_best, together
from chainrule.applications.rescoring.likelihood_tuning import most_likely
from chainrule.applications.rescoring.tuning import TuningConfig, least_errors
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError
from chainrule.evaluation.error_rates import CharacterErrors, WordErrors
from chainrule.evaluation.resampling import interval_of_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.applications.nbest.lists import NBestList
    from chainrule.applications.rescoring.features import TextScorer
    from chainrule.evaluation.error_rates import CorpusMeasure

Objective = Literal["wer", "cer", "bleu", "likelihood"]
OBJECTIVES: tuple[Objective, ...] = ("wer", "cer", "bleu", "likelihood")
STAGES = ("before", "after", "oracle")


@dataclass(frozen=True)
class Scored:
    """Some lists, with the features of their hypotheses, and, where there are references, their word errors."""

    lists: Sequence[NBestList]
    features: Features
    errors: Int64[ndarray, "hypotheses 2"] | None = None

    def oracles(self) -> Int64[ndarray, " lists"]:
        """The row of each list's hypothesis with the fewest word errors; of equal ones, the first."""
        assert self.errors is not None
        return first_of_best(-self.errors[:, 0].astype(np.float64), self.features.offsets)

    def texts(self) -> list[str]:
        return [text for found in self.lists for text in found.texts]

    def references(self) -> list[str]:
        """A list's reference for each of its hypotheses."""
        return [found.reference or "" for found in self.lists for _ in found.texts]


def scored(lists: Iterable[NBestList], models: dict[str, TextScorer]) -> Iterator[Scored]:
    """Some lists at a time, on threads: memory holds a few blocks of them. Raises SettingError, MarkerError."""

    def with_features(some: list[NBestList]) -> Scored:
        found = Scored(some, features_of(some, models))
        if some[0].reference is None:
            return found
        return replace(found, errors=WordErrors().statistics(found.texts(), found.references()))

    return map_in_order(with_features, together(lists))


@dataclass(frozen=True)
class TuningData:
    """What tuning needs of lists with references: numbers, no texts."""

    features: Features
    errors: Int64[ndarray, "hypotheses 2"]
    statistics: Int64[ndarray, "hypotheses statistics"]  # under the measure that is tuned for
    measure: CorpusMeasure

    @classmethod
    def of(cls, blocks: Iterable[Scored], objective: Objective) -> TuningData:
        """Raises SettingError where BLEU is asked for and cannot be measured."""
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
        """What `scored` gave the same lists, without scoring them again."""
        first = row = 0
        for some in together(lists):
            last, stop = first + len(some), row + sum(map(len, some))
            offsets = self.features.offsets[first : last + 1] - row
            features = replace(self.features, values=self.features.values[row:stop], offsets=offsets)
            yield Scored(some, features, self.errors[row:stop])
            first, row = last, stop

    def tuned(
        self,
        objective: Objective,
        start: Float64[ndarray, " features"],
        config: TuningConfig,
        progress: Progress = silent,
    ) -> Float64[ndarray, " features"]:
        """The best weights, from those given on."""
        if objective == "likelihood":
            nearest = first_of_best(-self.errors[:, 0].astype(np.float64), self.features.offsets)
            return most_likely(self.features, nearest, start, progress)
        if not start[0]:
            raise SettingError(f"the weight of {self.features.names[0]} is 0; tuning keeps it, so give it another")
        return least_errors(self.features, self.statistics, self.measure, start, config, progress)

    def value(self, weights: Float64[ndarray, " features"]) -> float:
        """The measure of the hypotheses that some weights choose."""
        return float(self.measure.value(self.statistics[self.features.best(weights)].sum(axis=0).astype(np.float64)))


def measure_of(objective: Objective) -> CorpusMeasure:
    """What is counted while tuning for something; likelihood asks for word errors. Raises SettingError."""
    if objective == "bleu":
        from chainrule.evaluation.bleu import Bleu

        return Bleu()
    return CharacterErrors() if objective == "cer" else WordErrors()


@dataclass(frozen=True)
class Figure:
    """A measure of a corpus, with its 95 % bootstrap interval over lists."""

    value: float
    interval: tuple[float, float]


class Judge:
    """How good the choices are beside the references: before (by own scores alone), after, and at best (the oracle).

    The oracle has the fewest word errors of each list.
    """

    def __init__(self, measures: Sequence[CorpusMeasure]) -> None:
        self.measures = measures
        self._rows: dict[str, list[Int64[ndarray, "lists statistics"]]] = {}

    def add(self, block: Scored, before: Int64[ndarray, " lists"], after: Int64[ndarray, " lists"]) -> None:
        """before, after: the chosen row of each list."""
        texts = block.texts()
        chosen = np.concatenate([before, after, block.oracles()]).tolist()
        pairs = [
            (texts[row], found.reference or "") for row, found in zip(chosen, chain(*[block.lists] * 3), strict=True)
        ]
        kinds = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        where = np.array([kinds[pair] for pair in pairs])
        for measure in self.measures:
            statistics = measure.statistics([text for text, _ in kinds], [reference for _, reference in kinds])
            for stage, rows in zip(STAGES, np.split(statistics[where], 3), strict=True):
                self._rows.setdefault(measure.name + stage, []).append(rows)

    def figure(self, measure: CorpusMeasure, stage: str) -> Figure:
        rows = np.concatenate(self._rows[measure.name + stage])
        value = float(measure.value(rows.sum(axis=0).astype(np.float64)))
        return Figure(value, interval_of_sums([rows], measure.value))

    def change(self, measure: CorpusMeasure) -> Figure:
        """From before to after, on the same lists."""
        both = [np.concatenate(self._rows[measure.name + stage]) for stage in STAGES[:2]]

        def difference(before: ndarray, after: ndarray) -> ndarray:
            return measure.value(after) - measure.value(before)

        before, after = (rows.sum(axis=0).astype(np.float64) for rows in both)
        return Figure(float(difference(before, after)), interval_of_sums(both, difference))


@dataclass(frozen=True)
class Chooser:
    """Chooses by weighted sums. own: the weights of the lists' own scores alone, which is what was there before."""

    weights: Float64[ndarray, " features"]
    own: Float64[ndarray, " features"]

    def before(self, block: Scored) -> Int64[ndarray, " lists"]:
        """The row of each list's best hypothesis by its own scores."""
        return block.features.best(self.own)

    def after(self, block: Scored) -> Int64[ndarray, " lists"]:
        """The row of each list's best hypothesis by all scores."""
        return block.features.best(self.weights)

    def ranked(self, block: Scored) -> Iterator[tuple[NBestList, dict[str, list[float]], list[int]]]:
        """Each list with its scores, the total last, and the order of its hypotheses, best first.

        What a model finds impossible has -inf there, and so has its total, unless the model has no weight.
        """
        features, own = block.features, len(block.lists[0].scores)
        totals = features.totals(self.weights)
        impossible = features.impossible(own)
        values = features.values.copy()
        values[:, own:-1][impossible] = -np.inf
        shown = np.where((impossible & (self.weights[own:-1] != 0)).any(axis=1), -np.inf, totals)
        for found, start, stop in zip(block.lists, features.offsets[:-1], features.offsets[1:], strict=True):
            columns = values[start:stop].T.tolist()
            scores = dict(zip(features.names[:-1], columns, strict=False))
            scores[TOTAL] = shown[start:stop].tolist()
            yield found, scores, np.argsort(-totals[start:stop], kind="stable").tolist()
