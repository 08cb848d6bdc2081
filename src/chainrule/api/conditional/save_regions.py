"""Takes the readers of regions apart for a model folder, and puts them together again, as `saving` does with networks.

The arrays of the detector, or of the classifier whose maps are read, have the prefix `regions.detector.`, those of the
model of phrases `regions.phrases.`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.api.conditional.regions import RegionReader
from chainrule.errors import ModelFormatError
from chainrule.neural.config import settings_of
from chainrule.neural.config.classifiers import labelling_settings

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.neural.config.seq2seq import ConditionalConfig
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Arrays = dict[str, ndarray]

REGION_ARRAYS = "regions."
_BODY, _DETECTOR, _PHRASES = (f"{REGION_ARRAYS}{name}." for name in ("body", "detector", "phrases"))


def take_apart_regions(reader: RegionReader) -> tuple[dict[str, Any], Arrays]:
    """The settings and arrays of a reader of regions."""
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


def put_together_regions(settings: object, arrays: Arrays, tokenizer: Tokenizer) -> RegionReader:
    """The reader of regions of settings and arrays. Raises ModelFormatError."""
    from chainrule.neural.classification.build import put_together
    from chainrule.neural.seq2seq.captioner import filled_body, picture_config, put_together_captioner

    if not isinstance(settings, dict):
        raise ModelFormatError(f"the settings of regions are {settings!r}; expected an object")
    labels = settings.get("labels")
    if labels is None:
        detector: Any = None
        encoder = picture_config(settings.get("encoder"))
        body = filled_body(encoder, _chosen(_BODY, arrays))
    else:
        own = {"scratch": settings.get("encoder"), "labels": labels, "unit": "box"}
        detector = put_together(own, _chosen(_DETECTOR, arrays), 0, {})
        encoder, body = detector.config, detector.body
    phrases = None
    if settings.get("phrases") is not None:
        phrases, _ = put_together_captioner(
            settings["phrases"], None, _chosen(_PHRASES, arrays), tokenizer.vocabulary_size
        )
    return RegionReader(encoder, body, detector, tokenizer, phrases)


def check_regions_suit(reader: RegionReader, config: ConditionalConfig) -> None:
    """Raises ModelFormatError where a network does not read the vectors that a reader of regions gives."""
    from chainrule.neural.seq2seq.captioner import places_of
    from chainrule.neural.seq2seq.visual_sources import SIDES

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
