"""What is labelled, and how it is learned, measured and shown: labels, ratings, what others bring, such as boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import SettingError
from chainrule.features.classify.labelled.texts import classes_of, label_indices
from chainrule.features.classify.ratings import ratings_of, scale_of, shares_of
from chainrule.kinds import Lazy, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import ndarray

RATING_UNIT = "rating"


def label_targets(examples: Sequence[Any], labels: Sequence[str], config: Any) -> list[ndarray]:
    """Return the index of the label of each unit, for each example."""
    index = {label: i for i, label in enumerate(labels)}
    return [label_indices(example.labels, index) for example in examples]


def labels_of_target(target: ndarray) -> ndarray:
    """Return the indices of the labels in a target: indices, or distributions over labels."""
    return target.argmax(1) if target.ndim > 1 else target


def _label_figures(record: dict[str, Any]) -> str:
    return f"a label, {record['validation_accuracy']:.1%} right"


class UnitKind(NamedTuple):
    """How a unit is learned, measured and shown. The defaults are those of units with one label each.

    least: the fewest labels of a network. labels: of examples, the labels of their network. Raises TextError. targets:
    of examples, the network's labels and its configuration, what the objective reads of each. labels_of_target: the
    indices of labels in one of these. build: of the configuration, labels and the size of the vocabulary, the network;
    None where it is a ScratchClassifier on the configuration's body. objective: as in `Learner`. assess: of a
    ClassifierModel, examples and progress, the figures. validated: of a record, what the loss is of, and a figure.
    refused: what such a classifier cannot do (classify, embed, assess), and why. shown: of a prediction and its
    input, the result to show; find: of a ClassifierModel, a file and progress, the results for its inputs; None where
    `chainrule classify` shows labels.
    """

    least: int = 2
    labels: Callable[[Sequence[Any]], list[str]] = classes_of
    targets: Callable[[Sequence[Any], Sequence[str], Any], Sequence[ndarray]] = label_targets
    labels_of_target: Callable[[ndarray], ndarray] = labels_of_target
    build: Lazy | None = None
    objective: Lazy = Lazy("chainrule.features.classify.objective:LabelObjective")
    assess: Callable[[Any, Sequence[Any], Any], Any] = lambda model, examples, progress: model.assess(
        examples, progress
    )
    validated: Callable[[dict[str, Any]], str] = _label_figures
    refused: Mapping[str, str] = {}
    shown: Lazy | None = None
    find: Lazy | None = None


def _rating_targets(examples: Sequence[Any], labels: Sequence[str], config: Any) -> list[ndarray]:
    """Return the distribution over labels of each example."""
    return list(shares_of(ratings_of(examples), labels)[:, None])


def _rating_figures(record: dict[str, Any]) -> str:
    pearson = record["validation"].get("pearson")
    return "a rating" + ("" if pearson is None else f", Pearson {pearson:.4f}")


LABEL = UnitKind()
UNITS: Table[UnitKind] = Table(
    "classify.units",
    {
        RATING_UNIT: UnitKind(
            labels=lambda examples: scale_of(ratings_of(examples)),
            targets=_rating_targets,
            assess=lambda model, examples, progress: model.assess_ratings(examples, progress),
            validated=_rating_figures,
            refused={"assess": "this classifier predicts ratings; measure them with assess_ratings"},
            shown=Lazy("chainrule.features.classify.results:of_rating"),
        )
    },
)


def unit_kind(unit: object) -> UnitKind:
    """Return how a unit is learned: as labels, unless the table has a row for it."""
    return UNITS[unit] if isinstance(unit, str) and unit in UNITS else LABEL


def check_can(unit: object, verb: str) -> None:
    """Raise SettingError where a classifier of a unit cannot classify, embed or assess."""
    reason = unit_kind(unit).refused.get(verb)
    if reason is not None:
        raise SettingError(reason)
