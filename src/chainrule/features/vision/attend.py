"""The attention of captioners over the places of a picture, while they write."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from chainrule.base.files import replace_file
from chainrule.base.tables import count_of
from chainrule.drawing.plots import check_picture_target, svg_of, write_plot
from chainrule.errors import SettingError
from chainrule.features.seq2seq.generation import sentence_slices
from chainrule.features.seq2seq.options import MAX_TOKENS
from chainrule.features.vision.attention_page import (
    AttendedCaption,
    picture_attention_figure,
    picture_attention_page,
)
from chainrule.features.vision.model import CaptionModel
from chainrule.features.vision.pictures.captions import CaptionedPicture
from chainrule.features.vision.pictures.picture import as_picture, fit_to_frame

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from jaxtyping import Float32, Int32, UInt8
    from numpy import ndarray


_LONGER = 200  # pixels of the longer side of a panel, at least


@dataclass(frozen=True)
class PictureAttention:
    """The attention of captions over the places of a picture. picture: as the models see it, only larger."""

    heading: str
    picture: UInt8[ndarray, "H W 3"]
    captions: list[AttendedCaption]
    unit: str = "token"  # what has a panel each

    @property
    def contents(self) -> str:
        """What there is, in words."""
        return count_of(len(self.captions), "caption")

    def __repr__(self) -> str:
        return f"<PictureAttention: {len(self.captions)} of {self.heading!r}>"

    def _repr_html_(self) -> str:
        return svg_of(picture_attention_figure(self.heading, self.picture, self.captions))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a self-contained page, .html, or a picture, .svg or .png. Raises OutputError, SettingError."""
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
    """Return the attention of captioners while they write what a picture shows: a panel for each token, or each
    sentence.

    models: one, or several by the names that are shown, such as one of soft and one of hard attention. picture: as for
    `CaptionModel.caption`. caption: whose tokens attend; by default the likeliest caption of each model, of at most
    max_tokens. unit: token or sentence; a sentence has the mean attention of its tokens. Raises SettingError,
    TextError, MarkerError.

    good:  chainrule.attend_picture({"soft": soft, "hard": hard}, "dog.jpg").save("attention.html")
    """
    named = {_name_of(models): models} if isinstance(models, CaptionModel) else dict(models)
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


def attend_caption(model: CaptionModel, picture: Any, caption: str | None) -> PictureAttention:
    """Return the attention of `attend_picture`, of one captioner."""
    return attend_picture({_name_of(model): model}, picture, caption)


def _name_of(model: CaptionModel) -> str:
    return model.model.network.config.attention


def attention_steps(model: CaptionModel, source: Any, tokens: Int32[ndarray, " T"]) -> Float32[ndarray, "T+1 h w"]:
    """Return the attention of each token of a caption and of its end, over the h x w places. Raises SettingError."""
    return model.on_grid(source_attention(model, source, tokens), source)


def source_attention(model: CaptionModel, source: Any, tokens: Int32[ndarray, " T"]) -> Float32[ndarray, "T+1 S"]:
    """Return the attention of each token of a caption and of its end, over the vectors of the source.

    Raises SettingError.
    """
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
