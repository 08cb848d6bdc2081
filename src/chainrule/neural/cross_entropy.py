"""Cross-entropy of large vocabularies: the logits of all places are never held at once.

Each block of places has its logits, its loss and, where gradients are taken, its gradients computed before the next one
begins, so that nothing needs to be computed twice. Legend: N places, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = 1 << 22  # logits that are multiplied at once on a processor
NEAR = 1 << 18  # and those that go through the softmax at once, so that they stay in its cache
HELD_ON_DEVICE = 1 << 27  # both on an accelerator, which wants large pieces


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
    if torch.is_grad_enabled():
        found: Tensor = _InBlocks.apply(hidden, weight, bias, targets, smoothing, weights)  # type: ignore[no-untyped-call]
        return found
    total = torch.zeros((), device=hidden.device)
    for block in blocks(hidden, len(weight)):
        losses = _losses(F.linear(hidden[block], weight, bias).float(), targets[block], smoothing, bias).losses
        total += losses.sum() if weights is None else (losses * weights[block]).sum()
    return total


def blocks(places: Tensor, vocabulary_size: int, *, near: bool = False) -> Iterator[slice]:
    """Of places, (N, ...): those whose logits are held together, or go through the softmax together."""
    held = HELD_ON_DEVICE if places.device.type != "cpu" else NEAR if near else HELD
    size = max(1, held // vocabulary_size)
    for begin in range(0, len(places), size):
        yield slice(begin, begin + size)


class _Losses(NamedTuple):
    """Of each place, (N,); what tokens smoothing gives a share to, (V,), ones and zeros; log sum exp of each, (N,)."""

    losses: Tensor
    possible: Tensor
    log_sums: Tensor


def _losses(logits: Tensor, targets: Tensor, smoothing: float, bias: Tensor | None) -> _Losses:
    """logits: (N, V), float32."""
    possible = torch.ones_like(logits[0]) if bias is None else torch.isfinite(bias).to(logits.dtype)
    log_sums = logits.logsumexp(1)
    losses = log_sums - (1 - smoothing) * logits.gather(1, targets[:, None])[:, 0]
    if smoothing:
        losses -= smoothing * torch.where(possible > 0, logits, 0).sum(1) / possible.sum()
    return _Losses(losses, possible, log_sums)


def _gradient(
    logits: Tensor, targets: Tensor, smoothing: float, bias: Tensor | None, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """With respect to logits, (N, V) in float32, which it overwrites; and the sum of the losses."""
    losses, possible, log_sums = _losses(logits, targets, smoothing, bias)
    gradient = logits.sub_(log_sums[:, None]).exp_()
    gradient.scatter_add_(1, targets[:, None], gradient.new_full((len(losses), 1), smoothing - 1))
    if smoothing:
        gradient -= possible * (smoothing / possible.sum())
    if weights is None:
        return gradient, losses.sum()
    return gradient.mul_(weights[:, None]), (losses * weights).sum()


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
        kind = F.linear(hidden[:1], weight[:1]).dtype  # of products here; each matrix is turned into it once
        low_hidden, low_weight = hidden.to(kind), weight.to(kind)
        for block in blocks(hidden, len(weight)):
            logits = F.linear(low_hidden[block], low_weight, bias)
            for near in blocks(logits, len(weight), near=True):
                counts = None if weights is None else weights[block][near]
                gradient, loss = _gradient(logits[near].float(), targets[block][near], smoothing, bias, counts)
                logits[near] = gradient
                total += loss
                if by_bias is not None:
                    by_bias += gradient.sum(0)
            by_hidden[block] = logits @ low_weight  # logits no more: the gradients with respect to them
            by_weight += logits.t() @ low_hidden[block]
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
