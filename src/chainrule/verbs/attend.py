"""Draws where a network attends while it reads a text, a pair of texts, a picture, a sound or a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.models.any_model import check_model

if TYPE_CHECKING:
    from chainrule.drawing.drawn import Drawn
    from chainrule.models.any_model import AnyModel


def attend(model: AnyModel, source: Any, target: str | None = None) -> Drawn:
    """Return the attention of a network while it reads a text: a row for each query token, a column for each key token.

    model: a Transformer, or a seq2seq model with attention; for a captioner, source is a picture, for a speech model a
    sound, for a model of trees a tree. target: the target text, of models that write from a source; by default what
    they write. Raises SettingError if the network has no attention, the source is empty or too long, or a target is
    given to a model of single texts; MarkerError, TextError.

    good:  chainrule.attend(model, "the dog bit the man").save("maps.html")
    """
    check_model(model)
    return model.attention(source, target)
