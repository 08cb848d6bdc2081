"""A recurrent network from the inside: what its gates, cells and hidden units do at each token of a text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError
from chainrule.report.inspection import InsideLayer, inside_text_page

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.api.models.model import Model

_SUFFIXES = (".html", ".json")
ALONG = 4  # units of a layer that a page shows along the text, unless units are named


@dataclass(frozen=True)
class TextInspection:
    """What a recurrent network computes at each token. layers: of each, with the units to show."""

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
        target = Path(path)
        check_inspection_file(target, overwrite=overwrite)
        text = self.page if target.suffix.lower() == ".html" else json.dumps(self.to_dict(), ensure_ascii=False) + "\n"
        with replace_file(target) as file:
            file.write(text.encode())


def check_inspection_file(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a file may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in _SUFFIXES:
        raise SettingError(f"{path}: the name of what is written ends in .html, a page, or .json")
    check_new_file(path, overwrite=overwrite)


def check_units(units: Sequence[int], width: int) -> None:
    """Raises SettingError where there is no such unit."""
    for unit in units:
        if not 0 <= unit < width:
            raise SettingError(f"there is no unit {unit}; expected 0 to {width - 1}")


def inspect_text(model: Model, text: str, *, units: int = 24, only: Sequence[int] = ()) -> TextInspection:
    """As `inspect`, of a text. units: shown of each layer, those whose hidden values vary most. only: these instead."""
    from chainrule.neural.inspection import gates_of_text

    read, layers = gates_of_text(model.engine, model.tokenizer.encode_texts([text]).ids[:-1])
    shown = []
    for layer in layers:
        hidden = layer.values["h"]
        check_units(only, hidden.shape[1])
        varied = np.argsort(-np.ptp(hidden, axis=0), kind="stable")[:units].tolist()
        shown.append(InsideLayer(name=layer.name, values=layer.values, units=list(only) or varied))
    return TextInspection(text, model.tokenizer.shown(read.tolist()), shown, len(only) or ALONG)
