"""What of pictures is labelled that is no whole picture: boxes, which a detector finds, and pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.features.classify.labelled.texts import classes_of
from chainrule.features.classify.units import UnitKind
from chainrule.features.vision.pictures.boxes import box_rows
from chainrule.kinds import Lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import ndarray


def _box_targets(examples: Sequence[Any], labels: Sequence[str], config: Any) -> list[ndarray]:
    """Return the index of the label and the four sides of each box, in pixels of the picture as the network reads
    it.
    """
    index = {label: i for i, label in enumerate(labels)}
    return [box_rows(example, config.frame, index) for example in examples]


def _box_figures(record: dict[str, Any]) -> str:
    precision = record["validation"].get("mean_average_precision")
    return "a box" + ("" if precision is None else f", mean average precision {precision:.4f}")


BOX = UnitKind(
    least=1,
    labels=lambda examples: classes_of(examples, least=1),
    targets=_box_targets,
    labels_of_target=lambda rows: rows[:, 0],
    build=Lazy("chainrule.features.vision.network.detector:box_detector"),
    objective=Lazy("chainrule.features.vision.detection:BoxObjective"),
    assess=lambda model, examples, progress: model.assess_boxes(examples, progress),
    validated=_box_figures,
    refused={
        "classify": "this classifier finds boxes, which have a place beside their label; call detect",
        "embed": "a classifier of boxes has no vector for a whole picture; embed with one of pictures",
        "assess": "this classifier finds boxes; measure them with assess_boxes",
    },
    find=Lazy("chainrule.features.vision.labels.results:boxes_of"),
)
PIXEL = UnitKind(
    build=Lazy("chainrule.features.vision.network.build:pixel_classifier"),
    shown=Lazy("chainrule.features.vision.labels.results:of_pixels"),
)
