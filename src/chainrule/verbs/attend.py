"""Attention maps of a network over a text, a pair of texts or a picture: as numbers, a page or a drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.attention import (
    AttendedCaption,
    AttentionMap,
    attention_page,
    attention_svg,
    picture_attention_figure,
    picture_attention_page,
)
from chainrule.drawing.plots import check_picture_target, svg_of, write_plot
from chainrule.errors import SettingError
from chainrule.features.open.vocabulary import name_before
from chainrule.features.seq2seq.generation import sentence_slices
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.seq2seq.options import MAX_TOKENS
from chainrule.features.speech.draw_alignment import SoundAlignment, attend_sound
from chainrule.features.speech.model import SpeechModel
from chainrule.features.vision.model import CaptionModel
from chainrule.features.vision.pictures.captions import CaptionedPicture
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame
from chainrule.models.model import Model, check_model
from chainrule.protocol import BEGIN, END
from chainrule.text.tokenization.subword import Subword

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float32, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.neural.inspection import LayerWeights

_LONGER = 200  # pixels of the longer side of a panel, at least


@dataclass(frozen=True)
class PictureAttention:
    """The attention of captions over the places of a picture. picture: as the models see it, only larger."""

    heading: str
    picture: UInt8[ndarray, "H W 3"]
    captions: list[AttendedCaption]
    unit: str = "token"  # what has a panel each

    def __repr__(self) -> str:
        return f"<PictureAttention: {len(self.captions)} of {self.heading!r}>"

    def _repr_html_(self) -> str:
        return svg_of(picture_attention_figure(self.heading, self.picture, self.captions))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a self-contained page, .html, or a picture, .svg or .png. Raises OutputError, SettingError."""
        target = Path(path)
        check_picture_target(target, overwrite=overwrite)
        if target.suffix.lower() != ".html":
            write_plot(picture_attention_figure(self.heading, self.picture, self.captions), target)
            return
        with replace_file(target) as file:
            file.write(picture_attention_page(self.heading, self.picture, self.captions, self.unit).encode())


def attend_picture(
    models: Mapping[str, CaptionModel] | CaptionModel,
    picture: Any,
    caption: str | None = None,
    *,
    unit: Literal["token", "sentence"] = "token",
    max_tokens: int = MAX_TOKENS,
) -> PictureAttention:
    """The attention of captioners while they write what a picture shows: a panel for each token, or each sentence.

    models: one, or several by the names that are shown, such as one of soft and one of hard attention. picture: as for
    `CaptionModel.caption`. caption: whose tokens attend; by default the likeliest caption of each model, of at most
    max_tokens. unit: token or sentence; a sentence has the mean attention of its tokens. Raises SettingError,
    TextError, MarkerError.

    good:  chainrule.attend_picture({"soft": soft, "hard": hard}, "dog.jpg").save("attention.html")
    """
    named = {models.model.network.config.attention: models} if isinstance(models, CaptionModel) else dict(models)
    if not named:
        raise SettingError("no model is given; give at least one")
    shown = as_picture(cast("Any", picture.picture) if isinstance(picture, CaptionedPicture) else picture)
    captions = [_attended(name, model, picture, caption, unit, max_tokens) for name, model in named.items()]
    encoder = next(iter(named.values())).encoder
    assert encoder is not None  # each model has read a picture
    frame = encoder.frame
    scale = max(1, math.ceil(_LONGER / max(frame.height, frame.width)))
    large = replace(frame, height=scale * frame.height, width=scale * frame.width, colours="rgb")
    return PictureAttention(Path(shown.name).name, fit_to_frame(shown, large), captions, unit)


def attention_steps(model: CaptionModel, source: Any, tokens: Int32[ndarray, " T"]) -> Float32[ndarray, "T+1 h w"]:
    """The attention of each token of a caption and of its end, over the h x w places. Raises SettingError."""
    return model.on_grid(source_attention(model, source, tokens), source)


def source_attention(model: CaptionModel, source: Any, tokens: Int32[ndarray, " T"]) -> Float32[ndarray, "T+1 S"]:
    """The attention of each token of a caption and of its end, over the vectors of the source. Raises SettingError."""
    given = model.model.given([source], alignments=True)
    state, steps = given.start([np.empty(0, np.int32)]), []
    for token in [*tokens.tolist(), None]:
        steps.append(given.attention(state)[0])
        if token is not None:
            state = given.advance(state, np.array([token], np.int32))
    return np.stack(steps)


def _attended(
    name: str, model: CaptionModel, picture: Any, caption: str | None, unit: str, max_tokens: int
) -> AttendedCaption:
    if not isinstance(model, CaptionModel):
        raise SettingError(f"{name}: does not hold a captioner; expected a folder that `chainrule train caption` wrote")
    if model.model.network.config.attention == "none":
        raise SettingError(f"{name}: has no attention to draw; expected a model with soft or hard attention")
    if caption is None:
        [[written, *_]] = model.caption([picture], max_tokens=max_tokens, progress=False)
        text = written.text
    else:
        text = caption
    tokens = model.tokenizer.encode_texts([text]).ids[:-1]
    [source] = model.sources([picture])
    attention = attention_steps(model, source, tokens)
    if unit == "token":
        return AttendedCaption(
            title=name, text=text, tokens=[*model.tokenizer.shown(tokens.tolist()), "</s>"], attention=attention
        )
    parts = sentence_slices(tokens, model.tokenizer)
    return AttendedCaption(
        title=name,
        text=text,
        tokens=[model.tokenizer.decode(tokens[part]) for part in parts],
        attention=np.stack([attention[part].mean(0) for part in parts]) if parts else attention[:0],
    )


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
def attend(model: SpeechModel, text: Any, target: str | None = None) -> SoundAlignment: ...


@overload
def attend(model: Model | Seq2SeqModel, text: str, target: str | None = None) -> AttentionMaps: ...


def attend(
    model: Model | Seq2SeqModel | CaptionModel | SpeechModel, text: Any, target: str | None = None
) -> AttentionMaps | PictureAttention | SoundAlignment:
    """The attention of a network while it reads a text: a row for each query token, a column for each key token.

    model: a Transformer, or a seq2seq model with attention; for a captioner, text is a picture, see `attend_picture`.
    For a speech model, text is a sound: the likeliest alignment of the target's characters to it. target: the target
    text, of other models than those of single texts; by default what they write. Raises SettingError if the network has
    no attention, the source is empty or too long, or a target is given to a model of single texts; MarkerError.

    good:  chainrule.attend(model, "the dog bit the man").save("maps.html")
    """
    if isinstance(model, CaptionModel):
        return attend_picture(model, text, target)
    if isinstance(model, SpeechModel):
        return attend_sound(model, text, target)
    check_model(model, Model, Seq2SeqModel)
    if isinstance(model, Seq2SeqModel):
        return _of_pair(model, text, target)
    if target is not None:
        raise SettingError(
            f"a language model reads one text; leave out the second, {target!r}, or give a seq2seq model"
        )
    return _of_text(model, text)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that maps may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in _DRAWN:
        raise SettingError(f"{path}: the name of a page or a picture must end in {' or '.join(_DRAWN)}")
    check_new_file(path, overwrite=overwrite)


def _of_pair(model: Seq2SeqModel, source: str, target: str | None) -> AttentionMaps:
    from chainrule.neural.inspection import maps_of_pair

    if target is None:
        written = model.write([source], progress=False)[0]
        if not written:
            raise SettingError("the source is empty; give a text with a token in it at least")
        target = written[0].text
    ids, target_ids = model.sources([source])[0], model.target.encode_texts([target]).ids[:-1]
    shown = model.target.shown(target_ids.tolist())
    read, reads, writes = [*model.source.shown(ids.tolist()), "</s>"], ["<s>", *shown], [*shown, "</s>"]
    sides = {"source": (read, read), "target": (writes, reads), "target on source": (writes, read)}
    return AttentionMaps(f"{source} → {target}", _titled(maps_of_pair(model.model, ids, target_ids), sides))


def _of_text(model: Model, text: str) -> AttentionMaps:
    from chainrule.neural.inspection import maps_of_text

    read, maps = maps_of_text(
        model.require_engine("continue", "fill", "embed"), model.tokenizer.encode_texts([text]).ids[:-1]
    )
    tokens = names_of_read(model, read)
    return AttentionMaps(text, _titled(maps, {"text": (tokens, tokens), "own past": (tokens, tokens)}))


def names_of_read(model: Model, read: Int64[ndarray, " T"]) -> list[str]:
    """The tokens that a network reads for a text, as they are shown; what it reads before the text is <s>, or has the
    name that the checkpoint's makers gave it.
    """
    splitter, names = model.tokenizer.splitter, model.tokenizer.shown(read.tolist())
    if len(read) and read[0] in (BEGIN, END):
        names[0] = (name_before(model.record, splitter) if isinstance(splitter, Subword) else None) or "<s>"
    return names


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
