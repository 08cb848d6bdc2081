"""Networks that see both sides of a gap and fill it."""

from __future__ import annotations

import math
from typing import ClassVar

from chainrule.api.models.embedding_model import EmbeddingModel
from chainrule.api.models.predict import fill_masks
from chainrule.api.models.scoring_model import ScoringModel
from chainrule.errors import SettingError
from chainrule.text.tokenization.tokenizer import MASK


class MaskedModel(ScoringModel, EmbeddingModel):
    """A network that fills gaps in texts. Its scores are pseudo-log-likelihoods."""

    wanted: ClassVar[str] = "fills gaps in texts"

    def fill(self, text: str, top: int = 5, *, mask: str = MASK) -> list[list[tuple[str, float]]]:
        """The likeliest tokens for each mask of a text, with their probabilities, best first, none of them zero.

        Raises SettingError if the text has no mask; MarkerError.

        good:  model.fill("the [MASK] bit the man")
        """
        return fill_masks(self.engine, self.tokenizer, text, top, mask)

    def follows(self, first: str, second: str) -> float:
        """P(the second sentence follows the first), of a model that learned it (`next_sentence`).

        Raises SettingError if it did not, or if one of them is empty; MarkerError.

        good:  model.follows("where is the cat ?", "it is on the mat .")
        """
        for name, text in (("first", first), ("second", second)):
            if not isinstance(text, str) or not text.strip():
                raise SettingError(f"{name} is {text!r}; expected a sentence")
        sides = [[self.tokenizer.encode_texts([text]).ids[:-1]] for text in (first, second)]
        return math.exp(self.engine.score_following(*sides)[0])
