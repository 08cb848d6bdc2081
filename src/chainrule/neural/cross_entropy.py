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

HELD = 1 << 22  # logits that are multiplied at once on a processor
NEAR = 1 << 18  # and those that go through the softmax at once, so that they stay in its cache
HELD_ON_DEVICE = 1 << 27  # both on an accelerator, which wants large pieces
_EVEN = 64  # blocks are padded to a multiple of it: every new matrix shape has to be prepared first


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    smoothing: float = 0.0,
    weights: Tensor | None = None,
) -> Tensor:
    """The sum over all positions of -log softmax(W h + b)[target], in nats, float32.

    hidden: (R, D). weight: (V, D). bias: (V,); where it is -inf, a token has no probability. targets: (R,), int64.
    smoothing: the share of each target that goes to all tokens that have a probability, alike (Szegedy 2016).
    weights: (R,), what each position counts.
    """
    if smoothing:
        sharp = cross_entropy(hidden, weight, bias, targets, weights=weights)
        above = _above_mean(hidden, weight, bias, targets)
        return sharp + smoothing * (above if weights is None else above * weights).sum()
    if torch.is_grad_enabled():
        found: Tensor = _InBlocks.apply(hidden, weight, bias, targets, weights)  # type: ignore[no-untyped-call]
        return found
    total = torch.zeros((), device=hidden.device)
    for block in blocks(hidden, len(weight)):
        logits = F.linear(hidden[block], weight, bias).float()
        losses = F.cross_entropy(logits, targets[block], reduction="none")
        total += losses.sum() if weights is None else (losses * weights[block]).sum()
    return total


def blocks(positions: Tensor, vocabulary_size: int, *, near: bool = False) -> Iterator[slice]:
    """Of positions, (R, ...): those whose logits are held together, or go through the softmax together."""
    held = HELD_ON_DEVICE if positions.device.type != "cpu" else NEAR if near else HELD
    size = max(1, held // vocabulary_size)
    for begin in range(0, len(positions), size):
        yield slice(begin, begin + size)


def _above_mean(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """(R,): how much the target's logit is above the mean of all that have a probability; no logits are computed."""
    if bias is None:
        return (hidden * (F.embedding(targets, weight) - weight.mean(0))).sum(1)
    is_possible = torch.isfinite(bias)
    share = is_possible / is_possible.sum()  # (V,)
    mean, mean_bias = (weight * share[:, None]).sum(0), torch.where(is_possible, bias, 0) @ share
    return (hidden * (F.embedding(targets, weight) - mean)).sum(1) + bias[targets] - mean_bias


class _InBlocks(torch.autograd.Function):
    """`cross_entropy`, with the gradients of each block taken while its logits are there."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, weights: Tensor | None
    ) -> Tensor:
        by_weight = torch.zeros_like(weight, dtype=torch.float32)
        by_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        total = torch.zeros((), device=hidden.device)
        kind = F.linear(hidden[:1], weight[:1]).dtype  # of products here; each matrix is converted once
        low_weight = weight.to(kind)
        low_hidden = F.pad(hidden.to(kind), (0, 0, 0, -len(hidden) % _EVEN))  # zeros, whose gradients are zeros
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
            by_hidden[block] = logits @ low_weight  # logits no more: the gradients with respect to them
            by_weight += logits.t() @ low_hidden[block]
        ctx.save_for_backward(by_hidden[: len(hidden)], by_weight, by_bias)
        ctx.kinds = weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        [gradient] = gradients
        by_hidden, by_weight, by_bias = ctx.saved_tensors
        kind, bias_kind = ctx.kinds
        by_bias = None if by_bias is None else (by_bias * gradient).to(bias_kind)
        return by_hidden * gradient, (by_weight * gradient).to(kind), by_bias, None, None


def _into_gradient(logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """The sum of losses; logits, (R, V) in float32, become the gradient with respect to themselves."""
    peaks = logits.amax(1, keepdim=True)
    found = logits.gather(1, targets[:, None]) - peaks
    sums = logits.sub_(peaks).exp_().sum(1, keepdim=True)
    losses = (sums.log() - found)[:, 0]
    logits.div_(sums).scatter_add_(1, targets[:, None], logits.new_full((len(logits), 1), -1.0))
    if weights is None:
        return losses.sum()
    logits.mul_(weights[:, None])
    return (losses * weights).sum()
