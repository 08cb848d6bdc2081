"""Networks that see both sides of a gap and fill it."""

from __future__ import annotations

from typing import ClassVar

from chainrule.api.embedding_model import EmbeddingModel
from chainrule.api.predict import fill_masks
from chainrule.api.scoring_model import ScoringModel
from chainrule.text.masks import MASK


class MaskedModel(ScoringModel, EmbeddingModel):
    """A network that fills gaps in texts. Its scores are pseudo-log-likelihoods."""

    wanted: ClassVar[str] = "fills gaps in texts"

    def fill(self, text: str, top: int = 5, *, mask: str = MASK) -> list[list[tuple[str, float]]]:
        """The likeliest tokens for each mask of a text, with their probabilities, best first, none of them zero.

        Raises SettingError if the text has no mask; MarkerError.

        good:  model.fill("the [MASK] bit the man")
        """
        return fill_masks(self.engine, self.tokenizer, text, top, mask)
