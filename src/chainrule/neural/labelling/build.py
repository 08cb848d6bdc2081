"""Builds the networks that label, from their configurations: one line for each in the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from chainrule.errors import SettingError
from chainrule.neural.config.labelling import (
    BagLabelling,
    ConvolutionLabelling,
    GraphLabelling,
    GRULabelling,
    LSTMLabelling,
    RNNLabelling,
    TransformerLabelling,
    TreeLabelling,
    labelling_name,
)
from chainrule.neural.labelling.boxes import BoxDetector
from chainrule.neural.labelling.build_pictures import PICTURE_BODIES
from chainrule.neural.labelling.classifier import ScratchClassifier
from chainrule.neural.labelling.graphs import GraphBody
from chainrule.neural.labelling.pairs import PairBody
from chainrule.neural.labelling.text_layers import (
    ConvolutionLayers,
    NoLayers,
    RecurrentLayers,
    TransformerLayers,
)
from chainrule.neural.labelling.texts import TextBody
from chainrule.neural.labelling.trees import TreeBody
from chainrule.neural.layers import layer_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.neural.config.labelling import RecurrentLabelling
    from chainrule.neural.config.labelling_base import LabellingConfig
    from chainrule.neural.config.pictures import PictureLabelling
    from chainrule.neural.labelling.classifier import Body


def build_classifier(
    config: LabellingConfig, labels: Sequence[str], unit: str, vocabulary_size: int
) -> ScratchClassifier | BoxDetector:
    """A classifier with initial weights, drawn from torch's random generator.

    unit: what is labelled, such as text or word; of two inputs, pair or rating; box: a detector. vocabulary_size: of
    the tokens that inputs have, if they have any. Raises SettingError.
    """
    if unit == "pixel" and not getattr(config, "labels_pixels", False):
        raise SettingError(
            f"{labelling_name(config)} labels whole pictures, not pixels; take the network grid, or padded "
            "convolutions whose pooling divides the size"
        )
    body: Any = _BODIES[type(config)](config, vocabulary_size, unit)
    if unit == BoxDetector.unit:
        return BoxDetector(cast("PictureLabelling", config), body, body.layers.width, labels)
    if unit in ("pair", "rating"):
        body = PairBody(body, is_directed=unit == "pair")
    return ScratchClassifier(config, body, labels, unit)


def _bag(config: BagLabelling, vocabulary_size: int, unit: str) -> TextBody:
    widths = [config.embedding_width, *[config.width] * config.layers]
    layers = layer_stack(widths, "relu", config.dropout)
    return TextBody(config, vocabulary_size, unit, NoLayers(widths[0]), "mean", layers, widths[-1])


def _recurrent(config: RecurrentLabelling, vocabulary_size: int, unit: str) -> TextBody:
    return TextBody(config, vocabulary_size, unit, RecurrentLayers(config), config.pooling)


def _convolution(config: ConvolutionLabelling, vocabulary_size: int, unit: str) -> TextBody:
    return TextBody(config, vocabulary_size, unit, ConvolutionLayers(config), "max")


def _transformer(config: TransformerLabelling, vocabulary_size: int, unit: str) -> TextBody:
    settled = replace(config, embedding_width=config.embedding_width or config.width)
    return TextBody(settled, vocabulary_size, unit, TransformerLayers(settled), "mean")


def _tree(config: TreeLabelling, vocabulary_size: int, unit: str) -> TreeBody:
    return TreeBody(config, vocabulary_size)


# (configuration, vocabulary size, unit) -> body, by the type of the configuration.
_BODIES: dict[type[LabellingConfig], Callable[[Any, int, str], Body[Any]]] = {
    BagLabelling: _bag,
    LSTMLabelling: _recurrent,
    GRULabelling: _recurrent,
    RNNLabelling: _recurrent,
    ConvolutionLabelling: _convolution,
    TransformerLabelling: _transformer,
    TreeLabelling: _tree,
    GraphLabelling: GraphBody,
    **PICTURE_BODIES,
}
