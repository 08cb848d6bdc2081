"""Shows a network from the inside: filters, maps and receptive fields over pictures; gates and cells over texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.inspection import (
    Image,
    InsideLayer,
    ShownLayer,
    ShownUnit,
    inside_page,
    inside_text_page,
    write_inspection,
)
from chainrule.errors import SettingError
from chainrule.features.classify.model import ClassifierModel
from chainrule.features.vision.pictures.codec import encode_png, resize
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame
from chainrule.models.model import check_kind
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

    from chainrule.features.vision.network.inspection import ReceptiveFields, UnitActivations
    from chainrule.models.model import Model
    from chainrule.neural.intervention import Removal
    from chainrule.verbs.effects import CausalEffects

    Pixels = UInt8[ndarray, "H W C"]

ALONG = 4  # units of a layer that a page shows along the text, unless units are named


@dataclass(frozen=True)
class TextInspection:
    """What a recurrent network computes at each token. layers: the values of each layer, with the units to show."""

    heading: str
    tokens: Sequence[str]
    layers: Sequence[InsideLayer]
    along: int

    def __repr__(self) -> str:
        return f"<TextInspection: {self.heading!r}, {len(self.tokens)} tokens, {len(self.layers)} layers>"

    @property
    def page(self) -> str:
        """Self-contained HTML."""
        return inside_text_page(f"Inside: {self.heading}", self.tokens, self.layers, self.along)

    def unit(self, number: int, layer: int = 1) -> dict[str, Float32[ndarray, " T"]]:
        """What one unit computes at each token, by name: of an LSTM i, f, g, o, c and h.

        layer: among `layers`, from 1. Raises SettingError.
        """
        if not 1 <= layer <= len(self.layers):
            raise SettingError(f"layer is {layer}; expected 1 to {len(self.layers)}")
        values = self.layers[layer - 1].values
        check_units([number], values["h"].shape[1])
        return {name: value[:, number] for name, value in values.items()}

    def to_dict(self) -> dict[str, Any]:
        """All values, a list for each token with a number for each unit, by layer and name."""
        layers = [
            {"layer": layer.name, **{name: values.round(6).tolist() for name, values in layer.values.items()}}
            for layer in self.layers
        ]
        return {"text": self.heading, "tokens": list(self.tokens), "layers": layers}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the page, .html, or all values, .json. Raises OutputError, SettingError."""
        write_inspection(self, path, overwrite=overwrite)


def check_units(units: Sequence[int], width: int) -> None:
    """Raises SettingError where there is no such unit."""
    for unit in units:
        if not 0 <= unit < width:
            raise SettingError(f"there is no unit {unit}; expected 0 to {width - 1}")


def inspect_text(model: Model, text: str, *, units: int = 24, only: Sequence[int] = ()) -> TextInspection:
    """As `inspect`, for a text.

    units: how many to show of each layer, those whose hidden values vary most. only: the indices of units to show
    instead.
    """
    from chainrule.neural.inspection import gates_of_text

    read, layers = gates_of_text(model.engine, model.tokenizer.encode_texts([text]).ids[:-1])
    shown = []
    for layer in layers:
        hidden = layer.values["h"]
        check_units(only, hidden.shape[1])
        varied = np.argsort(-np.ptp(hidden, axis=0), kind="stable")[:units].tolist()
        shown.append(InsideLayer(name=layer.name, values=layer.values, units=list(only) or varied))
    return TextInspection(text, model.tokenizer.shown(read.tolist()), shown, len(only) or ALONG)


_FILTERS = 96  # shown at most
_PATCH_SIDE = 84  # pixels of a patch, at most: larger ones are made smaller


@dataclass(frozen=True)
class Inspection:
    """What a network does with a picture, layer by layer. page: a self-contained HTML page."""

    heading: str
    layers: Sequence[ShownLayer]
    page: str

    def __repr__(self) -> str:
        return f"<Inspection: {self.heading}, {len(self.layers)} layers>"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the page, .html. Raises OutputError, SettingError."""
        target = Path(path)
        check_page(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(self.page.encode())


def check_page(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a page may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() != ".html":
        raise SettingError(f"{path}: the name of a page must end in .html")
    check_new_file(path, overwrite=overwrite)


@overload
def inspect(model: Model, inputs: str, *, units: int | None = None, only: Sequence[int] = ...) -> TextInspection: ...


@overload
def inspect(
    model: Model,
    inputs: str,
    *,
    remove: Removal,
    answer: str | None = None,
    heads: Sequence[tuple[int, int]] = (),
    progress: ProgressOption = None,
) -> CausalEffects: ...


@overload
def inspect(
    model: Model,
    inputs: str,
    *,
    patch: str,
    answer: str | None = None,
    heads: Sequence[tuple[int, int]] = (),
    progress: ProgressOption = None,
) -> CausalEffects: ...


@overload
def inspect(
    model: Model,
    inputs: Iterable[Any],
    *,
    picture: Any = None,
    units: int | None = None,
    patches: int | None = None,
    progress: ProgressOption = None,
) -> Inspection: ...


def inspect(
    model: Model,
    inputs: str | Iterable[Any],
    *,
    picture: Any = None,
    units: int | None = None,
    only: Sequence[int] = (),
    patches: int | None = None,
    remove: Removal | None = None,
    patch: str | None = None,
    answer: str | None = None,
    heads: Sequence[tuple[int, int]] = (),
    progress: ProgressOption = None,
) -> Inspection | TextInspection | CausalEffects:
    """A network from the inside: a recurrent one at each token of a text, a Transformer's heads and layers by what
    changes without them, or a network that reads pictures.

    inputs: a text, for a recurrent language model or a classifier of texts with recurrent layers: what its gates, cells
    and hidden units compute at each token. Otherwise pictures, each a Picture, the path of one, or pixels: a
    classifier's first filters, and by layer the maps of a picture, the receptive field of the strongest unit, and the
    patches that excite the strongest units most (Zeiler and Fergus 2014).
    remove: of a Transformer that continues texts: replace each head and layer in turn by nothing, zero, or by its mean
    over the tokens so far, mean, and give the change in log P. patch: another text of as many tokens, whose outputs
    take their place. answer: a continuation of the text, whose log P is watched; by default that of the text itself.
    heads: layer and number, from 1, of heads that are also replaced all at once.
    units: shown of each layer; of a text by default 24, those whose hidden values vary most; of pictures 8, those that
    answer most strongly. only: the numbers of units to show in their place, of a text. picture: whose maps are shown;
    by default the first. patches: of each unit, by default 10, at most one of a picture. Raises SettingError,
    TextError.

    good:  chainrule.inspect(lstm, "the movie was not great").save("gates.html")
    good:  chainrule.inspect(transformer, "the key near the cars", answer="is", remove="zero").effects
    good:  chainrule.inspect(classifier, ["a.jpg", "b.jpg"]).save("inside.html")
    """
    if remove is not None or patch is not None or answer is not None or len(heads):
        from chainrule.verbs.effects import causal_effects

        if not isinstance(inputs, str):
            raise SettingError("remove and patch are for a text; leave them out for pictures")
        if picture is not None or patches is not None or units is not None or len(only):
            raise SettingError("remove and patch show heads and layers; leave out units, only, picture and patches")
        return causal_effects(model, inputs, remove=remove, patch=patch, answer=answer, heads=heads, progress=progress)
    if isinstance(inputs, str):
        if picture is not None or patches is not None:
            raise SettingError("picture and patches are for networks that read pictures; leave them out for a text")
        return inspect_text(model, inputs, units=24 if units is None else units, only=only)
    if len(only):
        raise SettingError("only is for the units along a text; leave it out for pictures")
    return inspect_pictures(
        model,
        inputs,
        picture=picture,
        units=8 if units is None else units,
        patches=10 if patches is None else patches,
        progress=progress,
    )


@shows_progress
def inspect_pictures(
    model: Model,
    pictures: Iterable[Any],
    *,
    picture: Any = None,
    units: int = 8,
    patches: int = 10,
    progress: ProgressOption = None,
) -> Inspection:
    """The inside of a classifier of pictures: its first filters, and by layer the maps of a picture, the receptive
    field of the strongest unit, and the patches that excite the strongest units most (Zeiler and Fergus 2014).

    pictures: to look for patches in, each a Picture, the path of one, or pixels. picture: whose maps are shown; by
    default the first. units: shown of each layer, those that answer the picture most strongly. patches: of each unit,
    at most one of a picture. Raises SettingError, TextError.
    """
    from chainrule.features.vision.network.inspection import (
        ReceptiveFields,
        excitements,
        feature_maps,
        first_filters,
        layer_names,
    )

    network: Any = check_kind(model, ClassifierModel).classifier
    if network.reads != "picture":
        raise SettingError(f"this is a classifier of a {network.reads}; inspect takes one of pictures")
    for name, value in (("units", units), ("patches", patches)):
        if not isinstance(value, int) or value < 1:
            raise SettingError(f"{name} is {value!r}; expected 1 or more")
    given = [as_picture(own) for own in pictures]
    if not given:
        raise SettingError("there are no pictures to look at; give at least one")
    shown = given[0] if picture is None else as_picture(picture)
    body, frame = network.body, network.config.frame
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
    return Inspection(heading, layers, page)


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
    """maps: those of the shown picture. found, pixels, names: excitements, pixels and names of the pictures that
    patches are cut from.
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


def _small(pixels: Pixels) -> Pixels:
    height, width, _ = pixels.shape
    scale = min(1.0, _PATCH_SIDE / max(height, width))
    return resize(pixels, max(1, round(height * scale)), max(1, round(width * scale)))


def _grey(values: Float32[ndarray, "h w"], hint: str) -> Image:
    """Values as shades of grey, from the smallest (black) to the largest (white)."""
    low, high = float(values.min()), float(values.max())
    return _image((255 * (values - low) / ((high - low) or 1)).astype(np.uint8)[..., None], hint)


def _filter(weights: Float32[ndarray, "C k k"]) -> Image:
    """A filter's weights as colours: 0 is medium grey; the largest weight is the brightest."""
    scaled = weights / (2 * float(np.abs(weights).max()) or 1) + 0.5
    return _image((255 * np.moveaxis(scaled, 0, 2)).astype(np.uint8), "a filter of the first layer")
