"""What `chainrule classify` prints of classifiers of boxes and of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import CycloptsError

from chainrule.cli.shared.screen import on_one_line, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.features.classify.classification import Predicted
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.features.vision.pictures.picture import Picture

_AT_ONCE = 64  # pictures in which boxes are found at a time


def print_boxes(detector: ClassifierModel, name: str, page: Path | None, progress: Progress, *, json: bool) -> None:
    """Prints the boxes in a picture, or in each of a folder or file of them, a few pictures at a time.

    Raises CycloptsError where a page is asked for.
    """
    from chainrule.features.vision.pictures.labelled import picture_paths
    from chainrule.features.vision.pictures.picture import as_picture

    if page is not None:
        raise CycloptsError(msg="--page draws labels of graphs and pictures, not boxes; leave it out.")
    paths = picture_paths(name)
    for first in range(0, len(paths), _AT_ONCE):
        progress("finding boxes", first, len(paths))
        chosen = paths[first : first + _AT_ONCE]
        found = detector.detect([as_picture(path) for path in chosen], progress=False)
        for path, boxes in zip(chosen, found, strict=True):
            if json:
                shown = [{"box": list(one.box), "label": one.label, "score": one.score} for one in boxes]
                print_json({"picture": path, "boxes": shown})
                continue
            for one in boxes:
                sides = " ".join(f"{side:.1f}" for side in one.box)
                print(f"{one.label}\t{one.score:.6f}\t{sides}\t{on_one_line(path)}")


def print_pixels(picture: Picture, prediction: Predicted, *, json: bool) -> None:
    """Prints the shares of the labels of a picture's pixels; in JSON, the label of each as an index, row by row."""
    name, values = picture.name, prediction.log_probs.argmax(1)
    if json:
        rows = values.reshape(-1, picture.pixels.shape[1]).tolist()
        print_json({"picture": name, "names": list(prediction.labels), "labels": rows})
        return
    counts = [(int((values == i).sum()), label) for i, label in enumerate(prediction.labels)]
    shares = [f"{label} {count / len(values):.1%}" for count, label in sorted(counts, reverse=True) if count]
    print(f"{', '.join(shares)}\t{on_one_line(name)}")
