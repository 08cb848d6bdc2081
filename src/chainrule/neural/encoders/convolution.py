"""Causal convolutions: dilated (van den Oord 2016), gated (Dauphin 2017), residual (Bai 2018).

Legend: B batch, T time, D width, k kernel, d dilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.encoders.feedforward import concat_window
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.config import ConvolutionConfig
    from chainrule.neural.config.language_models import Gate
    from chainrule.neural.layers.state import State


class Layer(nn.Module):
    """x_t + gate(W [n_t; n_t-d; ..; n_t-(k-1)d] + b) with n = norm(x). A state holds the last (k - 1) d values of n."""

    def __init__(self, config: ConvolutionConfig, dilation: int) -> None:
        super().__init__()
        self.kernel, self.dilation, self.gate, self.dropout = config.kernel, dilation, config.gate, config.dropout
        self.norm = nn.RMSNorm(config.width, elementwise_affine=False)
        outputs = config.width if config.gate == "none" else 2 * config.width
        self.weight = nn.Linear(config.kernel * config.width, outputs)

    def forward(
        self, x: Float[Tensor, "B T D"], past: Float[Tensor, "B P D"], starts: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B P D"]]:
        """Return the layer's output, and its new past. past: its last P = (k - 1) d normalised inputs."""
        window, past = concat_window(self.norm(x), past, starts, self.kernel, self.dilation)  # (B, T, k D)
        return x + drop(apply_gate(self.weight(window), self.gate), self.dropout, self.training), past


class Convolution(nn.Module):
    """A stack of layers with a norm at the end. A state holds the states of all layers."""

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: ConvolutionConfig) -> None:
        super().__init__()
        self.width, self.reach = config.width, config.reach
        self.layers = nn.ModuleList(Layer(config, dilation) for dilation in config.dilations)
        self.kept = [(config.kernel - 1) * dilation for dilation in config.dilations]
        self.norm = nn.RMSNorm(config.width, elementwise_affine=False)

    def start(self, rows: int) -> tuple[Tensor, ...]:
        """Return the state of rows that have read nothing."""
        like = next(self.parameters())
        return tuple(like.new_zeros(rows, kept, self.width) for kept in self.kept)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        before = self.start(len(x)) if state is None else cast("tuple[Tensor, ...]", state)
        after = []
        for layer, past in zip(self.layers, before, strict=True):
            x, past = layer(x, past, starts)
            after.append(past)
        return self.norm(x), tuple(after)

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Yield the layers of `Encoder.hidden_layers`; the last layer is normalised, as in `forward`."""
        for layer, past in zip(self.layers, self.start(len(x)), strict=True):
            x, _ = layer(x, past, starts)
            yield self.norm(x) if layer is self.layers[-1] else x


def apply_gate(x: Float[Tensor, "*shape in"], kind: Gate) -> Float[Tensor, "*shape D"]:
    """Return the first half of x gated by the second (Dauphin 2017, equation 1); without a gate, relu(x)."""
    if kind == "none":
        return F.relu(x)
    value, gate = x.chunk(2, -1)
    return (value if kind == "glu" else value.tanh()) * gate.sigmoid()
