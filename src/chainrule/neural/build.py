"""Builds networks from configurations, which only this module and the encoders read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.config import MaskedConfig, TextEncoderConfig
from chainrule.neural.encoders.blocks import norm_of
from chainrule.neural.layers.basic import Embedding, OutputTransform, initialise
from chainrule.neural.layers.output import AdaptiveSoftmax, FullSoftmax, NoOutput, SampledSoftmax
from chainrule.neural.layers.projection import Projection
from chainrule.neural.network import Network
from chainrule.neural.sentence_pairs import NextSentence

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.neural.config import NetworkConfig, TransformerConfig
    from chainrule.neural.config.bidirectional import BertSettings


def build(config: NetworkConfig, vocabulary_size: int, counts: Float[Tensor, " V"] | None = None) -> Network:
    """Return a network with initial weights, drawn from torch's random generator.

    counts: how often each token occurs in the training text, for outputs that rank or sample tokens by frequency.
    Raises SettingError if the configuration does not suit the vocabulary.
    """
    outer: OuterLayers = config.outer_layers.get()(config, vocabulary_size)
    if config.closed_by is not None and config.closed_by >= vocabulary_size:
        raise SettingError(f"closed_by names token {config.closed_by}, but the vocabulary has {vocabulary_size:,}")
    encoder = config.encoder.get()(config)
    if isinstance(config, TextEncoderConfig):
        return Network(config, outer.embedding, encoder, _of_texts(config))
    counts = torch.zeros(vocabulary_size, device="cpu") if counts is None else counts
    if config.output == "adaptive":
        adaptive = AdaptiveSoftmax(config.output_width, counts, config.cutoffs or _cutoffs(vocabulary_size))
        return Network(config, outer.embedding, encoder, adaptive)
    full = FullSoftmax(
        outer.weight,
        bias=outer.bias or config.output == "nce",
        ends=config.ends,
        banned=config.banned,
        transform=outer.transform,
        scale=outer.scale,
        cap=outer.cap,
    )
    if config.output == "full":
        return Network(config, outer.embedding, encoder, full, _next_sentence(config))
    if config.output == "nce" and full.bias is not None:  # the scores then begin as a normalised distribution
        nn.init.constant_(full.bias, -math.log(vocabulary_size))
    sampled = SampledSoftmax(full, config.output, config.noise_samples, counts, config.noise_power)
    return Network(config, outer.embedding, encoder, sampled)


def _of_texts(config: TextEncoderConfig) -> NoOutput:
    """Return what the vectors of texts go through."""
    if not config.projection_widths:
        return NoOutput()
    return Projection(
        config.output_width,
        config.projection_widths,
        biases=config.projection_biases,
        activation=config.projection_activation,
    )


def _next_sentence(config: NetworkConfig) -> NextSentence | None:
    if isinstance(config, MaskedConfig) and config.next_sentence:
        return NextSentence(config.width, config.initialisation)
    return None


class OuterLayers(NamedTuple):
    """The embedding and the output of a network: what comes before and after the encoder."""

    embedding: Embedding
    weight: nn.Parameter  # of the output
    bias: bool = False
    transform: OutputTransform | None = None
    scale: float = 1.0
    cap: float | None = None


def outer_layers(config: NetworkConfig, vocabulary_size: int) -> OuterLayers:
    """Return the outer layers of networks other than Transformers."""
    embedding = Embedding(vocabulary_size, config.input_width, token_dropout=config.embedding_dropout)
    nn.init.normal_(embedding.weight, std=config.input_width**-0.5 if config.tied else 1.0)
    weight = embedding.weight
    if not config.tied:
        weight = nn.Parameter(torch.empty(vocabulary_size, config.output_width))
        initialise(weight, "fan_in")
    return OuterLayers(embedding, weight, bias=True)


def outer_layers_of_transformer(config: TransformerConfig, vocabulary_size: int) -> OuterLayers:
    """Return the outer layers of Transformers."""
    norm = norm_of(config, config.input_width) if config.embedding_norm else None
    scale = math.sqrt(config.input_width) if config.scaled_embedding else 1.0
    dropout = config.embedding_dropout
    embedding = Embedding(vocabulary_size, config.input_width, scale=scale, norm=norm, token_dropout=dropout)
    return OuterLayers(embedding, initialised_vectors(config, embedding))


def initialised_vectors(config: TransformerConfig, embedding: Embedding) -> nn.Parameter:
    """Draw the vectors of tokens, and those of the output, which are returned."""
    width = config.input_width
    std = 0.02 if config.initialisation == "gpt2" else width**-0.5 if config.tied else 1.0
    nn.init.normal_(embedding.weight, std=std)
    if config.tied:
        return embedding.weight
    weight = nn.Parameter(torch.zeros(embedding.weight.shape))
    if not config.zero_projections:
        initialise(weight, config.initialisation)
    return weight


def outer_layers_of_bert(config: BertSettings, vocabulary_size: int) -> OuterLayers:
    """Return the outer layers of Transformers that may have a layer before the output."""
    outer = outer_layers_of_transformer(config, vocabulary_size)
    transform = None
    if config.output_transform:
        widths, norm = (config.width, config.input_width), norm_of(config, config.input_width)
        transform = OutputTransform(config.feed_forward, widths, norm, bias=config.biases)
    return outer._replace(bias=config.output_bias, transform=transform)


def _cutoffs(vocabulary_size: int) -> tuple[int, ...]:
    """Put a tenth of the vocabulary in the head, the next three tenths in one cluster, and the rest in another."""
    return tuple(sorted({max(1, vocabulary_size // 10), max(1, 4 * vocabulary_size // 10)}))
