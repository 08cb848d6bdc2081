"""Builds the networks that label, from their configurations: one line for each in the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from chainrule.neural.config.pictures import GridLabelling, LeNetLabelling
from chainrule.neural.labelling.classifier import ScratchClassifier
from chainrule.neural.labelling.convolutions import Convolution, PlainLayers, hidden_layers
from chainrule.neural.labelling.graphs import GraphBody
from chainrule.neural.labelling.grids import GridLayers, MeanOfPlaces, PixelVectors
from chainrule.neural.labelling.pictures import PictureBody
from chainrule.neural.labelling.texts import TextBody
from chainrule.neural.labelling.token_layers import (
    ConvolutionLayers,
    NoLayers,
    RecurrentLayers,
    TransformerLayers,
)
from chainrule.neural.labelling.trees import TreeBody
from chainrule.neural.layers import layer_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.neural.config.labelling import RecurrentLabelling
    from chainrule.neural.config.labelling_base import LabellingConfig
    from chainrule.neural.config.pictures import PictureLabelling, PlainConvolutionLabelling
    from chainrule.neural.labelling.classifier import Body
    from chainrule.neural.labelling.pictures import MapLayers


def build_classifier(
    config: LabellingConfig, labels: Sequence[str], unit: str, vocabulary_size: int
) -> ScratchClassifier:
    """A classifier with initial weights, drawn from torch's random generator.

    unit: what is labelled, such as text or word. vocabulary_size: of the tokens that inputs have, if they have any.
    Raises SettingError.
    """
    if unit == "pixel" and not getattr(config, "labels_pixels", False):
        raise SettingError(
            f"{labelling_name(config)} labels whole pictures, not pixels; take the network grid, or padded "
            "convolutions whose pooling divides the size"
        )
    return ScratchClassifier(config, _BODIES[type(config)](config, vocabulary_size, unit), labels, unit)


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


def _plain_convolutions(config: PlainConvolutionLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    count, frame = len(config.channels), config.frame
    kernels = config.kernels * count if len(config.kernels) == 1 else config.kernels
    convolutions = [
        Convolution(channels, kernel, config.stride if i == 1 else 1, i in config.pooled)
        for i, (channels, kernel) in enumerate(zip(config.channels, kernels, strict=True), 1)
    ]
    layers = PlainLayers(
        frame.channels,
        convolutions,
        padded=config.padded,
        activation=config.activation,
        norm=config.norm,
        pooling=config.pooling,
        window=config.window,
    )
    if unit == "pixel":
        return _of_pixels(config, layers, config.pixels_of_place, config.width)
    widths = [*config.hidden, config.width]
    size = (frame.height, frame.width)
    pool = hidden_layers(layers, frame.channels, size, widths, config.activation, config.dropout)
    return PictureBody(config, layers, pool, config.width)


def _grid(config: GridLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    layers = GridLayers(config, shows_patches=unit == "pixel")
    if unit == "pixel":
        return _of_pixels(config, layers, config.patch, config.width)
    return PictureBody(config, layers, MeanOfPlaces(), config.width)


def _of_pixels(config: PictureLabelling, layers: MapLayers, patch: int, width: int) -> PictureBody:
    """A vector of a quarter of the width for each pixel. patch: pixels that the places of the last maps are apart."""
    own = max(1, width // 4)
    return PictureBody(config, layers, PixelVectors(layers.width, patch, own, config.frame), own, "pixel")


# (configuration, vocabulary size, unit) -> body, by the type of the configuration.
_BODIES: dict[type[LabellingConfig], Callable[[Any, int, str], Body[Any]]] = {
    BagLabelling: _bag,
    LSTMLabelling: _recurrent,
    GRULabelling: _recurrent,
    RNNLabelling: _recurrent,
    ConvolutionLabelling: _convolution,
    TransformerLabelling: _transformer,
    TreeLabelling: _tree,
    LeNetLabelling: _plain_convolutions,
    GraphLabelling: GraphBody,
    GridLabelling: _grid,
}
