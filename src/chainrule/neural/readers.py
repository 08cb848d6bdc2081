"""What reads a source: each place sees all of it, before and after.

Legend: N sources, S their tokens, D width. What stands past the end of a source is never seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from chainrule.neural.attention import Sight
from chainrule.neural.decoders.transformer import Places, block_config
from chainrule.neural.dropout import dropped
from chainrule.neural.encoders.transformer import Block
from chainrule.neural.layers import norm

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig


class Memory(NamedTuple):
    """places: (N, S, D). summary: (N, D)."""

    places: Tensor
    summary: Tensor


class Reader(Protocol):
    """An nn.Module."""

    def __call__(self, x: Tensor, seen: Tensor, looked: list[Tensor] | None = None) -> Memory:
        """x: (N, S, D). seen: (N, S), True where there is a token. looked: as `Sight`'s, where there is attention."""


class TransformerReader(nn.Module):
    """The encoder of Vaswani et al. 2017, norms after or before each sub-layer."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        blocks = block_config(config, config.encoder_layers)
        self.places, self.dropout = Places(config), config.dropout
        self.blocks = nn.ModuleList(Block(blocks) for _ in range(config.encoder_layers))
        is_pre = config.norm_place == "pre"
        self.norm = norm(blocks.norm, config.width, gain=blocks.norm_gain, bias=blocks.biases) if is_pre else None

    def forward(self, x: Tensor, seen: Tensor, looked: list[Tensor] | None = None) -> Memory:
        x, turn = self.places(x, torch.arange(x.shape[1], device=x.device)[None])
        x = dropped(x, self.dropout, self.training)
        sight = Sight(seen[:, None, None], looked=looked)
        for layer, block in enumerate(self.blocks):
            x = block(x, sight, turn, None, layer)
        x = x if self.norm is None else self.norm(x)
        return Memory(x, _mean(x, seen))


class RecurrentReader(nn.Module):
    """LSTM or GRU layers in both directions (Schuster and Paliwal 1997), half of the width each."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        kind = nn.LSTM if config.encoder == "lstm" else nn.GRU
        self.layers = kind(
            config.width,
            config.width // 2,
            config.encoder_layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if config.encoder_layers > 1 else 0.0,
        )
        self.dropout = config.dropout

    def forward(self, x: Tensor, seen: Tensor, looked: list[Tensor] | None = None) -> Memory:
        """The summary is what each direction has read at its end."""
        x = dropped(x, self.dropout, self.training)
        packed = pack_padded_sequence(x, seen.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        found, last = self.layers(packed)
        places, _ = pad_packed_sequence(found, batch_first=True, total_length=x.shape[1])
        state = last[0] if isinstance(last, tuple) else last
        return Memory(dropped(places, self.dropout, self.training), torch.cat((state[-2], state[-1]), 1))


class ConvolutionReader(nn.Module):
    """Gated convolutions, each added to what goes into it (Gehring 2017); places by sinusoids."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.places, self.dropout, self.before = Places(config), config.dropout, (config.kernel - 1) // 2
        self.kernel = config.kernel
        self.layers = nn.ModuleList(
            nn.Linear(config.kernel * config.width, 2 * config.width) for _ in range(config.encoder_layers)
        )

    def forward(self, x: Tensor, seen: Tensor, looked: list[Tensor] | None = None) -> Memory:
        x, _ = self.places(x, torch.arange(x.shape[1], device=x.device)[None])
        x = dropped(x, self.dropout, self.training)
        for layer in self.layers:
            x = x.masked_fill(~seen[:, :, None], 0)
            around = F.pad(x, (0, 0, self.before, self.kernel - 1 - self.before)).unfold(1, self.kernel, 1)
            x = (x + dropped(F.glu(layer(around.flatten(2)), -1), self.dropout, self.training)) * 0.5**0.5
        return Memory(x, _mean(x, seen))


def reader_of(config: ConditionalConfig) -> nn.Module:
    """A Reader."""
    if config.encoder == "transformer":
        return TransformerReader(config)
    return ConvolutionReader(config) if config.encoder == "convolution" else RecurrentReader(config)


def _mean(x: Tensor, seen: Tensor) -> Tensor:
    """Over the places of each source: (N, D)."""
    weights = seen.to(x.dtype)
    return torch.einsum("nsd,ns->nd", x, weights) / weights.sum(1, keepdim=True)
