"""A model of pairs of wrong and right texts, as a corrector: what it writes, and what it thinks of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.conditional.pair_model import TextPairModel
from chainrule.decoding.config import BeamConfig
from chainrule.text.parallel import Pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

_BEAM = BeamConfig(size=4, best=4, rank_by="mean", stop="likely")


class PairCorrector:
    """P(right text | wrong text). It says nothing of texts longer than the model reads."""

    def __init__(self, model: TextPairModel) -> None:
        # A literal </s> or <unk> is left alone.
        source, target = model.source.with_markers("keep"), model.target.with_markers("keep")
        self._model = TextPairModel(model.model, source, target, model.record)
        self._longest = model.model.network.config.max_source

    def propose(self, texts: Sequence[str]) -> list[list[str]]:
        """For each text, what may have been meant by it."""
        read = self._readable(texts)
        written = self._model.write([texts[i] for i in read], _BEAM)
        proposed: list[list[str]] = [[] for _ in texts]
        for i, hypotheses in zip(read, written, strict=True):
            proposed[i] = [one.text for one in hypotheses]
        return proposed

    def log_probs(self, texts: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " texts"]:
        """log P(meant | text) of each pair, in nats."""
        log_probs = np.zeros(len(texts))
        read = self._readable(texts)
        log_probs[read] = self._model.score(Pairs([texts[i] for i in read], [meant[i] for i in read]))
        return log_probs

    def _readable(self, texts: Sequence[str]) -> list[int]:
        return [i for i, ids in enumerate(self._model.sources(texts)) if 0 < ids.size < self._longest]
