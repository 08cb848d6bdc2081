"""One sequence given another: P(target | source). A reader, and a decoder that is a context encoder with a source.

Legend: M sources, S their tokens, B rows of the decoder, T time, D width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.decoders.convolution import ConvolutionDecoder
from chainrule.neural.decoders.recurrent import RecurrentDecoder
from chainrule.neural.decoders.transformer import TransformerDecoder
from chainrule.neural.layers import Embedding
from chainrule.neural.output import FullSoftmax
from chainrule.neural.output_of_choices import ChoiceSoftmax
from chainrule.neural.readers import Encoding, reader_of
from chainrule.neural.source import Source

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.source import KeysAndValues
    from chainrule.neural.states import State


class Decoder(Protocol):
    """An nn.Module."""

    width: int  # of what it gives

    def keys_and_values(self, memory: Tensor) -> tuple[KeysAndValues, ...]:
        """What its layers look at, made of a memory, (M, S, D), once."""

    def start(self, source: Source) -> State:
        """The state of the source's rows that have read nothing."""

    def __call__(self, x: Tensor, state: State, starts: Tensor | None, source: Source) -> tuple[Tensor, State]:
        """As `Encoder`: x: (B, T, D) -> (B, T, ...), and the state; the rows look at `source`."""


class ConditionalNetwork(nn.Module):
    """Both vocabularies are fed with </s>: a source ends with it, and a target begins after it."""

    def __init__(
        self,
        config: ConditionalConfig,
        source_embedding: Embedding,
        reader: nn.Module,
        embedding: Embedding,
        decoder: nn.Module,
        output: FullSoftmax | ChoiceSoftmax,
    ) -> None:
        """reader: a Reader. decoder: a Decoder."""
        super().__init__()
        self.config, self.output = config, output
        self.source_embedding, self.reader = source_embedding, reader
        self.embedding, self.decoder = embedding, decoder
        self.vocabulary_size, self.source_vocabulary_size = len(embedding.weight), len(source_embedding.weight)

    def read(self, tokens: Tensor, seen: Tensor, weights_out: list[Tensor] | None = None) -> Source:
        """tokens: (M, S), int64, each source with its </s>. seen: (M, S), True where there is one. weights_out: as the
        reader's.
        """
        encoding: Encoding = self.reader(self.source_embedding(tokens), seen, weights_out)
        return Source.of(seen, *encoding, self.writer.keys_and_values(encoding.vectors))

    def forward(self, tokens: Tensor, seen: Tensor, inputs: Tensor) -> Tensor:
        """Of sources, and what is read of their targets, (M, T), </s> first: hidden states for `output`."""
        return self.writer(self.embedding(inputs), None, None, self.read(tokens, seen))[0]

    @property
    def writer(self) -> Decoder:
        return cast("Decoder", self.decoder)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def matrices(self) -> list[nn.Parameter]:
        """The hidden matrices, whose gradients Muon makes orthogonal."""
        parts = (self.reader, self.decoder)
        return [weight for part in parts for weight in part.parameters() if weight.ndim == 2]


def build_conditional(config: ConditionalConfig, source_size: int, size: int) -> ConditionalNetwork:
    """A network with the weights that training begins with, drawn by torch's random numbers.

    source_size, size: of the vocabularies. Raises SettingError.
    """
    if config.shared == "all" and source_size != size:
        raise SettingError(
            f"source and target cannot share vectors: their vocabularies have {source_size:,} and {size:,} tokens; "
            "give them one tokenizer, or share those of the target alone"
        )
    is_scaled = "transformer" in (config.encoder, config.decoder) or "convolution" in (config.encoder, config.decoder)
    scale = math.sqrt(config.width) if is_scaled else 1.0
    embedding = Embedding(size, config.width, scale=scale)
    source_embedding = Embedding(source_size, config.width, scale=scale)
    spread = config.width**-0.5 if is_scaled or config.shared != "none" else 1.0
    for each in (embedding, source_embedding):
        nn.init.normal_(each.weight, std=spread)
    if config.shared == "all":
        source_embedding.weight = embedding.weight
    reader, decoder = reader_of(config), _decoder(config)
    for part in (reader, decoder):
        for module in part.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
    weight = embedding.weight
    if config.shared == "none":
        weight = nn.Parameter(torch.empty_like(weight))
        nn.init.normal_(weight, std=config.width**-0.5)
    softmax = FullSoftmax(weight, bias=True)
    output = ChoiceSoftmax(softmax) if config.attention == "hard" else softmax
    return ConditionalNetwork(config, source_embedding, reader, embedding, decoder, output)


def _decoder(config: ConditionalConfig) -> nn.Module:
    if config.decoder == "transformer":
        return TransformerDecoder(config)
    return ConvolutionDecoder(config) if config.decoder == "convolution" else RecurrentDecoder(config)
