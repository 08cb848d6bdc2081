"""Boxes that a classifier finds in pictures, and how well it finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.features.vision.object_detection import LEAST_SCORE, BoxMeasurement, measure_boxes
from chainrule.features.vision.pictures.boxes import boxes_framed, boxes_in_picture
from chainrule.features.vision.pictures.labelled import check_pictures
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.features.vision.pictures.boxes import BoxLabels, Detection

BOX_UNIT = "box"


def detect(
    detector: Any, pictures: Iterable[Any], least: float = 0.5, progress: Progress = silent
) -> list[list[Detection]]:
    """Return the boxes that a classifier of boxes finds in pictures, in pixels of each. Raises SettingError,
    TextError.
    """
    _check_detector(detector)
    if not 0 < least <= 1:
        raise SettingError(f"least is {least:g}; expected a score above 0, at most 1")
    given, frame = [as_picture(picture) for picture in pictures], detector.config.frame
    found = detector.detect([fit_to_frame(picture, frame) for picture in given], progress, least=least)
    results = []
    for picture, several in zip(given, found, strict=True):
        height, width = picture.pixels.shape[:2]
        boxes = np.array([one.box for one in several], np.float32).reshape(-1, 4)
        own = boxes_in_picture(boxes, (height, width), frame).tolist()
        results.append([one._replace(box=tuple(box)) for one, box in zip(several, own, strict=True)])
    return results


def assess_boxes(detector: Any, examples: Iterable[Any], progress: Progress = silent) -> BoxMeasurement:
    """Return the figures of a detector on labelled pictures. Raises SettingError, TextError."""
    _check_detector(detector)
    checked, frame = check_pictures(examples, BOX_UNIT), detector.config.frame
    true = [boxes_framed(item.input, cast("BoxLabels", item.labels), frame) for item in checked]
    if not any(map(len, true)):
        raise TextError("there is no box in these pictures; at least one is needed")
    found = detector.detect([fit_to_frame(item.input, frame) for item in checked], progress, least=LEAST_SCORE)
    return measure_boxes(found, true)


def _check_detector(detector: Any) -> None:
    """Raise SettingError if a classifier does not find boxes."""
    if detector.unit != BOX_UNIT:
        raise SettingError(f"this classifier labels a whole {detector.unit}, not boxes; train one with unit='box'")
