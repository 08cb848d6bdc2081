"""Cross-entropy of large vocabularies: the logits of all places are never held at once.

Each block of places has its logits, its loss and, where gradients are taken, its gradients computed before the next one
begins, so that nothing needs to be computed twice. Legend: N places, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = 1 << 22  # logits that a processor holds at once, so that they stay near it
HELD_ON_DEVICE = 1 << 27  # and an accelerator, which wants large pieces


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    smoothing: float = 0.0,
    weights: Tensor | None = None,
) -> Tensor:
    """The sum over all places of -log softmax(W h + b)[target], in nats, float32.

    hidden: (N, D). weight: (V, D). bias: (V,); where it is -inf, a token has no probability. targets: (N,), int64.
    smoothing: the share of each target that goes to all tokens that have a probability, alike (Szegedy 2016).
    weights: (N,), what each place counts.
    """
    if len(hidden) * len(weight) <= _held(hidden):
        losses = _losses(F.linear(hidden, weight, bias), targets, smoothing, bias)[0]
        return losses.sum() if weights is None else (losses * weights).sum()
    if torch.is_grad_enabled():
        found: Tensor = _InBlocks.apply(hidden, weight, bias, targets, smoothing, weights)  # type: ignore[no-untyped-call]
        return found
    total = torch.zeros((), device=hidden.device)
    for block in blocks(hidden, len(weight)):
        losses = _losses(F.linear(hidden[block], weight, bias), targets[block], smoothing, bias)[0]
        total += losses.sum() if weights is None else (losses * weights[block]).sum()
    return total


def blocks(hidden: Tensor, vocabulary_size: int) -> Iterator[slice]:
    """Places whose logits are held together."""
    size = max(1, _held(hidden) // vocabulary_size)
    for begin in range(0, len(hidden), size):
        yield slice(begin, begin + size)


def _held(hidden: Tensor) -> int:
    return HELD if hidden.device.type == "cpu" else HELD_ON_DEVICE


def _losses(logits: Tensor, targets: Tensor, smoothing: float, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Of each place, (N,), and the tokens that smoothing gives a share to, (V,) in ones and zeros."""
    logits = logits.float()
    possible = torch.ones_like(logits[0]) if bias is None else torch.isfinite(bias).to(logits.dtype)
    if not smoothing:
        return F.cross_entropy(logits, targets, reduction="none"), possible
    log_sum = logits.logsumexp(1)
    mean = torch.where(possible > 0, logits, 0).sum(1) / possible.sum()
    picked = logits.gather(1, targets[:, None])[:, 0]
    return log_sum - (1 - smoothing) * picked - smoothing * mean, possible


class _InBlocks(torch.autograd.Function):
    """`cross_entropy`, with the gradients of each block taken while its logits are there."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        weights: Tensor | None,
    ) -> Tensor:
        by_hidden = torch.empty_like(hidden)
        by_weight = torch.zeros_like(weight, dtype=torch.float32)
        by_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        total = torch.zeros((), device=hidden.device)
        for block in blocks(hidden, len(weight)):
            logits = F.linear(hidden[block], weight, bias).float()
            losses, possible = _losses(logits, targets[block], smoothing, bias)
            counts = losses.new_ones(len(losses)) if weights is None else weights[block].float()
            total += (losses * counts).sum()
            gradient = logits.softmax(1)
            gradient.scatter_add_(1, targets[block, None], gradient.new_full((len(losses), 1), smoothing - 1))
            if smoothing:
                gradient -= possible * (smoothing / possible.sum())
            gradient *= counts[:, None]
            by_hidden[block] = F.linear(gradient, weight.t())
            by_weight += F.linear(gradient.t(), hidden[block].t())
            if by_bias is not None:
                by_bias += gradient.sum(0)
        ctx.save_for_backward(by_hidden, by_weight, by_bias)
        ctx.kinds = weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        [gradient] = gradients
        by_hidden, by_weight, by_bias = ctx.saved_tensors
        kind, bias_kind = ctx.kinds
        by_bias = None if by_bias is None else (by_bias * gradient).to(bias_kind)
        return by_hidden * gradient, (by_weight * gradient).to(kind), by_bias, None, None, None
