"""What reads a source: each position sees all of it, before and after.

Legend: M sources, S their tokens, D width. What stands past the end of a source is never seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.attention import AttentionMask
from chainrule.neural.config.recurrent import RecurrentConfig
from chainrule.neural.decoders.transformer import PositionEncoding, block_config
from chainrule.neural.dropout import dropped
from chainrule.neural.encoders.directions import Woven
from chainrule.neural.encoders.transformer import Block
from chainrule.neural.layers import norm

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig


class Encoding(NamedTuple):
    """vectors: (M, S, D). summary: (M, D)."""

    vectors: Tensor
    summary: Tensor


class Reader(Protocol):
    """An nn.Module."""

    def __call__(self, x: Tensor, seen: Tensor, weights_out: list[Tensor] | None = None) -> Encoding:
        """x: (M, S, D). seen: (M, S), True where there is a token. weights_out: as in `AttentionMask`."""


class TransformerReader(nn.Module):
    """The encoder of Vaswani et al. 2017, norms after or before each sub-layer."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        blocks = block_config(config, config.encoder_layers)
        self.positions, self.dropout = PositionEncoding(config), config.dropout
        self.blocks = nn.ModuleList(Block(blocks) for _ in range(config.encoder_layers))
        is_pre = config.norm_place == "pre"
        self.norm = norm(blocks.norm, config.width, gain=blocks.norm_gain, bias=blocks.biases) if is_pre else None

    def forward(self, x: Tensor, seen: Tensor, weights_out: list[Tensor] | None = None) -> Encoding:
        x, rotation = self.positions(x, torch.arange(x.shape[1], device=x.device)[None])
        x = dropped(x, self.dropout, self.training)
        mask = AttentionMask(seen[:, None, None], weights_out=weights_out)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, None, layer)
        x = x if self.norm is None else self.norm(x)
        return Encoding(x, _mean(x, seen))


class RecurrentReader(nn.Module):
    """LSTM or GRU layers in both directions (Schuster and Paliwal 1997), half of the width each."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        layers = RecurrentConfig(
            cell="lstm" if config.encoder == "lstm" else "gru",
            layers=config.encoder_layers,
            width=config.width,
            dropout=config.dropout,
            variational=False,
        )
        self.layers, self.dropout = Woven(layers), config.dropout

    def forward(self, x: Tensor, seen: Tensor, weights_out: list[Tensor] | None = None) -> Encoding:
        """The summary is what each direction has read at its end."""
        lengths = seen.sum(1, keepdim=True)
        filled = torch.arange(x.shape[1], device=x.device) == lengths  # where what fills a row begins, as its own text
        found, _ = self.layers(dropped(x, self.dropout, self.training), None, filled if filled.any() else None)
        ahead, back = found.chunk(2, -1)
        at_end = ahead.gather(1, (lengths - 1)[:, :, None].expand(-1, -1, ahead.shape[2]))[:, 0]
        return Encoding(dropped(found, self.dropout, self.training), torch.cat((at_end, back[:, 0]), 1))


class ConvolutionReader(nn.Module):
    """Gated convolutions, each added to what goes into it (Gehring 2017); positions by sinusoids."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.positions, self.dropout, self.before = PositionEncoding(config), config.dropout, (config.kernel - 1) // 2
        self.kernel = config.kernel
        self.layers = nn.ModuleList(
            nn.Linear(config.kernel * config.width, 2 * config.width) for _ in range(config.encoder_layers)
        )

    def forward(self, x: Tensor, seen: Tensor, weights_out: list[Tensor] | None = None) -> Encoding:
        x, _ = self.positions(x, torch.arange(x.shape[1], device=x.device)[None])
        x = dropped(x, self.dropout, self.training)
        for layer in self.layers:
            x = x.masked_fill(~seen[:, :, None], 0)
            around = F.pad(x, (0, 0, self.before, self.kernel - 1 - self.before)).unfold(1, self.kernel, 1)
            x = (x + dropped(F.glu(layer(around.flatten(2)), -1), self.dropout, self.training)) * 0.5**0.5
        return Encoding(x, _mean(x, seen))


def reader_of(config: ConditionalConfig) -> nn.Module:
    """A Reader."""
    if config.encoder == "transformer":
        return TransformerReader(config)
    return ConvolutionReader(config) if config.encoder == "convolution" else RecurrentReader(config)


def _mean(x: Tensor, seen: Tensor) -> Tensor:
    """Over the positions of each source: (M, D)."""
    weights = seen.to(x.dtype)
    return torch.einsum("nsd,ns->nd", x, weights) / weights.sum(1, keepdim=True)
