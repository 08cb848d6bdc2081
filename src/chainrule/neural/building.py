"""From a configuration to a network: configurations go no deeper than here and the encoders."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from chainrule.neural.config import (
    BagConfig,
    BilinearConfig,
    ConvolutionConfig,
    FeedforwardConfig,
    MaskedConfig,
    MaskedRecurrentConfig,
    NetworkConfig,
    RecurrentConfig,
    TransformerConfig,
    TwoSidedConfig,
)
from chainrule.neural.encoders.bag import Bag
from chainrule.neural.encoders.bilinear import Bilinear
from chainrule.neural.encoders.convolution import Convolution
from chainrule.neural.encoders.directions import Apart, Woven
from chainrule.neural.encoders.feedforward import Feedforward
from chainrule.neural.encoders.recurrent import Recurrent
from chainrule.neural.encoders.transformer import Transformer, norm_of
from chainrule.neural.layers import Embedding, initialise
from chainrule.neural.network import Network
from chainrule.neural.output import AdaptiveSoftmax, FullSoftmax, SampledSoftmax

if TYPE_CHECKING:
    from collections.abc import Callable

_ENCODERS: dict[type[NetworkConfig], Callable[[Any], nn.Module]] = {
    BilinearConfig: Bilinear,
    BagConfig: Bag,
    FeedforwardConfig: Feedforward,
    ConvolutionConfig: Convolution,
    RecurrentConfig: Recurrent,
    TransformerConfig: Transformer,
    MaskedConfig: partial(Transformer, is_bidirectional=True),
    MaskedRecurrentConfig: Woven,
    TwoSidedConfig: Apart,
}


def build(config: NetworkConfig, vocabulary_size: int, counts: Tensor | None = None) -> Network:
    """A network with the weights that training begins with, drawn by torch's random numbers.

    counts: (V,), how often each token is in the training text, for outputs that sort or draw tokens by it.
    Raises SettingError where the configuration does not suit the vocabulary.
    """
    if isinstance(config, TransformerConfig):
        ends = _ends_of_transformer(config, vocabulary_size)
    else:
        ends = _ends(config, vocabulary_size)
    encoder = _ENCODERS[type(config)](config)
    counts = torch.zeros(vocabulary_size, device="cpu") if counts is None else counts
    if config.output == "adaptive":
        cutoffs = config.cutoffs or _cutoffs(vocabulary_size)
        return Network(config, ends.embedding, encoder, AdaptiveSoftmax(config.output_width, counts, cutoffs))
    full = FullSoftmax(
        ends.output_weight, bias=ends.bias or config.output == "nce", ends=config.ends, banned=config.banned
    )
    if config.output == "full":
        return Network(config, ends.embedding, encoder, full)
    if config.output == "nce" and full.bias is not None:  # so that the scores of all tokens begin as a distribution
        nn.init.constant_(full.bias, -math.log(vocabulary_size))
    sampled = SampledSoftmax(full, config.output, config.noise_samples, counts, config.noise_power)
    return Network(config, ends.embedding, encoder, sampled)


class _Ends(NamedTuple):
    """What stands before and behind the encoder."""

    embedding: Embedding
    output_weight: nn.Parameter
    bias: bool  # of the output


def _ends(config: NetworkConfig, vocabulary_size: int) -> _Ends:
    embedding = Embedding(vocabulary_size, config.input_width, token_dropout=config.embedding_dropout)
    nn.init.normal_(embedding.weight, std=config.input_width**-0.5 if config.tied else 1.0)
    weight = embedding.weight
    if not config.tied:
        weight = nn.Parameter(torch.empty(vocabulary_size, config.output_width))
        initialise(weight, "fan_in")
    return _Ends(embedding, weight, bias=True)


def _ends_of_transformer(config: TransformerConfig, vocabulary_size: int) -> _Ends:
    width = config.width
    embedding = Embedding(
        vocabulary_size,
        width,
        scale=math.sqrt(width) if config.scaled_embedding else 1.0,
        norm=norm_of(config) if config.embedding_norm else None,
        token_dropout=config.embedding_dropout,
    )
    spread = 0.02 if config.initialisation == "gpt2" else width**-0.5 if config.tied else 1.0
    nn.init.normal_(embedding.weight, std=spread)
    weight = embedding.weight
    if not config.tied:
        weight = nn.Parameter(torch.zeros(vocabulary_size, width))
        if not config.zero_projections:
            initialise(weight, config.initialisation)
    return _Ends(embedding, weight, bias=False)


def _cutoffs(vocabulary_size: int) -> tuple[int, ...]:
    """A tenth of the vocabulary in the head, the next three tenths in a cluster, and the rest in another."""
    return tuple(sorted({max(1, vocabulary_size // 10), max(1, 4 * vocabulary_size // 10)}))
