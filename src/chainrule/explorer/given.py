"""What a view looks into: a model of single texts, or one of texts given a source or a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.api.models.language_models import CausalModel
from chainrule.api.models.model import Model
from chainrule.api.seq2seq.caption_model import CaptionModel
from chainrule.api.seq2seq.seq2seq_model import TextPairModel
from chainrule.errors import ChainruleError, SettingError

if TYPE_CHECKING:
    from chainrule.pictures.picture import Picture

    Json = dict[str, Any]

LONGEST = 20_000  # characters of a text; what is left out, the records say


def describe(model: object) -> Json:
    """What a model needs for the views: given, None, source or picture; whether it fills gaps; whether it can chat."""
    given = "source" if isinstance(model, TextPairModel) else "picture" if isinstance(model, CaptionModel) else None
    fills = isinstance(model, Model) and model.sees_both_sides
    return {"given": given, "fills": fills, "chats": _can_chat(model)}


def text_model(model: object, given: str | None, picture: Picture | None) -> Model:
    """The model of single texts: of pairs, given a source; of captions, given a picture.

    Raises SettingError, TextError, MarkerError.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, TextPairModel):
        return model.given(given or "")
    if isinstance(model, CaptionModel):
        return model.given(chosen(picture))
    raise SettingError("this model reads no texts; expected one that continues or fills them")


def chosen(picture: Picture | None) -> Picture:
    """The picture, if there is one. Raises SettingError."""
    if picture is None:
        raise SettingError("this model describes pictures; choose one first")
    return picture


def _can_chat(model: object) -> bool:
    if not isinstance(model, CausalModel):
        return False
    try:
        return bool(model.chat_model)
    except ChainruleError:
        return False
