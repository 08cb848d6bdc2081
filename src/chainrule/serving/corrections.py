"""Corrections of texts: correctors by their settings, and what they change as records."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from chainrule.api.texts.correct import corrector, has_words, word_index
from chainrule.applications.correction.corrector import CorrectionConfig
from chainrule.serving.api_error import ApiError
from chainrule.serving.token_names import finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.models.language_models import CausalModel
    from chainrule.applications.correction.corrector import Corrector
    from chainrule.applications.correction.spans import Corrected
    from chainrule.applications.correction.word_index import WordIndex
    from chainrule.serving.requests import CorrectBody

    Json = dict[str, Any]

_KEPT = 4  # correctors


class Corrections:
    """Corrects with one model. Its methods run on the model's thread."""

    def __init__(self, model: CausalModel) -> None:
        """Raises ApiError if the model's tokens are not words."""
        if not has_words(model):
            message = f"the tokens of the model are not words ({model.tokenizer.name}), so it cannot correct"
            raise ApiError(400, message, param="model", code="wrong_model")
        self._model = model
        self._corrector = lru_cache(_KEPT)(self._new_corrector)

    def correct(self, texts: Sequence[str], body: CorrectBody) -> list[Corrected]:
        """Raises SettingError."""
        given = {
            "beam": body.beam,
            "candidates": body.candidates,
            "at_least": body.at_least,
            "keep": None if body.keep is None else tuple(body.keep),
        }
        config = CorrectionConfig(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        return self._corrector(body.channel or "keyboard", body.rate, body.grammar, config).correct(texts)

    def _new_corrector(self, channel: Any, rate: float | None, grammar: Any, config: CorrectionConfig) -> Corrector:
        return corrector(self._model, channel, rate=rate, grammar=grammar, lexicon=self._words, config=config)

    @cached_property
    def _words(self) -> WordIndex:
        return word_index(self._model)


def correction_record(index: int, one: Corrected) -> Json:
    """A corrected text with its changes, as `chainrule correct --json` writes them."""
    changes = [{**change._asdict(), "prob": finite(change.prob)} for change in one.changes]
    return {"index": index, "text": one.text, "corrected": one.corrected, "changes": changes, "note": one.note}
