"""Networks for pictures that others trained: ResNets and VGG with torchvision's names, and EfficientNet-Lite0.

Such a file holds tensors by name alone, so the network is read from names and shapes. A file labels.txt beside it, a
line a label, names what the outputs stand for; without one they are numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import read_text
from chainrule.errors import ModelFormatError
from chainrule.features.classify.network.config import labelling_settings
from chainrule.features.vision.network.config import (
    RESNET_BLOCKS,
    VGG_BLOCKS,
    EfficientNetLabelling,
    ResNetLabelling,
    VGGLabelling,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy import ndarray

    from chainrule.features.vision.network.config import PictureLabelling

    Arrays = dict[str, ndarray]

SUFFIXES, PICKLES = (".safetensors",), (".pth", ".pt")
LABELS = "labels.txt"
_RESNET = (
    (r"conv1\.", "body.layers.stem.0."),
    (r"bn1\.", "body.layers.stem.1."),
    (r"layer(\d+)\.", r"body.layers.layer\1."),
    (r"fc\.", "head."),
)
_COUNTER = "num_batches_tracked"  # of batch normalisation, which older files lack and nothing needs


class ImportedPictures(NamedTuple):
    """The settings and arrays of a classifier, and notes for the user."""

    settings: dict[str, Any]
    arrays: Arrays
    warnings: list[str]


def import_pictures(path: Path, arrays: Arrays, names_of: Callable[[PictureLabelling], list[str]]) -> ImportedPictures:
    """Return the settings and arrays of a classifier of pictures.

    names_of: a function that gives our names of the arrays of the body and the head of a configuration, in order.
    Raises ModelFormatError that names the file.
    """
    config: PictureLabelling
    warnings: list[str] = []
    if "conv1.weight" in arrays and "layer1.0.conv1.weight" in arrays and "fc.weight" in arrays:
        config = _resnet(path, arrays, warnings)
        renamed = {_renamed(name): array for name, array in arrays.items()}
    elif "features.0.weight" in arrays and "classifier.0.weight" in arrays:
        config = _vgg(path, arrays)
        renamed = _renamed_vgg(config, arrays)
    elif "_conv_stem.weight" in arrays and "_fc.weight" in arrays:
        config = EfficientNetLabelling(crop_share=0.875, pixel_means=(127.0,) * 3, pixel_deviations=(128.0,) * 3)
        names = names_of(config)
        if len(names) != len(arrays):
            raise ModelFormatError(
                f"{path}: has {len(arrays)} tensors, and EfficientNet-Lite0 {len(names)}; no larger one is supported"
            )
        renamed = dict(zip(names, arrays.values(), strict=True))
    else:
        shown = ", ".join(list(arrays)[:3]) or "none"
        raise ModelFormatError(
            f"{path}: its tensors ({shown}, ...) are not those of a ResNet of torchvision, a VGG of torchvision or "
            "EfficientNet-Lite0"
        )
    for name in names_of(config):
        if name.endswith(_COUNTER):
            renamed.setdefault(name, np.zeros((), np.int64))
    labels = _labels(path, next(len(array) for name, array in renamed.items() if name == "head.bias"))
    return ImportedPictures(
        {"scratch": labelling_settings(config), "labels": labels, "unit": "picture"}, renamed, warnings
    )


def _renamed(name: str) -> str:
    for theirs, ours in _RESNET:
        if re.match(theirs, name):
            return re.sub(f"^{theirs}", ours, name)
    return name


def _resnet(path: Path, arrays: Mapping[str, ndarray], warnings: list[str]) -> ResNetLabelling:
    """Return the configuration that follows from names and shapes. Raises ModelFormatError."""
    found = [re.match(r"layer(\d+)\.(\d+)\.conv1\.weight$", name) for name in arrays]
    places = {(int(match[1]), int(match[2])) for match in found if match}
    blocks = tuple(sum(layer == own for own, _ in places) for layer in range(1, max(own for own, _ in places) + 1))
    is_bottleneck = "layer1.0.conv3.weight" in arrays
    stem = arrays["conv1.weight"].shape
    if len(stem) != 4 or stem[1] not in (1, 3) or stem[2:] not in ((7, 7), (3, 3)) or not all(blocks):
        raise ModelFormatError(
            f"{path}: conv1.weight has the shape {list(stem)}; expected 1 or 3 colours and filters of 7 x 7 or 3 x 3"
        )
    is_large = stem[2] == 7
    if not is_large:
        warnings.append(f"{path}: its first filters are 3 x 3, so it is taken to read 32 pixels and not to pool them")
    depths = [depth for depth, own in RESNET_BLOCKS.items() if own == blocks and (depth >= 50) == is_bottleneck]
    return ResNetLabelling(
        depth=depths[0] if depths else 18,
        blocks=blocks,
        block="bottleneck" if is_bottleneck else "basic",
        stem="large" if is_large else "small",
        width=stem[0],
        size=(224,) if is_large else (32,),
        crop_share=0.875 if is_large else 1.0,
        colours="rgb" if stem[1] == 3 else "grey",
    )


def _vgg(path: Path, arrays: Mapping[str, ndarray]) -> VGGLabelling:
    """Return the configuration of a VGG for pictures of 224 pixels. Raises ModelFormatError."""
    places = _places(arrays)
    has_norms = "features.1.running_mean" in arrays
    # Pooling follows where the next number is one further than a convolution, its norm and its activation need.
    apart = 3 if has_norms else 2
    last = [i for i, place in enumerate(places) if place + apart not in places]
    blocks = tuple(own - before for own, before in zip(last, [-1, *last[:-1]], strict=True))
    depth = next((depth for depth, own in VGG_BLOCKS.items() if own == blocks), None)
    shapes = [arrays[f"features.{place}.weight"].shape for place in places]
    if depth is None or any(len(shape) != 4 or shape[2:] != (3, 3) for shape in shapes) or shapes[0][1] not in (1, 3):
        raise ModelFormatError(
            f"{path}: has convolutions in blocks of {', '.join(map(str, blocks))}; expected filters of 3 x 3, and the "
            f"blocks of a VGG of {', '.join(map(str, VGG_BLOCKS))} layers"
        )
    first, second = (arrays.get(f"classifier.{place}.weight", np.zeros((0, 0))) for place in (0, 3))
    if (
        first.ndim != 2
        or second.ndim != 2
        or first.shape[1] != 49 * shapes[-1][0]
        or "classifier.6.weight" not in arrays
    ):
        raise ModelFormatError(
            f"{path}: classifier.0.weight has the shape {list(first.shape)}; expected one that reads 7 x 7 places of "
            f"{shapes[-1][0]} numbers, and two layers after it, classifier.3 and classifier.6"
        )
    return VGGLabelling(
        depth=depth,
        channels=tuple(shapes[i][0] for i in last),
        norm="batch" if has_norms else "none",
        hidden=(len(first),),
        width=len(second),
        size=(224,),
        crop_share=0.875,
        colours="rgb" if shapes[0][1] == 3 else "grey",
    )


def _places(arrays: Mapping[str, ndarray]) -> list[int]:
    """Return the numbers of the convolutions among the features of a VGG."""
    named = [re.match(r"features\.(\d+)\.weight$", name) for name in arrays]
    return sorted(int(match[1]) for match in named if match and arrays[match[0]].ndim == 4)


def _renamed_vgg(config: VGGLabelling, arrays: Arrays) -> Arrays:
    """Return the arrays of a VGG by our names. A bias before batch normalisation, which ours lacks, goes into its
    mean.
    """
    renamed: Arrays = {}
    heads = {"classifier.0": "body.pool.2", "classifier.3": "body.pool.5", "classifier.6": "head"}
    numbers = {place: i for i, place in enumerate(_places(arrays), 1)}
    for name, array in arrays.items():
        room, place, part = (*name.split("."), "", "")[:3]
        if room == "features" and place.isdigit() and int(place) in numbers:
            if config.norm == "none" or part != "bias":
                renamed[f"body.layers.conv{numbers[int(place)]}.0.{part}"] = array
        elif room == "features" and place.isdigit() and int(place) - 1 in numbers:
            if part == "running_mean":
                array = array - arrays.get(f"features.{int(place) - 1}.bias", np.zeros_like(array))
            renamed[f"body.layers.conv{numbers[int(place) - 1]}.1.{part}"] = array
        else:
            ours = heads.get(f"{room}.{place}")
            renamed[name if ours is None else f"{ours}.{part}"] = array
    return renamed


def _labels(path: Path, count: int) -> list[str]:
    """Return the labels in a file beside the tensors; without one, numbers. Raises ModelFormatError."""
    beside = path.with_name(LABELS)
    if not beside.exists():
        return [str(i) for i in range(count)]
    try:
        labels = read_text(beside).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{beside}: cannot be read as text: {error}") from error
    if len(labels) != count or len(set(labels)) != count or not all(label.strip() for label in labels):
        raise ModelFormatError(f"{beside}: has {len(labels)} lines; expected {count} different labels, a line each")
    return labels
