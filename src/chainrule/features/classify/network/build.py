"""Builds classifiers from their configurations, and takes them apart for saving."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from chainrule.base.options import config_from_json
from chainrule.errors import ModelFormatError
from chainrule.features.classify.network.classifier import FineTunedClassifier, ScratchClassifier, layer_widths
from chainrule.features.classify.network.config import LABELLING, labelling_settings
from chainrule.features.classify.network.texts import PairBody, SharedWords
from chainrule.features.classify.units import RATING_UNIT, unit_kind
from chainrule.models.families.table import FAMILIES, config_of, family_of
from chainrule.neural.build import build
from chainrule.neural.saving import arrays_of, check_layers, filled_network, layers_of, network_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.network import LabellingConfig

    Classifier = FineTunedClassifier | ScratchClassifier
    Json = dict[str, Any]
    Arrays = dict[str, ndarray]


def build_classifier(
    config: LabellingConfig, labels: Sequence[str], unit: str, vocabulary_size: int, *, compares_words: bool = True
) -> Any:
    """Return a ScratchClassifier with initial weights, drawn from torch's random generator; or the special network of a
    unit that has one, such as a detector of boxes.

    unit: what is labelled, such as text or word; pair or rating for two inputs. vocabulary_size: the number of tokens
    that inputs may have; 0 if they have none. compares_words: whether a classifier of two texts reads what words they
    share, which those saved by older versions do not. Raises SettingError.
    """
    build = unit_kind(unit).build
    if build is not None:
        return build.get()(config, labels, vocabulary_size)
    is_pair = unit in ("pair", RATING_UNIT)
    # Of a pair, no inputs are dropped, since |a - b| would be the difference of two noises.
    own = replace(config, dropout=0.0) if is_pair and config.reads == "text" else config
    body = config.body.get()(own, vocabulary_size, unit)
    if is_pair:
        is_directed = unit == "pair"
        compares = compares_words and config.reads == "text"
        shared = SharedWords(vocabulary_size, is_directed=is_directed) if compares else None
        body = PairBody(body, shared, is_directed=is_directed)
    return ScratchClassifier(config, body, labels, unit)


def to_state(model: Classifier) -> tuple[Json, Arrays]:
    """Return the arrays of the network, with the prefix `network.` or `body.`, and those of the head, with the prefix
    `head.`.
    """
    labels: Json = {"labels": list(model.labels), "unit": model.unit}
    if isinstance(model, FineTunedClassifier):
        return {"base": family_of(model.network.config), **network_settings(model.network), **labels}, arrays_of(model)
    return {"scratch": labelling_settings(model.config), **labels}, arrays_of(model)


def from_state(settings: Json, arrays: Arrays, vocabulary_size: int) -> Classifier:
    """Return the classifier of settings and arrays, which it uses without a copy. Raises ModelFormatError."""
    if "scratch" in settings:
        return _from_scratch(settings, arrays, vocabulary_size)
    base = settings.get("base")
    if not isinstance(base, str) or base not in FAMILIES or not FAMILIES[base].embeds:
        raise ModelFormatError(f"the classifier's base is {base!r}, which is not a family of networks in this version")
    return _fine_tuned(settings, arrays, vocabulary_size, base)


def _fine_tuned(settings: Json, arrays: Arrays, vocabulary_size: int, base: str) -> FineTunedClassifier:
    """Return a fine-tuned network. base: its family. Raises ModelFormatError."""
    labels, unit = _labels_of(settings), settings.get("unit")
    if unit not in ("text", "word", "pair"):
        raise ModelFormatError(f"the classifier's unit is {unit!r}; expected text, word or pair")
    config: NetworkConfig = config_of(base, settings.get("network"))
    check_layers(getattr(config, "layers", 0), arrays)
    shapes = [arrays[name].shape if name in arrays else () for name in ("mix", "head.weight")]
    if [len(shape) for shape in shapes] != [1, 2]:
        raise ModelFormatError(
            f"the arrays of the classifier's head have the shapes {shapes}; expected one and two dimensions: "
            "the file is damaged"
        )
    mixed, width = shapes[0][0], shapes[1][1]

    def build_classifier() -> FineTunedClassifier:
        return FineTunedClassifier(build(config, vocabulary_size), labels, unit, width=width, mixed_layers=mixed)

    classifier = filled_network(build_classifier, arrays).eval()
    widths = layer_widths(classifier.network)
    if width != widths[-1] or mixed not in (0, len(widths)):
        raise ModelFormatError(
            f"the head reads {mixed or 1} layers of width {width}, but the network's layers have the widths {widths}; "
            "fine-tune the classifier again"
        )
    return classifier


def _from_scratch(settings: Json, arrays: Arrays, vocabulary_size: int) -> Any:
    """Return a network that was trained from scratch. Raises ModelFormatError."""
    own = settings["scratch"]
    name = own.get("network") if isinstance(own, dict) else None
    if not isinstance(own, dict) or not isinstance(name, str) or name not in LABELLING:
        raise ModelFormatError(f"the classifier's network is {name!r}, which this version does not know")
    values = {field: value for field, value in own.items() if field != "network"}
    config: LabellingConfig = config_from_json(LABELLING[name], values)
    check_layers(layers_of(config), arrays)
    labels, unit = _labels_of(settings), settings.get("unit")
    if not isinstance(unit, str):
        raise ModelFormatError(f"the classifier's unit is {unit!r}; expected what it labels, such as 'text'")
    compares_words = "body.shared.weights" in arrays

    def build_saved() -> Any:
        return build_classifier(config, labels, unit, vocabulary_size, compares_words=compares_words)

    return filled_network(build_saved, arrays).eval()


def array_names(config: LabellingConfig, unit: str) -> list[str]:
    """Return the names of the arrays of such a classifier, without tokens, in the order of its layers."""
    with torch.device("meta"):
        return list(build_classifier(config, ["a", "b"], unit, 0).state_dict())


def _labels_of(settings: Json) -> list[str]:
    """Return the labels in a classifier's settings. Raises ModelFormatError."""
    labels = settings.get("labels")
    least = unit_kind(settings.get("unit")).least
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or len(labels) < least:
        raise ModelFormatError(
            f"the labels of the classifier are {labels!r}; expected a list of {least} or more strings"
        )
    return labels
