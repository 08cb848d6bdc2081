"""Encoders of sources: the vector of each token depends on the whole source, but never on padding.

They are called readers, since `Encoder` is a context encoder. Legend: M sources, S their tokens, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.features.seq2seq.network.transformer_decoder import PositionEncoding, block_config, learned_places
from chainrule.neural.config.language_models import RecurrentConfig
from chainrule.neural.encoders.bidirectional import BidirectionalRecurrent
from chainrule.neural.encoders.blocks import Block, norm_of
from chainrule.neural.layers.basic import drop
from chainrule.neural.layers.masks import AttentionMask
from chainrule.neural.layers.positions import Relative

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig


class Encoding(NamedTuple):
    """The output of a source encoder: a vector for each token, and one for the whole source."""

    vectors: Float[Tensor, "M S D"]
    summary: Float[Tensor, "M D"]


class SourceEncoder(Protocol):
    """A source encoder, as an nn.Module."""

    def __call__(
        self, x: Float[Tensor, "M S D"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Encoding:
        """Encode sources. is_token: False at padding. weights_out: as in `AttentionMask`."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the named parameters, as `nn.Module.named_parameters` does."""


class TransformerReader(nn.Module):
    """The encoder of Vaswani et al. 2017 (section 3.1), with norms before or after each sub-layer."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        blocks = block_config(config, config.encoder_layers)
        self.positions, self.dropout = PositionEncoding(config), config.dropout
        self.bias = Relative(config.heads, two_sided=True) if config.positions == "relative" else None
        self.places, self.offset = learned_places(config, config.learned_source_positions), config.position_offset
        self.embedding_norm = norm_of(blocks) if config.embedding_norm else None
        self.blocks = nn.ModuleList(Block(blocks) for _ in range(config.encoder_layers))
        self.norm = norm_of(blocks) if config.norm_place == "pre" else None
        self.is_full = config.convolved_source

    def forward(
        self, x: Float[Tensor, "M S D"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Encoding:
        """Encode sources, as `SourceEncoder` does."""
        columns = torch.arange(x.shape[1], device=x.device)
        x, rotation = self.positions(x, columns[None])
        if self.places is not None:
            x = x + self.places(columns + self.offset)
        x = x if self.embedding_norm is None else self.embedding_norm(x)
        x = drop(x, self.dropout, self.training)
        is_key = None if self.is_full else is_token[:, None, None]
        if self.bias is not None:
            is_padding = ~is_token[:, None, None]
            is_key = (
                self.bias(columns[:, None] - columns).to(x.dtype).masked_fill(is_padding, -torch.inf)
            )  # (M, H, S, S)
        mask = AttentionMask(is_key, weights_out=weights_out)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, None, layer)
        x = x if self.norm is None else self.norm(x)
        return Encoding(x, _mean(x, is_token))


class RecurrentReader(nn.Module):
    """LSTM or GRU layers in both directions (Schuster and Paliwal 1997), each direction of half the width."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        layers = RecurrentConfig(
            cell="lstm" if config.encoder == "lstm" else "gru",
            layers=config.encoder_layers,
            width=config.width,
            dropout=config.dropout,
            variational=False,
        )
        self.layers, self.dropout = BidirectionalRecurrent(layers), config.dropout

    def forward(
        self, x: Float[Tensor, "M S D"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Encoding:
        """Encode sources, as `SourceEncoder` does; the summary holds the last hidden state of each direction."""
        lengths = is_token.sum(1, keepdim=True)
        padding = (
            torch.arange(x.shape[1], device=x.device) == lengths
        )  # where the padding of a row begins, as a new text
        hidden, _ = self.layers(drop(x, self.dropout, self.training), None, padding if padding.any() else None)
        ahead, back = hidden.chunk(2, -1)
        at_end = ahead.gather(1, (lengths - 1)[:, :, None].expand(-1, -1, ahead.shape[2]))[:, 0]
        return Encoding(drop(hidden, self.dropout, self.training), torch.cat((at_end, back[:, 0]), 1))


class ConvolutionReader(nn.Module):
    """Gated convolutions with residual connections (Gehring et al. 2017, section 3.2)."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.positions, self.dropout, self.before = PositionEncoding(config), config.dropout, (config.kernel - 1) // 2
        self.kernel = config.kernel
        self.layers = nn.ModuleList(
            nn.Linear(config.kernel * config.width, 2 * config.width) for _ in range(config.encoder_layers)
        )

    def forward(
        self, x: Float[Tensor, "M S D"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Encoding:
        """Encode sources, as `SourceEncoder` does."""
        x, _ = self.positions(x, torch.arange(x.shape[1], device=x.device)[None])
        x = drop(x, self.dropout, self.training)
        for layer in self.layers:
            x = x.masked_fill(~is_token[:, :, None], 0)
            around = F.pad(x, (0, 0, self.before, self.kernel - 1 - self.before)).unfold(1, self.kernel, 1)
            x = (x + drop(F.glu(layer(around.flatten(2)), -1), self.dropout, self.training)) * 0.5**0.5
        return Encoding(x, _mean(x, is_token))


class PlainReader(nn.Module):
    """Leaves vectors unchanged: those of a picture's places, which its own encoder computed, or of single tokens."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.dropout = config.dropout

    def forward(
        self, x: Float[Tensor, "M S D"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Encoding:
        """Encode sources, as `SourceEncoder` does."""
        x = drop(x, self.dropout, self.training)
        return Encoding(x, _mean(x, is_token))


def build_reader(config: Seq2SeqConfig) -> TransformerReader | ConvolutionReader | RecurrentReader | PlainReader:
    """Return the reader that `config.encoder` names."""
    if config.encoder == "none":
        return PlainReader(config)
    if config.encoder == "transformer":
        return TransformerReader(config)
    return ConvolutionReader(config) if config.encoder == "convolution" else RecurrentReader(config)


def _mean(x: Float[Tensor, "M S D"], is_token: Bool[Tensor, "M S"]) -> Float[Tensor, "M D"]:
    """Return the mean vector over the tokens of each source."""
    weights = is_token.to(x.dtype)
    return torch.einsum("nsd,ns->nd", x, weights) / weights.sum(1, keepdim=True)
