"""The inside of a network that reads pictures: its filters, its maps, and what excites its units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.files import replace_file
from chainrule.base.tables import count_of
from chainrule.errors import SettingError
from chainrule.features.inspect.pages import Image, ShownLayer, ShownUnit, check_page, inside_page
from chainrule.features.vision.pictures.codec import encode_png, resize
from chainrule.features.vision.pictures.labelled import read_unlabelled
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

    from chainrule.features.classify.model import ClassifierModel
    from chainrule.features.vision.network.inspection import ReceptiveFields, UnitActivations

    Pixels = UInt8[ndarray, "H W C"]


_FILTERS = 96  # shown at most


_PATCH_SIDE = 84  # pixels of a patch, at most: larger ones are made smaller


def _small(pixels: Pixels) -> Pixels:
    height, width, _ = pixels.shape
    scale = min(1.0, _PATCH_SIDE / max(height, width))
    return resize(pixels, max(1, round(height * scale)), max(1, round(width * scale)))


@dataclass(frozen=True)
class Inspection:
    """What a network does with a picture, layer by layer. page: a self-contained HTML page."""

    heading: str
    layers: Sequence[ShownLayer]
    page: str
    pictures: int

    @property
    def contents(self) -> str:
        """What there is, in words."""
        return f"{count_of(len(self.layers), 'layer')}, {count_of(self.pictures, 'picture')}"

    def __repr__(self) -> str:
        return f"<Inspection: {self.heading}, {len(self.layers)} layers>"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the page, .html. Raises OutputError, SettingError."""
        target = Path(path)
        check_page(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(self.page.encode())


@shows_progress
def inspect_pictures(
    model: ClassifierModel,
    pictures: str | Iterable[Any],
    *,
    picture: Any = None,
    units: int = 8,
    patches: int = 10,
    progress: ProgressOption = None,
) -> Inspection:
    """Return the inside of a classifier of pictures: its first filters, and by layer the maps of a picture, the
    receptive field of the strongest unit, and the patches that excite the strongest units most (Zeiler and Fergus
    2014).

    pictures: to look for patches in: a file or folder of them, or each a Picture, the path of one, or pixels. picture:
    whose maps are shown; by default the first. units: shown of each layer, those that answer the picture most strongly.
    patches: of each unit, at most one of a picture. Raises SettingError, TextError.
    """
    from chainrule.features.vision.network.inspection import (
        ReceptiveFields,
        excitements,
        feature_maps,
        first_filters,
        layer_names,
    )

    network: Any = model.classifier
    for name, value in (("units", units), ("patches", patches)):
        if not isinstance(value, int) or value < 1:
            raise SettingError(f"{name} is {value!r}; expected 1 or more")
    frame = network.config.frame
    read = read_unlabelled(pictures, frame, callback(progress)) if isinstance(pictures, str) else pictures
    given = [as_picture(own) for own in read]
    if not given:
        raise SettingError("there are no pictures to look at; give at least one")
    shown = given[0] if picture is None else as_picture(picture)
    body = network.body
    pixels, own = [fit_to_frame(each, frame) for each in given], fit_to_frame(shown, frame)
    maps, names = feature_maps(body, [own]), layer_names(body)
    found = excitements(body, pixels, callback(progress))
    modules = [module for _, module in body.layers.named_children()]
    fields = ReceptiveFields(modules, frame.channels, (frame.height, frame.width))
    layers = [
        _layer(name, i, maps[name][0], found[name], fields, pixels, [each.name for each in given], units, patches)
        for i, name in enumerate(names)
    ]
    filters = first_filters(body)
    heading = f"Inside {type(network.config).__name__.removesuffix('Labelling')}"
    tiles = [] if filters is None else [_filter(weights) for weights in filters[:_FILTERS]]
    page = inside_page(heading, _image(own, shown.name), len(pixels), tiles, layers)
    return Inspection(heading, layers, page, len(pixels))


def _layer(
    name: str,
    index: int,
    maps: Float32[ndarray, "D h w"],
    found: UnitActivations,
    fields: ReceptiveFields,
    pixels: Sequence[Pixels],
    names: Sequence[str],
    units: int,
    patches: int,
) -> ShownLayer:
    """Return a layer to show.

    maps: those of the shown picture. found, pixels, names: excitements, pixels and names of the pictures that patches
    are cut from.
    """
    order = np.argsort(-maps.max((1, 2)), kind="stable")[:units].tolist()
    row, column = divmod(int(maps[order[0]].argmax()), maps.shape[2])
    box = fields.of(index, row, column)
    shown = []
    for unit in order:
        cut = []
        for i in found.strongest(unit, patches):
            box = fields.of(index, int(found.rows[i, unit]), int(found.columns[i, unit]))
            hint = f"{names[i]}: {found.strengths[i, unit]:.3g}"
            cut.append(_image(_small(pixels[i][box.top : box.bottom, box.left : box.right]), hint))
        shown.append(ShownUnit(number=unit, map=_grey(maps[unit], f"unit {unit} of {name}"), patches=cut))
    return ShownLayer(
        name=name,
        channels=len(maps),
        height=maps.shape[1],
        width=maps.shape[2],
        strongest=order[0],
        box=(box.top, box.left, box.bottom, box.right),
        units=shown,
    )


def _image(pixels: Pixels, hint: str) -> Image:
    return Image(png=encode_png(np.ascontiguousarray(pixels)), height=pixels.shape[0], width=pixels.shape[1], hint=hint)


def _grey(values: Float32[ndarray, "h w"], hint: str) -> Image:
    """Return values as shades of grey, from the smallest (black) to the largest (white)."""
    low, high = float(values.min()), float(values.max())
    return _image((255 * (values - low) / ((high - low) or 1)).astype(np.uint8)[..., None], hint)


def _filter(weights: Float32[ndarray, "C k k"]) -> Image:
    """Return a filter's weights as colours: 0 is medium grey; the largest weight is the brightest."""
    scaled = weights / (2 * float(np.abs(weights).max()) or 1) + 0.5
    return _image((255 * np.moveaxis(scaled, 0, 2)).astype(np.uint8), "a filter of the first layer")
