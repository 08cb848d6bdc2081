"""Builds networks from configurations, which only this module and the encoders read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.config import MaskedConfig, TextEncoderConfig, TransformerConfig
from chainrule.neural.encoders.blocks import norm_of
from chainrule.neural.layers.basic import Embedding, OutputTransform, initialise
from chainrule.neural.layers.output import AdaptiveSoftmax, FullSoftmax, NoOutput, SampledSoftmax
from chainrule.neural.network import Network
from chainrule.neural.sentence_pairs import NextSentence

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.neural.config import NetworkConfig


def build(config: NetworkConfig, vocabulary_size: int, counts: Float[Tensor, " V"] | None = None) -> Network:
    """A network with initial weights, drawn from torch's random generator.

    counts: how often each token occurs in the training text, for outputs that rank or sample tokens by frequency.
    Raises SettingError if the configuration does not suit the vocabulary.
    """
    if isinstance(config, TransformerConfig):
        ends = _ends_of_transformer(config, vocabulary_size)
    else:
        ends = _ends(config, vocabulary_size)
    if config.closed_by is not None and config.closed_by >= vocabulary_size:
        raise SettingError(f"closed_by names token {config.closed_by}, but the vocabulary has {vocabulary_size:,}")
    encoder = config.encoder.get()(config)
    if isinstance(config, TextEncoderConfig):
        return Network(config, ends.embedding, encoder, NoOutput())
    counts = torch.zeros(vocabulary_size, device="cpu") if counts is None else counts
    if config.output == "adaptive":
        adaptive = AdaptiveSoftmax(config.output_width, counts, config.cutoffs or _cutoffs(vocabulary_size))
        return Network(config, ends.embedding, encoder, adaptive)
    full = FullSoftmax(
        ends.output_weight,
        bias=ends.output_bias or config.output == "nce",
        ends=config.ends,
        banned=config.banned,
        transform=ends.output_transform,
        scale=ends.logit_scale,
        cap=ends.logit_cap,
    )
    if config.output == "full":
        return Network(config, ends.embedding, encoder, full, _next_sentence(config))
    if config.output == "nce" and full.bias is not None:  # the scores then begin as a normalised distribution
        nn.init.constant_(full.bias, -math.log(vocabulary_size))
    sampled = SampledSoftmax(full, config.output, config.noise_samples, counts, config.noise_power)
    return Network(config, ends.embedding, encoder, sampled)


def _next_sentence(config: NetworkConfig) -> NextSentence | None:
    if isinstance(config, MaskedConfig) and config.next_sentence:
        return NextSentence(config.width, config.initialisation)
    return None


class _Ends(NamedTuple):
    """The embedding and the output: what comes before and after the encoder."""

    embedding: Embedding
    output_weight: nn.Parameter
    output_bias: bool
    output_transform: OutputTransform | None = None
    logit_scale: float = 1.0
    logit_cap: float | None = None


def _ends(config: NetworkConfig, vocabulary_size: int) -> _Ends:
    embedding = Embedding(vocabulary_size, config.input_width, token_dropout=config.embedding_dropout)
    nn.init.normal_(embedding.weight, std=config.input_width**-0.5 if config.tied else 1.0)
    weight = embedding.weight
    if not config.tied:
        weight = nn.Parameter(torch.empty(vocabulary_size, config.output_width))
        initialise(weight, "fan_in")
    return _Ends(embedding, weight, output_bias=True)


def _ends_of_transformer(config: TransformerConfig, vocabulary_size: int) -> _Ends:
    width = config.input_width
    embedding = Embedding(
        vocabulary_size,
        width,
        scale=(math.sqrt(width) if config.scaled_embedding else 1.0) * config.embedding_scale,
        norm=norm_of(config, width) if config.embedding_norm else None,
        token_dropout=config.embedding_dropout,
        beside=config.layers * config.layer_input_width,
        beside_scale=math.sqrt(config.layer_input_width),
    )
    std = 0.02 if config.initialisation == "gpt2" else width**-0.5 if config.tied else 1.0
    nn.init.normal_(embedding.weight, std=std)
    weight = embedding.weight
    if not config.tied:
        weight = nn.Parameter(torch.zeros(vocabulary_size, width))
        if not config.zero_projections:
            initialise(weight, config.initialisation)
    transform = None
    if config.output_transform:
        transform = OutputTransform(
            config.feed_forward, (config.width, width), norm_of(config, width), bias=config.biases
        )
    return _Ends(embedding, weight, config.output_bias, transform, config.logit_scale, config.logit_cap)


def _cutoffs(vocabulary_size: int) -> tuple[int, ...]:
    """Puts a tenth of the vocabulary in the head, the next three tenths in one cluster, and the rest in another."""
    return tuple(sorted({max(1, vocabulary_size // 10), max(1, 4 * vocabulary_size // 10)}))
