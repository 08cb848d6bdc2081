"""From a picture to the vectors of its regions, each with a phrase, that a caption decoder attends to; and saving that.

Regions are boxes that the caller gives or that a detector proposes; the first region is always the whole picture. In a
model folder, the arrays of the detector, or of the classifier whose maps are read, have the prefix `regions.detector.`,
those of the phrase model `regions.phrases.`.
Legend: R regions, F numbers of a place, W of a phrase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.decoding.config import BeamConfig, Limits
from chainrule.decoding.limits import constraints_for
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.classify.network.config import labelling_settings
from chainrule.features.seq2seq.generation import search_sources
from chainrule.features.vision.pictures.boxes import (
    BoxLabels,
    boxes_framed,
    boxes_in_picture,
    check_boxes,
    in_reading_order,
    suppress_overlapping,
)
from chainrule.features.vision.pictures.captions import CaptionedPicture
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame
from chainrule.neural.config import settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.features.vision.network.body import PictureBody
    from chainrule.features.vision.network.config import PictureLabelling
    from chainrule.features.vision.network.detector import BoxDetector
    from chainrule.features.vision.pictures.boxes import Detection
    from chainrule.features.vision.pictures.picture import Picture
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Arrays = dict[str, ndarray]

MOST_REGIONS = 32  # of a picture: the surest boxes that a detector proposes, or the first ones given
MOST_WORDS = 12  # of a phrase
_SURE = 0.3  # the least score of a proposed box: the decoder can learn to ignore boxes that are no region
_SAME = 0.9  # boxes that overlap by more are one region, whatever their labels
_GREEDY = BeamConfig(size=1)
_TOGETHER = 64  # pictures
_WHOLE = np.array([[0, 0, 1, 1]], np.float32)


class Region(NamedTuple):
    """A box of a picture, in its pixels, and the phrase that a model writes for it."""

    box: tuple[float, float, float, float]
    phrase: str


@dataclass(frozen=True)
class RegionReader:
    """Gives the vectors of a picture's regions.

    encoder, body: the settings and the network whose maps the vectors are of. detector: the network that proposes
    boxes; None where boxes are given. phrases: the network that writes a phrase for each box, from the vectors of its
    cells; None for no phrases. tokenizer: that of the phrases.
    """

    encoder: PictureLabelling
    body: PictureBody
    detector: BoxDetector | None
    tokenizer: Tokenizer
    phrases: NeuralSeq2SeqModel | None = None

    def width(self, body_width: int) -> int:
        """Return how many numbers a region's vector has. body_width: how many the maps have at each place."""
        return body_width + self.phrase_width + 4

    @property
    def phrase_width(self) -> int:
        """How many numbers of a region's vector are those of its phrase."""
        return 0 if self.phrases is None else self.phrases.network.config.width

    @property
    def phrase_parameters(self) -> int:
        """The number of weights of the network that writes phrases."""
        return 0 if self.phrases is None else sum(weight.numel() for weight in self.phrases.network.parameters())

    def sources(self, pictures: Sequence[Any], progress: Progress = silent) -> list[Float32[ndarray, "R F+W+4"]]:
        """Return the vectors of pictures. Raises SettingError, TextError.

        pictures: paths, pixels or `Picture`s; or `CaptionedPicture`s, whose boxes are the regions if these are given.
        """
        from chainrule.features.vision.network.visual_sources import region_cells, region_rows

        sources = []
        for first in range(0, len(pictures), _TOGETHER):
            progress("reading regions", first, len(pictures))
            several = [self._framed(given) for given in pictures[first : first + _TOGETHER]]
            boxes = self._boxes(several)
            cells = region_cells(self.body, [pixels for pixels, _ in several], boxes)
            phrases = self._phrase_vectors(cells)
            for i, (own, vectors) in enumerate(zip(boxes, cells, strict=True)):
                of_regions = vectors[..., :-4].mean(1)
                sources.append(region_rows(of_regions, own, None if phrases is None else phrases[i]))
        return sources

    def regions(self, picture: Any) -> list[Region]:
        """Return the regions of a picture, in order, with their phrases, if they have any.

        Raises SettingError, TextError.
        """
        from chainrule.features.vision.network.visual_sources import region_cells

        framed_picture = self._framed(picture)
        [boxes] = self._boxes([framed_picture])
        height, width = _picture_of(picture).pixels.shape[:2]
        frame = self.encoder.frame
        own = boxes_in_picture(boxes * np.array([frame.width, frame.height] * 2), (height, width), frame)
        texts = [""] * len(boxes)
        if self.phrases is not None:
            [cells] = region_cells(self.body, [framed_picture[0]], [boxes])
            texts = [self.tokenizer.decode(tokens) for tokens in self._phrases(list(cells))]
        return [Region(tuple(box), text) for box, text in zip(own.tolist(), texts, strict=True)]

    def cells(self, picture: CaptionedPicture) -> list[Float32[ndarray, "k*k F+4"]]:
        """Return the vectors of the cells of each box given with a picture, from which a phrase is written."""
        from chainrule.features.vision.network.visual_sources import as_shares, region_cells

        pixels, boxes = self._framed(picture, needs_boxes=True)
        assert boxes is not None
        if not len(boxes):
            return []
        [cells] = region_cells(self.body, [pixels], [as_shares(boxes.boxes, self.encoder.frame)])
        return list(cells)

    def _framed(self, given: Any, *, needs_boxes: bool = False) -> tuple[UInt8[ndarray, "H W C"], BoxLabels | None]:
        """Return the pixels that the network reads, and the boxes given with them. Raises SettingError, TextError."""
        boxes = given.boxes if isinstance(given, CaptionedPicture) else None
        place = given.place if isinstance(given, CaptionedPicture) else "the picture"
        picture = _picture_of(given)
        frame = self.encoder.frame
        if boxes is not None:
            height, width = picture.pixels.shape[:2]
            boxes = boxes_framed(picture, check_boxes(boxes, (height, width), place), frame)
        elif needs_boxes or self.detector is None:
            raise SettingError(
                f"{place} has no boxes, but its regions are to be given; give boxes with it, or train with "
                "regions='proposed'"
            )
        return fit_to_frame(picture, frame), boxes

    def _boxes(
        self, several: Sequence[tuple[UInt8[ndarray, "H W C"], BoxLabels | None]]
    ) -> list[Float32[ndarray, "R 4"]]:
        """Return the whole picture and the boxes in it, in reading order, as shares of it."""
        from chainrule.features.vision.network.visual_sources import as_shares

        if self.detector is None:
            boxes = [own.boxes for _, own in several if own is not None]
        else:
            proposed = self.detector.detect([pixels for pixels, _ in several], least=_SURE)
            boxes = [_without_copies(own) for own in proposed]
        several_boxes = [as_shares(in_reading_order(own[:MOST_REGIONS]), self.encoder.frame) for own in boxes]
        return [np.vstack([_WHOLE, own]) for own in several_boxes]

    def _phrase_vectors(self, cells: Sequence[Float32[ndarray, "R k*k F+4"]]) -> list[Float32[ndarray, "R W"]] | None:
        """Return the vector of a phrase for each region: the mean of the states from which its words and its end are
        written.

        None without phrases.
        """
        if self.phrases is None:
            return None
        from chainrule.features.seq2seq.network.model import hidden_states

        regions = [own for several in cells for own in several]
        states = iter(hidden_states(self.phrases, regions, self._phrases(regions)))
        return [np.stack([next(states).mean(0) for _ in several]) for several in cells]

    def _phrases(self, regions: list[Float32[ndarray, "k*k F+4"]]) -> list[Any]:
        """Return the likeliest tokens of the phrase of each region, one after the other."""
        assert self.phrases is not None
        constraints = constraints_for(Limits(max_tokens=MOST_WORDS), self.tokenizer, "")
        written = search_sources(self.phrases, regions, _GREEDY, constraints, silent)
        return [several[0].tokens if several else np.empty(0, np.int32) for several in written]


def _without_copies(detections: Sequence[Detection]) -> Float32[ndarray, "N 4"]:
    """Return the boxes of detections, best first."""
    boxes = np.array([one.box for one in detections], np.float32).reshape(-1, 4)
    return boxes[suppress_overlapping(boxes, np.array([one.score for one in detections], np.float32), _SAME)]


def _picture_of(given: Any) -> Picture:
    return as_picture(given.picture if isinstance(given, CaptionedPicture) and given.picture is not None else given)


REGION_ARRAYS = "regions."
_BODY, _DETECTOR, _PHRASES = (f"{REGION_ARRAYS}{name}." for name in ("body", "detector", "phrases"))


def take_apart_regions(reader: RegionReader) -> tuple[dict[str, Any], Arrays]:
    """Return the settings and arrays of a reader of regions."""
    from chainrule.neural.saving import arrays_of

    settings: dict[str, Any] = {"encoder": labelling_settings(reader.encoder), "labels": None, "phrases": None}
    if reader.detector is None:
        arrays = _named(_BODY, arrays_of(reader.body))
    else:
        settings["labels"] = list(reader.detector.labels)
        arrays = _named(_DETECTOR, arrays_of(reader.detector))
    if reader.phrases is not None:
        settings["phrases"] = settings_of(reader.phrases.network.config)
        arrays |= _named(_PHRASES, arrays_of(reader.phrases.network))
    return settings, arrays


def regions_from_state(settings: object, arrays: Arrays, tokenizer: Tokenizer) -> RegionReader:
    """Return the reader of regions of settings and arrays. Raises ModelFormatError."""
    from chainrule.features.classify.network.build import from_state
    from chainrule.features.vision.network.captioner import filled_body, picture_config, put_together_captioner

    if not isinstance(settings, dict):
        raise ModelFormatError(f"the settings of regions are {settings!r}; expected an object")
    labels = settings.get("labels")
    if labels is None:
        detector: Any = None
        encoder = picture_config(settings.get("encoder"))
        body = filled_body(encoder, _chosen(_BODY, arrays))
    else:
        own = {"scratch": settings.get("encoder"), "labels": labels, "unit": "box"}
        detector = from_state(own, _chosen(_DETECTOR, arrays), 0)
        encoder, body = detector.config, detector.body
    phrases = None
    if settings.get("phrases") is not None:
        phrases, _ = put_together_captioner(
            settings["phrases"], None, _chosen(_PHRASES, arrays), tokenizer.vocabulary_size
        )
    return RegionReader(encoder, body, detector, tokenizer, phrases)


def check_regions_suit(reader: RegionReader, config: Seq2SeqConfig) -> None:
    """Raise ModelFormatError where a network does not read the vectors that a reader of regions gives."""
    from chainrule.features.seq2seq.network.vector_sources import SIDES
    from chainrule.features.vision.network.captioner import places_of

    *_, width = places_of(reader.encoder)
    needs = [("network", config, (reader.width(width), reader.phrase_width, ()))]
    if reader.phrases is not None:
        needs.append(("model of phrases", reader.phrases.network.config, (width + SIDES, 0, ())))
    for name, own, expected in needs:
        if (actual := (own.source_width, own.phrase_width, own.source_grid)) != expected:
            raise ModelFormatError(
                f"source_width, phrase_width and source_grid of the {name} are {actual}, but its regions have "
                f"{expected}: the settings were changed"
            )


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _chosen(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
