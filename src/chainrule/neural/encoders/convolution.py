"""Causal convolutions: dilated (van den Oord 2016), gated (Dauphin 2017), residual (Bai 2018, temporal convolutions).

Legend: B batch, T time, D width, k kernel, d dilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.dropout import dropped
from chainrule.neural.windows import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import ConvolutionConfig
    from chainrule.neural.config.convolution import Gate
    from chainrule.neural.states import State


class Layer(nn.Module):
    """x + gate(W [x_t, x_t-d, .., x_t-(k-1)d] + b), of normalised x. A state is what it has read last, normalised."""

    def __init__(self, config: ConvolutionConfig, dilation: int) -> None:
        super().__init__()
        self.kernel, self.dilation, self.gate, self.dropout = config.kernel, dilation, config.gate, config.dropout
        self.norm = nn.RMSNorm(config.width, elementwise_affine=False)
        outputs = config.width if config.gate == "none" else 2 * config.width
        self.weight = nn.Linear(config.kernel * config.width, outputs)

    def forward(self, x: Tensor, past: Tensor, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """x: (B, T, D); past: (B, (k - 1) d, D)."""
        seen, past = side_by_side(self.norm(x), past, starts, self.kernel, self.dilation)  # (B, T, k D)
        return x + dropped(gated(self.weight(seen), self.gate), self.dropout, self.training), past


class Convolution(nn.Module):
    """Layers, one on the other, and a norm at the end. A state is one for each layer."""

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: ConvolutionConfig) -> None:
        super().__init__()
        self.width, self.reach = config.width, config.reach
        self.layers = nn.ModuleList(Layer(config, dilation) for dilation in config.dilations)
        self.kept = [(config.kernel - 1) * dilation for dilation in config.dilations]
        self.norm = nn.RMSNorm(config.width, elementwise_affine=False)

    def start(self, rows: int) -> tuple[Tensor, ...]:
        """The state of rows that have read nothing."""
        like = next(self.parameters())
        return tuple(like.new_zeros(rows, kept, self.width) for kept in self.kept)

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, D). starts: (B, T), True where a row forgets what it has read and begins anew."""
        before = self.start(len(x)) if state is None else cast("tuple[Tensor, ...]", state)
        after = []
        for layer, past in zip(self.layers, before, strict=True):
            x, past = layer(x, past, starts)
            after.append(past)
        return self.norm(x), tuple(after)

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`; the last one is normalised, as `forward` gives it."""
        for number, (layer, past) in enumerate(zip(self.layers, self.start(len(x)), strict=True), 1):
            x, _ = layer(x, past, starts)
            yield self.norm(x) if number == len(self.layers) else x


def gated(x: Tensor, kind: Gate) -> Tensor:
    """(.., 2 D) -> (.., D), the first half by the second; of no gate (.., D) -> (.., D)."""
    if kind == "none":
        return F.relu(x)
    value, gate = x.chunk(2, -1)
    return (value if kind == "glu" else value.tanh()) * gate.sigmoid()
