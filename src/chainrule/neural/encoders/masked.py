"""The Transformer of masked networks and of text encoders, with what BERT has before its blocks (Devlin 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.neural.encoders.transformer import Transformer

if TYPE_CHECKING:
    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.config.bidirectional import BertSettings


class MaskedTransformer(Transformer):
    """A Transformer that may add the vector of a segment to each token, and normalise the sums."""

    def _add_inputs(self, config: TransformerConfig) -> None:
        own = cast("BertSettings", config)
        self.segments = nn.Parameter(torch.zeros(own.segments, own.input_width)) if own.segments else None
        self.input_norm = self._norm(own, own.input_width) if own.input_norm else None

    def _placed(self, x: Tensor, positions: Tensor) -> Tensor:
        x = super()._placed(x, positions)
        if self.segments is not None:
            x = x + self.segments[0].to(x.dtype)
        return x if self.input_norm is None else cast("Tensor", self.input_norm(x))
