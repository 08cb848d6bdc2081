"""Pictures as inputs of classifiers: how they are read, checked, encoded and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.base.arguments import as_list
from chainrule.features.classify.inputs import InputKind
from chainrule.features.vision.pictures.boxes import read_boxes
from chainrule.features.vision.pictures.labelled import (
    check_framed,
    check_pictures,
    read_pictures,
    read_pixel_labels,
    read_unlabelled,
)
from chainrule.features.vision.pictures.picture import UNITS, as_picture, fit_to_frame
from chainrule.kinds import Lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.classify.inputs import Presented
    from chainrule.text.tokenization.tokenizer import Tokenizer

_READERS = {"picture": read_pictures, "pixel": read_pixel_labels, "box": read_boxes}


def _present_pictures(classifier: Any, tokenizer: Tokenizer, inputs: Sequence[Any]) -> Presented:
    pictures = [as_picture(given) for given in inputs]
    frame = classifier.config.frame
    if classifier.unit == "pixel":
        for picture in pictures:
            check_framed(picture, frame)
    pixels = [fit_to_frame(picture, frame) for picture in pictures]
    if classifier.unit == "pixel":
        places = [f"{column},{row}" for row in range(frame.height) for column in range(frame.width)]
        return list(pixels), [places] * len(pictures)
    return list(pixels), [[picture.name] for picture in pictures]


def _encode_pictures(tokenizer: Tokenizer, examples: Sequence[Any], unit: str, config: Any) -> list[Any]:
    if unit == "pixel":
        for example in examples:
            check_framed(example.input, config.frame)
    return [fit_to_frame(example.input, config.frame) for example in examples]


PICTURE = InputKind(
    units=UNITS,
    plural="pictures",
    network="resnet",
    field="picture",
    shown=lambda picture: picture.name,
    page=Lazy("chainrule.features.vision.labels.page:pictures_page"),
    tokenizer=None,
    read=lambda name, unit, config, on_bad, progress: _READERS[unit](name, config.frame, on_bad, progress),
    check=check_pictures,
    inputs=lambda name, config, progress: read_unlabelled(name, config.frame, progress),
    given=lambda inputs: as_list("inputs", inputs),
    texts=lambda pictures: [],
    encode=_encode_pictures,
    present=_present_pictures,
)
