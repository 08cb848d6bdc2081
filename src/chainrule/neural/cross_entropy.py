"""Cross-entropy for large vocabularies, without ever holding the logits of all positions at once.

Logits, loss and, in training, gradients are computed for one block of positions before the next block begins, so
nothing is computed twice. Legend: R positions, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float, Float32, Int64

HELD = 1 << 22  # logits that are computed at once on a processor
NEAR = 1 << 18  # logits that go through the softmax at once, so that they stay in its cache
HELD_ON_DEVICE = 1 << 27  # both on an accelerator, which needs large blocks
_EVEN = 64  # blocks are padded to a multiple of it: every new matrix shape has to be prepared first


def cross_entropy(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int64[Tensor, " R"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, " R"] | None = None,
) -> Float32[Tensor, ""]:
    """The sum over all positions of -log softmax(W h + b)[target], in nats.

    bias: -inf for tokens without a probability. smoothing: the share of each target that is spread evenly over all
    tokens that have a probability (Szegedy et al. 2016, section 7). weights: of the positions; None: all 1.
    """
    if smoothing:
        sharp = cross_entropy(hidden, weight, bias, targets, weights=weights)
        above = _above_mean(hidden, weight, bias, targets)
        return sharp + smoothing * (above if weights is None else above * weights).sum()
    if torch.is_grad_enabled():
        loss: Tensor = _InBlocks.apply(hidden, weight, bias, targets, weights)  # type: ignore[no-untyped-call]
        return loss
    total = torch.zeros((), device=hidden.device)
    for block in blocks(hidden, len(weight)):
        logits = F.linear(hidden[block], weight, bias).float()
        losses = F.cross_entropy(logits, targets[block], reduction="none")
        total += losses.sum() if weights is None else (losses * weights[block]).sum()
    return total


def blocks(positions: Tensor, vocabulary_size: int, *, near: bool = False) -> Iterator[slice]:
    """Slices of positions whose logits are held at once; near: that go through the softmax at once."""
    held = HELD_ON_DEVICE if positions.device.type != "cpu" else NEAR if near else HELD
    size = max(1, held // vocabulary_size)
    for begin in range(0, len(positions), size):
        yield slice(begin, begin + size)


def _above_mean(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int64[Tensor, " R"],
) -> Float[Tensor, " R"]:
    """The target's logit minus the mean logit of all tokens that have a probability, without computing the logits."""
    if bias is None:
        return (hidden * (F.embedding(targets, weight) - weight.mean(0))).sum(1)
    is_possible = torch.isfinite(bias)
    share = is_possible / is_possible.sum()  # (V,)
    mean, mean_bias = (weight * share[:, None]).sum(0), torch.where(is_possible, bias, 0) @ share
    return (hidden * (F.embedding(targets, weight) - mean)).sum(1) + bias[targets] - mean_bias


class _InBlocks(torch.autograd.Function):
    """`cross_entropy`, with the gradients of each block computed while its logits exist."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, weights: Tensor | None
    ) -> Tensor:
        by_weight = torch.zeros_like(weight, dtype=torch.float32)
        by_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        total = torch.zeros((), device=hidden.device)
        dtype = F.linear(hidden[:1], weight[:1]).dtype  # that of products under autocast; each matrix is cast once
        low_weight = weight.to(dtype)
        low_hidden = F.pad(hidden.to(dtype), (0, 0, 0, -len(hidden) % _EVEN))  # padding has no gradient
        by_hidden = torch.empty_like(low_hidden, dtype=hidden.dtype)
        for block in blocks(low_hidden, len(weight)):
            logits = F.linear(low_hidden[block], low_weight)
            wanted, counts = targets[block], None if weights is None else weights[block]
            real = logits[: len(wanted)]
            for near in blocks(real, len(weight), near=True):
                exact = real[near].float()
                if bias is not None:
                    exact += bias
                total += _into_gradient(exact, wanted[near], None if counts is None else counts[near])
                real[near] = exact
                if by_bias is not None:
                    by_bias += exact.sum(0)
            by_hidden[block] = logits @ low_weight  # `logits` now holds the gradients with respect to the logits
            by_weight += logits.t() @ low_hidden[block]
        ctx.save_for_backward(by_hidden[: len(hidden)], by_weight, by_bias)
        ctx.dtypes = weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        [gradient] = gradients
        by_hidden, by_weight, by_bias = ctx.saved_tensors
        dtype, bias_dtype = ctx.dtypes
        by_bias = None if by_bias is None else (by_bias * gradient).to(bias_dtype)
        return by_hidden * gradient, (by_weight * gradient).to(dtype), by_bias, None, None


def _into_gradient(
    logits: Float32[Tensor, "R V"], targets: Int64[Tensor, " R"], weights: Float[Tensor, " R"] | None
) -> Float32[Tensor, ""]:
    """The sum of the losses; overwrites the logits with the gradient with respect to them."""
    peaks = logits.amax(1, keepdim=True)
    target = logits.gather(1, targets[:, None]) - peaks
    sums = logits.sub_(peaks).exp_().sum(1, keepdim=True)
    losses = (sums.log() - target)[:, 0]
    logits.div_(sums).scatter_add_(1, targets[:, None], logits.new_full((len(logits), 1), -1.0))
    if weights is None:
        return losses.sum()
    logits.mul_(weights[:, None])
    return (losses * weights).sum()
