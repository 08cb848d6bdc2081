"""Two sentences as one input: [CLS] a [SEP] b [SEP] (Devlin et al. 2019, section 3), with the type of each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import nn

from chainrule.neural.layers.basic import initialise
from chainrule.neural.layers.matrix_products import linear
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Float, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.transformer import Initialisation
    from chainrule.text.units import UnitTokens

    Tokens = Int32[ndarray, " tokens"]

MARKERS = 3  # [CLS] and two [SEP]


class SentencePair(NamedTuple):
    """Both sentences as the tokens of one text, with one unit. second: where the second one begins among them."""

    tokens: Int32[ndarray, " T"]
    of_tokens: Int64[ndarray, " T"]
    number: int
    second: int


def join_sentences(first: UnitTokens, second: UnitTokens, separator: int, longest: int) -> SentencePair:
    """Return both sentences joined as by `pair_tokens`, as a text that is labelled as a whole."""
    tokens, begin = pair_tokens(first.tokens, second.tokens, separator, longest)
    return SentencePair(tokens[1:], np.zeros(len(tokens) - 1, np.int64), 1, begin - 1)


def separator(config: NetworkConfig) -> int:
    """Return [SEP]: the token that ends what an opened BERT reads; </s> for networks trained here."""
    return END if config.closed_by is None else config.closed_by


def pair_tokens(first: Tokens, second: Tokens, separator: int, longest: int) -> tuple[Int32[ndarray, " T"], int]:
    """Return [CLS] a [SEP] b [SEP], where [CLS] is </s>; and the place at which b begins.

    longest: the most tokens of both; of the longer sentence, the end is cut off, token by token, as in BERT.
    """
    a, b = _kept_lengths(len(first), len(second), longest)
    return np.concatenate([[END], first[:a], [separator], second[:b], [separator]]).astype(np.int32), a + 2


def _kept_lengths(a: int, b: int, longest: int) -> tuple[int, int]:
    excess = max(0, a + b - max(longest, 2))
    apart = min(excess, abs(a - b))  # these are cut off the longer one, the others by turns, the first one first
    a, b = (a - apart, b) if a > b else (a, b - apart)
    rest = excess - apart
    return a - (rest + 1) // 2, b - rest // 2


def with_types(
    x: Float[Tensor, "B T D"], types: Float[Tensor, "types D"] | None, second: Int64[Tensor, " B"]
) -> Float[Tensor, "B T D"]:
    """Return token vectors changed so that the encoder, which adds the first type's vector to all, adds the second's
    from `second` on.

    If there are no types, or one, they stay unchanged.
    """
    if types is None or len(types) < 2:
        return x
    is_second = torch.arange(x.shape[1], device=x.device) >= second[:, None]
    return x + is_second[..., None] * (types[1] - types[0]).to(x.dtype)


class NextSentence(nn.Module):
    """Whether the second sentence of a pair follows the first: softmax(U tanh(W h + b) + c), h at [CLS].

    Devlin et al. 2019, section 3.1; tanh and W, the pooler, as published in code.
    """

    def __init__(self, width: int, initialisation: Initialisation) -> None:
        super().__init__()
        self.pooler, self.output = nn.Linear(width, width), nn.Linear(width, 2)
        for layer in (self.pooler, self.output):
            initialise(layer.weight, initialisation)
            nn.init.zeros_(layer.bias)

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B 2"]:
        """Return the logits of the two answers: it follows, and it does not."""
        return linear(torch.tanh(linear(hidden[:, 0], self.pooler)), self.output)
