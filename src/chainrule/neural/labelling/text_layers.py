"""The layers of networks that label texts: none, recurrent ones, convolutions, a Transformer.

Legend: B batch, T time, E width of the vectors of tokens, D width.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.config import MaskedConfig
from chainrule.neural.document_boundaries import padding_starts
from chainrule.neural.dropout import dropped
from chainrule.neural.encoders.transformer import Transformer

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

    from chainrule.neural.config.labelling import ConvolutionLabelling, RecurrentLabelling, TransformerLabelling

_CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class NoLayers(nn.Module):
    """The vectors of tokens as they are."""

    is_bidirectional = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T E"]:
        """x itself."""
        return x


class RecurrentLayers(nn.Module):
    """Stacked recurrent layers, in one direction or in both.

    From the right, each row is read reversed within its own length, so that what fills it up always comes last.
    """

    def __init__(self, config: RecurrentLabelling) -> None:
        super().__init__()
        self.width, self.dropout = config.width, config.dropout
        self.is_bidirectional = config.directions == "both"
        widths = [config.embedding_width, *[config.width] * config.layers]
        own = config.width // 2 if self.is_bidirectional else config.width
        cell = _CELLS[config.cell]
        self.ahead = nn.ModuleList(cell(before, own, batch_first=True) for before, _ in pairwise(widths))
        self.back = nn.ModuleList(
            cell(before, own, batch_first=True) for before, _ in pairwise(widths) if self.is_bidirectional
        )
        if config.cell == "lstm":
            for layer in [*self.ahead, *self.back]:
                _open_forget_gates(layer)

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T D"]:
        """The hidden vectors of the last layer."""
        if not self.is_bidirectional:
            for i, layer in enumerate(self.ahead):
                x = layer(self._dropped(x, i))[0]
            return x
        order = _reversed(lengths, x.shape[1])
        for i, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            x = self._dropped(x, i)
            backwards = back(_in_order(x, order))[0]
            x = torch.cat((ahead(x)[0], _in_order(backwards, order)), 2)
        return x

    def _dropped(self, x: Tensor, layer: int) -> Tensor:
        """What the first layer reads has had its dropout."""
        return dropped(x, self.dropout, self.training) if layer else x


class ConvolutionLayers(nn.Module):
    """ReLU(W x_i..i+n + b) for several filter widths n, side by side (Kim 2014, equation 2); zeros stand around a text.

    At position i stands the window whose middle it is, so that words can be labelled, too.
    """

    is_bidirectional = False

    def __init__(self, config: ConvolutionLabelling) -> None:
        super().__init__()
        self.width = config.width * len(config.filters)
        self.filters = nn.ModuleList(nn.Conv1d(config.embedding_width, config.width, n) for n in config.filters)

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T width"]:
        """The filters' outputs at each position."""
        inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        columns = (x * inside[..., None]).transpose(1, 2)  # (B, E, T)
        outputs = []
        for layer in self.filters:
            n = cast("nn.Conv1d", layer).kernel_size[0]
            outputs.append(F.relu(layer(F.pad(columns, ((n - 1) // 2, n // 2)))))
        return torch.cat(outputs, 1).transpose(1, 2)


class TransformerLayers(nn.Module):
    """The project's Transformer, which sees both sides."""

    is_bidirectional = False

    def __init__(self, config: TransformerLabelling) -> None:
        super().__init__()
        self.width = config.width
        own = MaskedConfig(width=config.width, layers=config.layers, heads=config.heads, dropout=config.dropout)
        narrower = config.embedding_width not in (None, config.width)
        self.widened = nn.Linear(cast("int", config.embedding_width), config.width) if narrower else nn.Identity()
        self.blocks = Transformer(own, is_bidirectional=True)

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T D"]:
        """The hidden vectors of the last layer."""
        starts = padding_starts(lengths.tolist(), x.device, width=x.shape[1])
        return cast("Tensor", self.blocks(self.widened(x), None, starts)[0])


def _open_forget_gates(layer: nn.Module) -> None:
    """Sets the bias of the forget gate to 1 (Gers et al. 2000); gates are in the order input, forget, cell, output."""
    with torch.no_grad():
        for name, bias in layer.named_parameters():
            if "bias" in name:
                bias.zero_()
                if "bias_ih" in name:
                    width = len(bias) // 4
                    bias[width : 2 * width] = 1


def _reversed(lengths: Int64[Tensor, " B"], width: int) -> Int64[Tensor, "B T"]:
    """The positions of each row from its last to its first, then those beyond its length as they are."""
    columns = torch.arange(width, device=lengths.device)[None]
    return torch.where(columns < lengths[:, None], lengths[:, None] - 1 - columns, columns)


def _in_order(x: Float[Tensor, "B T D"], order: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[2]))
