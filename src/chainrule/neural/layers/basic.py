"""Layers that networks share: embedding, norms, feed-forward layers, dropout, and the initialisation of weights.

Dropout (Srivastava et al. 2014) here needs few random bits.
Legend: B batch, T time, D width.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base import threads
from chainrule.neural.layers.matrix_products import elementwise, linear, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Float, Int64

    from chainrule.neural.config.network import Activation
    from chainrule.neural.config.transformer import FeedForward as FeedForwardKind
    from chainrule.neural.config.transformer import Initialisation, Norm

_CHANCES = 1 << 16  # values of a 16-bit random number


def pause() -> None:
    """Pause as `base/threads.py` does, between parts of a long text's reading; not in compiled networks."""
    if not torch.compiler.is_compiling():
        threads.pause()


def drop(x: Float[Tensor, "*shape"], share: float, training: bool = True) -> Float[Tensor, "*shape"]:
    """Return x with about that share of its elements set to 0, and the others scaled up to keep the mean.

    On a processor, where torch would draw 32 random bits for each element, four elements share a draw of 64 bits. The
    share is thereby rounded to a multiple of 1/65,536, and the scale follows the rounded share.
    """
    if not training or not share:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, share)
    zeroed = min(round(share * _CHANCES), _CHANCES - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    chances = draws.view(torch.int16)[: x.numel()].view(x.shape)
    return x * ((chances >= zeroed - _CHANCES // 2) * (_CHANCES / (_CHANCES - zeroed))).to(x.dtype)


def segment_starts(starts: Bool[Tensor, "B T"], kept: int) -> Int64[Tensor, "B T"]:
    """Return where the text of each position begins: the last start at or before it; -kept if the text began
    earlier.
    """
    positions = torch.arange(starts.shape[1], device=starts.device)
    return torch.where(starts, positions, -kept).cummax(1).values


class Dropout(nn.Module):
    """`drop` as a module."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return x, with dropout if the module is in training."""
        return drop(x, self.share, self.training)


class Embedding(nn.Module):
    """The vectors of tokens, optionally scaled, normalised and with dropout."""

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        *,
        scale: float = 1.0,
        norm: nn.Module | None = None,
        token_dropout: float = 0.0,
        beside: int = 0,
        beside_scale: float = 1.0,
    ) -> None:
        """Build the vectors.

        token_dropout: the share of the vocabulary whose vectors are 0 in a batch (Gal and Ghahramani 2016). beside:
        numbers of a second vector of each token, which follows the first one. beside_scale: its factor.
        """
        super().__init__()
        self.beside = nn.Parameter(torch.zeros(vocabulary_size, beside)) if beside else None
        self.beside_scale = beside_scale
        self.weight = nn.Parameter(torch.empty(vocabulary_size, width))
        self.scale, self.norm, self.token_dropout = scale, norm, token_dropout

    def forward(self, tokens: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape D"]:
        """Return the vector of each token."""
        x = rows(self.weight, tokens)
        if self.training and self.token_dropout:
            kept = drop(x.new_ones(len(self.weight)), self.token_dropout)
            x = x * kept[tokens].unsqueeze(-1)
        if self.scale != 1:
            x = x * self.scale
        if self.norm is not None:
            x = self.norm(x)
        if self.beside is None:
            return x
        return torch.cat((x, rows(self.beside, tokens) * self.beside_scale), -1)


def norm(
    kind: Norm, width: int, *, gain: bool, bias: bool, epsilon: float | None = None, gains_above_one: bool = False
) -> nn.Module:
    """Return LayerNorm (Ba 2016) or RMSNorm (Zhang and Sennrich 2019).

    bias: whether a LayerNorm with a gain has a shift. epsilon: added to the mean square or variance; None for 1e-5, or
    in RMSNorm for the epsilon of the number type. gains_above_one: whether the gain of an RMSNorm is 1 plus what is
    stored.
    """
    if kind == "layer":
        return LayerNorm(width, 1e-5 if epsilon is None else epsilon, elementwise_affine=gain, bias=bias and gain)
    if gain and gains_above_one:
        return NormFromOne(width, epsilon)
    return RMSNorm(width, epsilon, elementwise_affine=gain)


class LayerNorm(nn.LayerNorm):
    """torch's LayerNorm, which also takes vectors in float64 where its gain has float32."""

    def forward(self, input: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Return the normalised vectors, in their type."""
        if input.dtype != torch.float64 or self.weight is None:
            return super().forward(input)
        bias = None if self.bias is None else self.bias.double()
        return F.layer_norm(input, self.normalized_shape, self.weight.double(), bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """As `LayerNorm`."""

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Return the normalised vectors, in their type."""
        if x.dtype != torch.float64 or self.weight is None:
            return super().forward(x)
        return F.rms_norm(x, self.normalized_shape, self.weight.double(), self.eps)


class NormFromOne(nn.Module):
    """RMSNorm with a gain of 1 + w (Gemma)."""

    def __init__(self, width: int, epsilon: float | None) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.zeros(width)), epsilon

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Return the normalised vectors."""
        return F.rms_norm(x, self.weight.shape, eps=self.epsilon) * (1 + self.weight)


class FeedForward(nn.Module):
    """W2 a(W1 x), or gated: W2 (a(W1 x) * W3 x) (Shazeer 2020, equation 6), with W1 and W3 stored as one matrix."""

    def __init__(self, kind: FeedForwardKind, width: int, hidden: int, *, bias: bool) -> None:
        super().__init__()
        self.gated = kind in _GATED
        self.up = nn.Linear(width, 2 * hidden if self.gated else hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.activation, self.clamped = _ACTIVATIONS[kind], kind == "clamped_swiglu"

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the layer's output, for each position alone."""
        return linear(linear(x, self.up), self.down, self._activated)

    def _activated(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if not self.gated:
            return elementwise(self.activation, hidden)
        gate, hidden = hidden.chunk(2, -1)
        if self.clamped:
            hidden = hidden.clamp(-CLAMP, CLAMP) + 1
        return elementwise(self.activation, gate) * hidden


class OutputTransform(nn.Module):
    """norm(a(W x + b)), before the output of BERT (Devlin 2019, as published in code)."""

    def __init__(self, kind: FeedForwardKind, widths: tuple[int, int], norm: nn.Module, *, bias: bool = True) -> None:
        """Build the layer.

        kind: the activation, that of the gate where feed-forward layers have one. widths: before and after.
        """
        super().__init__()
        self.linear, self.norm, self.activation = nn.Linear(*widths, bias=bias), norm, _ACTIVATIONS[kind]

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Return the transformed hidden states."""
        return cast("Tensor", self.norm(elementwise(self.activation, linear(x, self.linear))))


class Scaled(nn.Module):
    """Multiplies its input by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the scaled numbers."""
        return x * self.factor


def layer_stack(widths: Sequence[int], activation: Activation, dropout: float) -> nn.Sequential:
    """Return a stack of layers a(W x + b), from the first width to the last.

    dropout: the share of each layer's outputs that is dropped.
    """
    layers: list[nn.Module] = []
    for pair in pairwise(widths):
        layers += [nn.Linear(*pair), _HIDDEN[activation](), Dropout(dropout)]
    return nn.Sequential(*layers)


_HIDDEN: dict[Activation, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}


def relu_squared(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return max(x, 0)^2 (So et al. 2021, Primer)."""
    return F.relu(x).square()


def gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return the GELU of x (Hendrycks and Gimpel 2016), in the approximation with tanh that GPT-2 uses."""
    return F.gelu(x, approximate="tanh")


def softly_capped(logits: Float[Tensor, "*shape V"], cap: float) -> Float[Tensor, "*shape V"]:
    """Cap tanh(l / cap) (Gemma 2, section 2); tokens without a probability stay so."""
    return (torch.tanh(logits / cap) * cap).masked_fill(logits == -torch.inf, -torch.inf)


def weighted_sum(losses: Float[Tensor, "*shape"], weights: Float[Tensor, "*shape"] | None) -> Float[Tensor, ""]:
    """Return the sum of weights times losses. A weight of 0 adds 0, even if the loss is infinite, since padding may be
    a token without a probability.
    """
    return losses.sum() if weights is None else (losses.masked_fill(weights == 0, 0.0) * weights).sum()


CLAMP, SHARPNESS = 7.0, 1.702  # of gpt-oss: the largest inputs of a gate, and the factor within its sigmoid


def clamped_swish(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x sigmoid(1.702 x) of x up to 7 (OpenAI 2025, gpt-oss, as published in code)."""
    x = x.clamp(max=CLAMP)
    return x * torch.sigmoid(SHARPNESS * x)


_ACTIVATIONS: dict[FeedForwardKind, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu_exact": F.gelu,
    "silu": F.silu,
    "relu_squared": relu_squared,
    "swiglu": F.silu,
    "geglu": gelu,
    "geglu_exact": F.gelu,
    "clamped_swiglu": clamped_swish,
}


def activation_of(kind: FeedForwardKind) -> Callable[[Tensor], Tensor]:
    """Return the activation of a feed-forward layer, or of its gate."""
    return _ACTIVATIONS[kind]


_GATED = ("swiglu", "geglu", "geglu_exact", "clamped_swiglu")


def initialise(weight: Float[Tensor, "outputs inputs"], kind: Initialisation, *, scale: float = 1.0) -> None:
    """Draw the weights of a matrix in place. scale: the factor of the standard deviation of gpt2."""
    if kind == "gpt2":
        nn.init.normal_(weight, std=0.02 * scale)
    elif kind == "xavier":
        nn.init.xavier_uniform_(weight)
    else:
        bound = 1 / math.sqrt(weight.shape[1])
        nn.init.uniform_(weight, -bound, bound)
