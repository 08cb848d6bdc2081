"""How well boxes are found in pictures: average precision, as PASCAL VOC measures it since 2010.

A proposed box is right if no better one took its true box of the same label before, and both overlap by at least half.
Legend: N boxes proposed, M true boxes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.vision.pictures.boxes import overlaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float64
    from numpy import ndarray

    from chainrule.features.vision.pictures.boxes import BoxLabels, Detection

LEAST_SCORE = 0.05  # of boxes that are measured: average precision needs unsure ones, too
USUAL = 0.5  # the score from which a box counts for precision and recall


@dataclass(frozen=True)
class BoxMeasurement:
    """The figures of boxes that were proposed for some pictures.

    average_precision: by label, for labels that some picture has. precision, recall: those of boxes with a score of at
    least 0.5.
    """

    average_precision: dict[str, float]
    precision: float
    recall: float
    boxes: int
    pictures: int
    overlap: float

    @property
    def mean_average_precision(self) -> float:
        """The mean over labels."""
        return float(np.mean(list(self.average_precision.values())))

    def as_json(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        return {"mean_average_precision": self.mean_average_precision, **asdict(self)}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each label."""
        return [{"label": label, "average_precision": value} for label, value in self.average_precision.items()]

    def __str__(self) -> str:
        figures = [
            ("mean average precision", f"{self.mean_average_precision:.4f}", f"at an overlap of {self.overlap:g}"),
            ("precision", f"{self.precision:.4f}", f"of boxes with a score of {USUAL:g} or more"),
            ("recall", f"{self.recall:.4f}", "by them"),
            ("boxes", f"{self.boxes:,}", f"in {self.pictures:,} pictures"),
        ]
        figures += [(label, f"{value:.4f}", "average precision") for label, value in self.average_precision.items()]
        return "\n".join(f"{name:<24}{value:>10}  {remark}" for name, value, remark in figures)


def measure_boxes(
    proposed: Sequence[Sequence[Detection]], true: Sequence[BoxLabels], overlap: float = 0.5
) -> BoxMeasurement:
    """Return the figures of boxes proposed for pictures, of which some have at least one true box.

    proposed, true: the boxes of each picture. overlap: the least overlap that makes a box right.
    """
    labels = sorted({label for own in true for label in own})
    precisions, usual, right = {}, 0, 0
    for label in sorted({*labels, *(one.label for several in proposed for one in several)}):
        scores, is_right = _judged(proposed, true, label, overlap)
        usual += int((scores >= USUAL).sum())
        right += int(is_right[scores >= USUAL].sum())
        if label in labels:
            total = sum(own.labels.count(label) for own in true)
            precisions[label] = average_precision(scores, is_right, total)
    count = sum(map(len, true))
    return BoxMeasurement(precisions, right / max(1, usual), right / count, count, len(true), overlap)


def average_precision(scores: Float64[ndarray, " N"], is_right: Bool[ndarray, " N"], total: int) -> float:
    """Return the area under precision by recall, where precision is the best at that recall or any higher one.

    total: the number of true boxes. Boxes of equal scores come in the order given.
    """
    right = is_right[np.argsort(-scores, kind="stable")]
    precision = right.cumsum() / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best[right].sum() / total)  # recall rises by 1 / total at each right box


def _judged(
    proposed: Sequence[Sequence[Detection]], true: Sequence[BoxLabels], label: str, overlap: float
) -> tuple[Float64[ndarray, " N"], Bool[ndarray, " N"]]:
    """Return the scores of all boxes of a label, and which of them are right."""
    scores, is_right = [], []
    for several, own in zip(proposed, true, strict=True):
        chosen = sorted((one for one in several if one.label == label), key=lambda one: -one.score)
        boxes = own.boxes[[i for i, name in enumerate(own) if name == label]]
        shares = overlaps(np.array([one.box for one in chosen], np.float32).reshape(-1, 4), boxes)
        taken: set[int] = set()
        for one, row in zip(chosen, shares, strict=True):
            best = int(row.argmax()) if row.size else -1
            scores.append(one.score)
            is_right.append(best >= 0 and row[best] >= overlap and best not in taken)
            if is_right[-1]:
                taken.add(best)
    return np.array(scores, np.float64), np.array(is_right, bool)
