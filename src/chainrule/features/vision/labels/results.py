"""What a classifier finds in pictures, as results: boxes, and labels of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.results import Shown
from chainrule.base.tables import on_one_line
from chainrule.features.vision.pictures.labelled import picture_paths
from chainrule.features.vision.pictures.picture import as_picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.classify.classification import Predicted
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.features.vision.pictures.boxes import Detection
    from chainrule.features.vision.pictures.picture import Picture

_AT_ONCE = 64  # pictures in which boxes are found at a time


def boxes_of(detector: ClassifierModel, name: str, progress: Progress) -> Iterator[Shown]:
    """Yield the boxes in a picture, or in each of a folder or file of them, found a few pictures at a time."""
    paths = picture_paths(name)
    for first in range(0, len(paths), _AT_ONCE):
        progress("finding boxes", first, len(paths))
        chosen = paths[first : first + _AT_ONCE]
        found = detector.detect([as_picture(path) for path in chosen], progress=False)
        yield from map(of_boxes, found, chosen)


def of_pixels(prediction: Predicted, picture: Picture) -> Shown:
    """Return the shares of the labels of a picture's pixels; in JSON, the label of each as an index, row by row."""
    name, columns, values = picture.name, picture.pixels.shape[1], prediction.log_probs.argmax(1)
    counts = [(int((values == i).sum()), label) for i, label in enumerate(prediction.labels)]
    shares = [(label, count / len(values)) for count, label in sorted(counts, reverse=True) if count]
    return Shown(
        f"{', '.join(f'{label} {share:.1%}' for label, share in shares)}\t{on_one_line(name)}",
        {"picture": name, "names": list(prediction.labels), "labels": values.reshape(-1, columns).tolist()},
        [{"picture": name, "label": label, "share": share} for label, share in shares],
    )


def of_boxes(boxes: Sequence[Detection], name: str) -> Shown:
    """Return the boxes in a picture."""
    lines, records = [], []
    for one in boxes:
        lines.append(
            f"{one.label}\t{one.score:.6f}\t{' '.join(f'{side:.1f}' for side in one.box)}\t{on_one_line(name)}"
        )
        sides = dict(zip(("left", "top", "right", "bottom"), one.box, strict=True))
        records.append({"picture": name, "label": one.label, "score": one.score, **sides})
    shown = [{"box": list(one.box), "label": one.label, "score": one.score} for one in boxes]
    return Shown("\n".join(lines), {"picture": name, "boxes": shown}, records)
