"""Shows a network from the inside: filters, maps and receptive fields over pictures; gates and cells over texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from chainrule.base.tables import count_of
from chainrule.errors import SettingError
from chainrule.features.inspect.pages import (
    InsideLayer,
    inside_text_page,
    write_inspection,
)
from chainrule.models.attending import names_of_read

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

    from chainrule.drawing.drawn import Drawn
    from chainrule.features.inspect.effects import CausalEffects
    from chainrule.features.inspect.intervention import Removal
    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption

    Pixels = UInt8[ndarray, "H W C"]

ALONG = 4  # units of a layer that a page shows along the text, unless units are named


@dataclass(frozen=True)
class TextInspection:
    """What a recurrent network computes at each token. layers: the values of each layer, with the units to show."""

    heading: str
    tokens: Sequence[str]
    layers: Sequence[InsideLayer]
    along: int

    @property
    def contents(self) -> str:
        """What there is, in words."""
        return f"{count_of(len(self.layers), 'layer')}, {count_of(len(self.tokens), 'token')}"

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
    read, layers = model.gates(model.tokenizer.encode_texts([text]).ids[:-1])
    shown = []
    for layer in layers:
        hidden = layer.values["h"]
        check_units(only, hidden.shape[1])
        varied = np.argsort(-np.ptp(hidden, axis=0), kind="stable")[:units].tolist()
        shown.append(InsideLayer(name=layer.name, values=layer.values, units=list(only) or varied))
    return TextInspection(text, names_of_read(model.tokenizer, model.record, read), shown, len(only) or ALONG)


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
) -> Drawn: ...


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
) -> TextInspection | CausalEffects | Drawn:
    """A network from the inside: a recurrent one at each token of a text, a Transformer's heads and layers by what
    changes without them, or a network that reads pictures.

    inputs: a text, for a recurrent language model or a classifier of texts with recurrent layers: what its gates, cells
    and hidden units compute at each token. Otherwise pictures, a file or folder of them, or each a Picture, the path of
    one, or pixels: a classifier's first filters, and by layer the maps of a picture, the receptive field of the
    strongest unit, and the patches that excite the strongest units most (Zeiler and Fergus 2014).
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
        from chainrule.features.inspect.effects import causal_effects

        if not isinstance(inputs, str):
            raise SettingError("remove and patch are for a text; leave them out for pictures")
        if picture is not None or patches is not None or units is not None or len(only):
            raise SettingError("remove and patch show heads and layers; leave out units, only, picture and patches")
        return causal_effects(model, inputs, remove=remove, patch=patch, answer=answer, heads=heads, progress=progress)
    if isinstance(inputs, str) and not model.reads_pictures:
        if picture is not None or patches is not None:
            raise SettingError("picture and patches are for networks that read pictures; leave them out for a text")
        return inspect_text(model, inputs, units=24 if units is None else units, only=only)
    if len(only):
        raise SettingError("only is for the units along a text; leave it out for pictures")
    return model.inspect_pictures(
        inputs,
        picture=picture,
        units=8 if units is None else units,
        patches=10 if patches is None else patches,
        progress=progress,
    )
