"""Networks for P(target | source): a reader, and a decoder, which is a context encoder that attends to the source.

Legend: M sources, S their tokens, B rows of the decoder, T time, D width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.decoders.convolution import ConvolutionDecoder
from chainrule.neural.decoders.hierarchical import HierarchicalDecoder
from chainrule.neural.decoders.recurrent import RecurrentDecoder
from chainrule.neural.decoders.transformer import TransformerDecoder
from chainrule.neural.encoded_source import Source
from chainrule.neural.hard_attention_output import ChoiceSoftmax
from chainrule.neural.layers import Embedding, Scaled
from chainrule.neural.output import FullSoftmax
from chainrule.neural.source_encoders import build_reader
from chainrule.neural.source_vectors import VectorInput
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float, Int64, Shaped

    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.encoded_source import KeysAndValues, WeightLists
    from chainrule.neural.encoder_states import State
    from chainrule.neural.source_encoders import Reader


class Decoder(Protocol):
    """An nn.Module."""

    width: int  # of its hidden states

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """What each layer attends to; computed once for each source."""

    def start(self, source: Source) -> State:
        """The state of the source's rows before their first token."""

    def __call__(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *choices D"], State]:
        """As `Encoder`, with rows that attend to `source`."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """As `nn.Module.named_parameters`."""


class ConditionalNetwork(nn.Module):
    """A source of tokens ends with </s>; the input of the decoder begins with it, or with what `begins_with` names."""

    def __init__(
        self,
        config: ConditionalConfig,
        source_embedding: Embedding | VectorInput,
        reader: Reader,
        embedding: Embedding,
        decoder: Decoder,
        output: FullSoftmax | ChoiceSoftmax,
    ) -> None:
        super().__init__()
        self.config, self.output = config, output
        self.source_embedding, self.reader = source_embedding, reader
        self.embedding, self.decoder = embedding, decoder
        self.vocabulary_size = len(embedding.weight)
        self.source_vocabulary_size = 0 if isinstance(source_embedding, VectorInput) else len(source_embedding.weight)

    def read(
        self, sources: Shaped[Tensor, "M S *_"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Source:
        """Encodes sources: tokens, each with its </s>, or vectors or pixels, as `VectorInput` takes them.

        is_token: False at padding. weights_out: as for `Reader`.
        """
        encoding = self.reader(self.source_embedding(sources), is_token, weights_out)
        return Source.of(is_token, *encoding, self.decoder.keys_and_values(encoding.vectors))

    def forward(
        self,
        sources: Shaped[Tensor, "M S *_"],
        is_token: Bool[Tensor, "M S"],
        inputs: Int64[Tensor, "M T"],
        weights_out: WeightLists | None = None,
    ) -> Float[Tensor, "M T *choices D"]:
        """Hidden states for `output`. inputs: </s> or <s>, then the target. sources, is_token: as for `read`.

        weights_out: where the decoder records its attention weights.
        """
        source = replace(self.read(sources, is_token), weights_out=weights_out)
        return self.decoder(self.embed(inputs), None, None, source)[0]

    def embed(self, inputs: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors of what the decoder reads; the </s> before a target becomes <s> where targets begin with that.

        For a hierarchical decoder, each ends with 1 where a sentence begins, else 0: (B, T, D + 1).
        """
        read = torch.where(inputs == END, BEGIN, inputs) if self.config.begins_with == "<s>" else inputs
        vectors = cast("Tensor", self.embedding(read))
        if self.config.decoder != "hierarchical":
            return vectors
        begins = (inputs == END) | (inputs == self.config.sentence_end)  # a sentence begins after it
        return torch.cat((vectors, begins[..., None].to(vectors.dtype)), -1)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def matrices(self) -> list[nn.Parameter]:
        """The hidden matrices, without tables by distance: Muon orthogonalises their gradients."""
        named = chain(self.reader.named_parameters(), self.decoder.named_parameters())
        return [weight for name, weight in named if weight.ndim == 2 and not name.startswith("bias.")]


def build_conditional(config: ConditionalConfig, source_size: int, size: int) -> ConditionalNetwork:
    """A network with initial weights, drawn from torch's random generator.

    source_size, size: of the two vocabularies; the first is not used where sources are vectors. Raises SettingError if
    they differ but share vectors.
    """
    if config.shared in ("all", "inputs") and source_size != size:
        raise SettingError(
            f"source and target cannot share vectors: their vocabularies have {source_size:,} and {size:,} tokens; "
            "use one tokenizer for both, or set shared to target or none"
        )
    adds_positions = not {"transformer", "convolution"}.isdisjoint((config.encoder, config.decoder))
    is_scaled = config.scaled_embedding and adds_positions
    scale = math.sqrt(config.width) if is_scaled else 1.0
    embedding = Embedding(size, config.width, scale=scale)
    source_embedding = (
        VectorInput(config) if config.reads_vectors else Embedding(source_size, config.width, scale=scale)
    )
    std = config.width**-0.5 if is_scaled or config.shared != "none" else 1.0
    for vectors in (embedding, source_embedding):
        if isinstance(vectors, Embedding):
            nn.init.normal_(vectors.weight, std=std)
    if config.shared in ("all", "inputs"):
        source_embedding.weight = embedding.weight
    reader, decoder = build_reader(config), _build_decoder(config)
    for part in (reader, decoder):
        for module in part.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
    weight = embedding.weight
    if config.shared in ("inputs", "none"):
        weight = nn.Parameter(torch.empty_like(weight))
        nn.init.normal_(weight, std=config.width**-0.5)
    softmax = FullSoftmax(
        weight,
        bias=config.output_bias,
        ends=config.ends,
        banned=config.banned,
        transform=Scaled(config.width**-0.5) if config.scaled_output else None,
    )
    output = ChoiceSoftmax(softmax, is_exact=config.estimator == "exact") if config.attention == "hard" else softmax
    return ConditionalNetwork(config, source_embedding, reader, embedding, decoder, output)


def _build_decoder(
    config: ConditionalConfig,
) -> TransformerDecoder | ConvolutionDecoder | RecurrentDecoder | HierarchicalDecoder:
    if config.decoder == "hierarchical":
        return HierarchicalDecoder(config)
    if config.decoder == "transformer":
        return TransformerDecoder(config)
    return ConvolutionDecoder(config) if config.decoder == "convolution" else RecurrentDecoder(config)
