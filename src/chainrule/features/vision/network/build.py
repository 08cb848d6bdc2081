"""Builds the bodies of networks that label pictures, from their configurations.

The last two arguments of bodies are the size of the vocabulary, which pictures have none of, and the labelled unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from chainrule.errors import SettingError
from chainrule.features.classify.network.classifier import ScratchClassifier
from chainrule.features.classify.network.config import labelling_name
from chainrule.features.vision.network.body import PictureBody
from chainrule.features.vision.network.convolutions import (
    Convolution,
    LiteLayers,
    PlainLayers,
    hidden_layers,
    lite_head,
)
from chainrule.features.vision.network.grid_lstm import GridLayers, PixelVectors
from chainrule.features.vision.network.residual import InceptionLayers, ResidualLayers
from chainrule.features.vision.network.vit import Patches, PatchLayers, PatchTransformer, PublishedTransformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.vision.network.body import MapLayers
    from chainrule.features.vision.network.config import (
        EfficientNetLabelling,
        GoogLeNetLabelling,
        GridLabelling,
        PictureLabelling,
        PlainConvolutionLabelling,
        ResNetLabelling,
        VGGLabelling,
        ViTLabelling,
    )
    from chainrule.neural.config.network import LabellingConfig


def plain_body(config: PlainConvolutionLabelling, vocabulary_size: int, unit: str) -> PictureBody:
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
    widths, size = [*config.hidden, config.width], (frame.height, frame.width)
    pool = hidden_layers(layers, frame.channels, size, widths, config.activation, config.dropout)
    return PictureBody(config, layers, pool, config.width)


def grid_body(config: GridLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    layers = GridLayers(config, shows_patches=unit == "pixel")
    if unit == "pixel":
        return _of_pixels(config, layers, config.patch, config.width)
    return PictureBody(config, layers, _mean(), config.width)


def _of_pixels(config: PictureLabelling, layers: MapLayers, patch: int, width: int) -> PictureBody:
    """Return a vector for each pixel, with a quarter of the width.

    patch: the distance of the places of the last maps, in pixels.
    """
    own = max(1, width // 4)
    return PictureBody(config, layers, PixelVectors(layers.width, patch, own, config.frame), own, "pixel")


def vgg_body(config: VGGLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    frame = config.frame
    convolutions = [
        Convolution(channels, 3, 1, i == count)
        for channels, count in zip(config.channels, config.blocks, strict=True)
        for i in range(1, count + 1)
    ]
    layers = PlainLayers(
        frame.channels, convolutions, padded=True, activation="relu", norm=config.norm, pooling="max", window=2
    )
    widths, size = [*config.hidden, config.width], (frame.height, frame.width)
    return PictureBody(
        config, layers, hidden_layers(layers, frame.channels, size, widths, "relu", config.dropout), config.width
    )


def googlenet_body(config: GoogLeNetLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    normed = config.norm == "batch"
    layers = InceptionLayers(config.frame.channels, config.blocks, config.width, stem=config.stem, normed=normed)
    return PictureBody(config, layers, _mean(), layers.width)


def resnet_body(config: ResNetLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    layers = ResidualLayers(
        config.frame.channels,
        config.layer_blocks,
        config.width,
        stem=config.stem,
        is_bottleneck=config.is_bottleneck,
        starts_as_identity=config.starts_as_identity,
    )
    return PictureBody(config, layers, _mean(), layers.width)


def vit_body(config: ViTLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    frame = config.frame
    size = (frame.height, frame.width)
    patches = Patches(frame.channels, config.patch, size, config.width, placed=config.placed)
    kind = PatchTransformer if config.style == "modern" else PublishedTransformer
    blocks = kind(config.width, config.layers, config.heads, config.dropout)
    return PictureBody(config, PatchLayers(patches, blocks, config.width), _mean(), config.width)


def efficientnet_body(config: EfficientNetLabelling, vocabulary_size: int, unit: str) -> PictureBody:
    layers = LiteLayers(config.frame.channels, config.stages)
    return PictureBody(config, layers, lite_head(layers.width, config.width), config.width)


def _mean() -> nn.Sequential:
    """Return the mean over all places."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def pixel_classifier(config: LabellingConfig, labels: Sequence[str], vocabulary_size: int) -> ScratchClassifier:
    """Return a classifier of pixels with initial weights. Raises SettingError."""
    if not getattr(config, "labels_pixels", False):
        raise SettingError(
            f"{labelling_name(config)} labels whole pictures, not pixels; take the network grid, or padded "
            "convolutions whose pooling divides the size"
        )
    return ScratchClassifier(config, config.body.get()(config, vocabulary_size, "pixel"), labels, "pixel")
