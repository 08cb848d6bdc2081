"""Attention maps of a network, as numbers, a page or a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from chainrule.api.conditional.caption_model import CaptionModel
from chainrule.api.conditional.pair_model import TextPairModel
from chainrule.api.models.model import Model, check_model
from chainrule.api.showing.attend_pictures import PictureAttention, attend_picture
from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError
from chainrule.open_models.vocabulary import name_before
from chainrule.report.attention import AttentionMap, attention_page, attention_svg
from chainrule.text.tokenization.subword import Subword

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from chainrule.neural.inspection import LayerWeights

_DRAWN = {".html": attention_page, ".svg": attention_svg}


@dataclass(frozen=True)
class AttentionMaps:
    """The attention of all layers and heads while a network reads a text. heading: the text."""

    heading: str
    maps: Sequence[AttentionMap]

    def __repr__(self) -> str:
        count = sum(len(layer.weights) for layer in self.maps)
        return f"<AttentionMaps: {count} of {self.heading!r}>"

    def _repr_html_(self) -> str:
        return attention_svg(self.heading, self.maps)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a self-contained page, .html, or a picture, .svg. Raises OutputError, SettingError."""
        target = Path(path)
        check_target(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(_DRAWN[target.suffix.lower()](self.heading, self.maps).encode())


@overload
def attend(model: CaptionModel, text: Any, target: str | None = None) -> PictureAttention: ...


@overload
def attend(model: Model | TextPairModel, text: str, target: str | None = None) -> AttentionMaps: ...


def attend(
    model: Model | TextPairModel | CaptionModel, text: Any, target: str | None = None
) -> AttentionMaps | PictureAttention:
    """The attention of a network while it reads a text: a row for each query token, a column for each key token.

    model: a Transformer, or a model of pairs with attention; of one that captions, text is a picture, see
    `attend_picture`. target: for a model of pairs; by default what the model writes. Raises SettingError if the network
    has no attention, the source is empty or too long, or a target is given to a model of single texts; MarkerError.

    good:  chainrule.attend(model, "the dog bit the man").save("maps.html")
    """
    if isinstance(model, CaptionModel):
        return attend_picture(model, text, target)
    check_model(model, Model, TextPairModel)
    if isinstance(model, TextPairModel):
        return _of_pair(model, text, target)
    if target is not None:
        raise SettingError(
            f"a language model reads one text; leave out the second, {target!r}, or give a model of pairs"
        )
    return _of_text(model, text)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that maps may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in _DRAWN:
        raise SettingError(f"{path}: the name of a page or a picture ends in {' or '.join(_DRAWN)}")
    check_new_file(path, overwrite=overwrite)


def _of_pair(model: TextPairModel, source: str, target: str | None) -> AttentionMaps:
    from chainrule.neural.inspection import maps_of_pair

    if target is None:
        written = model.write([source], progress=False)[0]
        if not written:
            raise SettingError("the source is empty; give a text with a token in it at least")
        target = written[0].text
    ids, target_ids = model.sources([source])[0], model.target.encode_texts([target]).ids[:-1]
    shown = model.target.shown(target_ids.tolist())
    read, reads, writes = [*model.source.shown(ids.tolist()), "</s>"], ["</s>", *shown], [*shown, "</s>"]
    sides = {"source": (read, read), "target": (writes, reads), "target on source": (writes, read)}
    return AttentionMaps(f"{source} → {target}", _titled(maps_of_pair(model.model, ids, target_ids), sides))


def _of_text(model: Model, text: str) -> AttentionMaps:
    from chainrule.neural.inspection import maps_of_text

    read, maps = maps_of_text(
        model.engine_that("continue", "fill", "embed"), model.tokenizer.encode_texts([text]).ids[:-1]
    )
    tokens = model.tokenizer.shown(read.tolist())
    if isinstance(model.tokenizer.splitter, Subword):
        tokens[0] = name_before(model.record, model.tokenizer.splitter) or tokens[0]
    return AttentionMaps(text, _titled(maps, {"text": (tokens, tokens), "own past": (tokens, tokens)}))


def _titled(maps: list[LayerWeights], sides: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> list[AttentionMap]:
    return [
        AttentionMap(
            title=f"{layer.sides}, layer {layer.layer}",
            rows=sides[layer.sides][0],
            columns=sides[layer.sides][1],
            weights=layer.weights,
            is_reading=layer.sides == "own past",
        )
        for layer in maps
    ]
