"""Of log-bilinear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import setting
from chainrule.neural.config.network import CONTEXT, MAX_CONTEXT, MAX_WIDTH, NetworkConfig

PositionWeights = Literal["matrix", "diagonal", "none"]


@dataclass(frozen=True, kw_only=True)
class BilinearConfig(NetworkConfig):
    """A log-bilinear model: it predicts the next token's vector linearly.

    The vectors of the last few tokens are weighted by position and added
    (Mnih and Hinton 2007).
    """

    width: int = setting(256, "numbers in the vector of a token", least=1, below=MAX_WIDTH)
    window: int = setting(5, "tokens that a prediction looks back", least=1, below=MAX_CONTEXT)
    position_weights: PositionWeights = setting(
        "matrix",
        "of the vectors at each position; diagonal: one weight per element (Mnih and Teh 2012); none: the plain sum, "
        "which is CBOW, and with a window of 1 the skip-gram's softmax(v c) as a language model (Mikolov 2013)",
    )
    context: int = setting(128, CONTEXT, least=1, below=MAX_CONTEXT)
