"""A model of pairs as a scorer of hypotheses, given the sources of their lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.errors import SettingError
from chainrule.text.parallel import Pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.api.conditional.pair_model import TextPairModel


class PairScorer:
    """log P(hypothesis | source), as rescoring needs it. An unknown token costs P(<unk>), without a spelling."""

    def __init__(self, model: TextPairModel) -> None:
        self.model = model

    def log_probs(self, texts: Sequence[str], sources: Sequence[str | None]) -> Float64[ndarray, " texts"]:
        """As `TextScorer.log_probs`. Raises SettingError where a list has no source, or one that is too long."""
        known = [source for source in sources if source is not None]
        if len(known) < len(texts):
            raise SettingError(
                "a model of pairs scores hypotheses by their sources, which the lists lack; name a file of sources, "
                'or give JSON lists a "source"'
            )
        return self.model.score(Pairs(known, list(texts)), progress=False)
