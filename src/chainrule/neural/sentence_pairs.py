"""Two sentences as one input: [CLS] a [SEP] b [SEP] (Devlin et al. 2019, section 3), with the type of each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Float, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network
    from chainrule.text.document_units import UnitTokens

MARKERS = 3  # [CLS] and two [SEP]


class SentencePair(NamedTuple):
    """Both sentences as the tokens of one text, with one unit. second: where the second one begins among them."""

    tokens: Int32[ndarray, " T"]
    of_tokens: Int64[ndarray, " T"]
    number: int
    second: int


def join_sentences(first: UnitTokens, second: UnitTokens, network: Network, longest: int) -> SentencePair:
    """The tokens of both, with the token that ends a text between them.

    longest: the most tokens of both; of the longer sentence, the end is cut off, token by token, as in BERT.
    """
    a, b = len(first.tokens), len(second.tokens)
    excess = max(0, a + b - max(longest, 2))
    apart = min(excess, abs(a - b))  # these are cut off the longer one, the others by turns, the first one first
    a, b = (a - apart, b) if a > b else (a, b - apart)
    rest = excess - apart
    a, b = a - (rest + 1) // 2, b - rest // 2
    separator = END if network.config.closed_by is None else network.config.closed_by
    tokens = np.concatenate([first.tokens[:a], [separator], second.tokens[:b]]).astype(np.int32)
    return SentencePair(tokens, np.zeros(len(tokens), np.int64), 1, a + 1)


def with_types(x: Float[Tensor, "B T D"], network: Network, second: Int64[Tensor, " B"]) -> Float[Tensor, "B T D"]:
    """The vectors of tokens, such that the encoder, which adds the first type to all, adds the second from `second` on.

    A network without types, or with one, gets them as they are.
    """
    types = getattr(network.encoder, "segments", None)
    if types is None or len(types) < 2:
        return x
    is_second = torch.arange(x.shape[1], device=x.device) >= second[:, None]
    return x + is_second[..., None] * (types[1] - types[0]).to(x.dtype)
