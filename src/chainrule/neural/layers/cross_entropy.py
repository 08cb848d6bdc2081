"""Cross-entropy of a softmax over the vocabulary, in blocks.

The logits of all positions are never held at once: logits, loss and, in training, gradients are computed for one block
of positions before the next block begins, so nothing is computed twice.
Legend: R positions, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from chainrule.base.lanes import LANES
from chainrule.errors import SettingError
from chainrule.neural.layers.basic import softly_capped, weighted_sum
from chainrule.neural.layers.matrix_products import softmax_into_gradients, wide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Float, Float32, Int64


class KnownLogProbs(NamedTuple):
    """A known distribution beside a network's logits: log P(w) = exponent log Q(w) + z_w - log Z.

    rows: a function from a slice of positions to log Q there, (positions, V), all of them finite; of tokens that have
    no probability, 0. exponent: a number that may be learned.
    """

    rows: Callable[[slice], Float32[Tensor, "R V"]]
    exponent: Tensor


IntoGradient: TypeAlias = "Callable[[slice, Tensor, Tensor], Tensor]"  # of positions, their logits and their targets
NEAR = 1 << 18  # logits that go through the softmax at once, so that they stay in the processor's cache
HELD = 1 << 22  # logits that are computed at once on a processor, without gradients
HELD_IN_TRAINING = 1 << 24  # with gradients, of which each block has one as large as the weights
HELD_ON_DEVICE = 1 << 27  # all these and NEAR on an accelerator, which needs large blocks
EVEN = 64  # blocks are padded to a multiple of it: every new matrix shape has to be prepared first


def cross_entropy(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int64[Tensor, " R"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, " R"] | None = None,
    cap: float | None = None,
    known: KnownLogProbs | None = None,
    taught: IntoGradient | None = None,
) -> Float32[Tensor, ""]:
    """Return the sum over all positions of -log softmax(W h + b)[target], in nats.

    bias: -inf for tokens without a probability. smoothing: the share of each target that is spread evenly over all
    tokens that have a probability (Szegedy et al. 2016, section 7). weights: (R,), of the positions; None if all are 1.
    cap: as for `FullSoftmax`. known: a distribution beside the logits. taught: computes another loss in training,
    without weights. Raises SettingError where there is smoothing and a cap or a known distribution.
    """
    if smoothing and cap is not None:
        raise SettingError("label_smoothing does not work with logits that are capped; leave it out")
    if smoothing and known is not None:
        raise SettingError("label_smoothing does not work beside a known distribution; leave it out")
    weight = wide(weight)  # once for all positions
    if smoothing:
        sharp = cross_entropy(hidden, weight, bias, targets, weights=weights)
        above = _above_mean(hidden, weight, bias, targets)
        return sharp + smoothing * weighted_sum(above, weights)
    if torch.is_grad_enabled():
        rows, exponent = (None, None) if known is None else known
        loss: Tensor = _InBlocks.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, weights, cap, rows, exponent, taught
        )
        return loss
    total = torch.zeros((), device=hidden.device)
    for block in blocks(hidden, len(weight)):
        logits = F.linear(hidden[block], weight, bias).float()
        if cap is not None:
            logits = softly_capped(logits, cap)
        if known is not None:
            logits += known.rows(block) * known.exponent
        losses = F.cross_entropy(logits, targets[block], reduction="none")
        total += weighted_sum(losses, None if weights is None else weights[block])
    return total


def blocks(positions: Tensor, vocabulary_size: int, most: int | None = None) -> Iterator[slice]:
    """Yield slices of positions whose logits are held at once. most: logits on a processor; by default HELD."""
    held = HELD_ON_DEVICE if positions.device.type != "cpu" else most or HELD
    size = max(1, held // vocabulary_size)
    for begin in range(0, len(positions), size):
        yield slice(begin, begin + size)


def _above_mean(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int64[Tensor, " R"],
) -> Float[Tensor, " R"]:
    """Return the target's logit minus the mean logit of all tokens with a probability, without computing logits."""
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
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        weights: Tensor | None,
        cap: float | None,
        rows: Callable[[slice], Tensor] | None,
        exponent: Tensor | None,
        taught: IntoGradient | None,
    ) -> Tensor:
        by_exponent = None if exponent is None else torch.zeros_like(exponent)
        by_weight: Tensor | None = None
        by_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        total = torch.zeros((), device=hidden.device)
        dtype = F.linear(hidden[:1], weight[:1]).dtype  # that of products under autocast; each matrix is cast once
        is_plain = cap is None and rows is None and taught is None and dtype in (torch.float32, torch.bfloat16)
        by_kernel = is_plain and hidden.device.type == "cpu" and not torch.compiler.is_compiling()
        filling = -len(weight) % LANES if by_kernel else 0  # columns without a probability
        low_weight = F.pad(weight.to(dtype), (0, 0, 0, filling)) if filling else weight.to(dtype)
        shift = F.pad(weight.new_zeros(len(weight)) if bias is None else bias.float(), (0, filling), value=-torch.inf)
        low_hidden = F.pad(hidden.to(dtype), (0, 0, 0, -len(hidden) % EVEN))  # padding has no gradient
        by_hidden = torch.empty_like(low_hidden, dtype=hidden.dtype)
        for block in blocks(low_hidden, len(weight), HELD_IN_TRAINING):
            logits = F.linear(low_hidden[block], low_weight)
            wanted, counts = targets[block], None if weights is None else weights[block]
            real = logits[: len(wanted)]
            if by_kernel:
                losses, slope = softmax_into_gradients(real, shift, wanted, counts)
                total += losses
                if by_bias is not None:
                    by_bias += slope[: len(weight)]
            else:
                for near in blocks(real, len(weight), NEAR):
                    exact = real[near].float()
                    if bias is not None:
                        exact += bias
                    slopes = None
                    if cap is not None:
                        exact = softly_capped(exact, cap)
                        slopes = 1 - (exact / cap).clamp(-1, 1).square()
                    span = slice(block.start + near.start, block.start + near.start + len(exact))
                    known = None if rows is None else rows(span)
                    if known is not None and exponent is not None:
                        exact += known * exponent
                    share = None if counts is None else counts[near]
                    total += taught(span, exact, wanted[near]) if taught else into_gradient(exact, wanted[near], share)
                    if known is not None and by_exponent is not None:
                        by_exponent += (exact * known).sum()
                    if slopes is not None:
                        exact *= slopes
                    real[near] = exact
                    if by_bias is not None:
                        by_bias += exact.sum(0)
            by_hidden[block] = logits @ low_weight  # `logits` now holds the gradients with respect to the logits
            if ctx.needs_input_grad[1]:
                own = (logits.t() @ low_hidden[block])[: len(weight)]
                by_weight = own.float() if by_weight is None else by_weight.add_(own)
        ctx.save_for_backward(by_hidden[: len(hidden)], by_weight, by_bias, by_exponent)
        ctx.dtypes = [None if one is None else one.dtype for one in (weight, bias, exponent)]
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        [gradient], (by_hidden, *others) = gradients, ctx.saved_tensors
        by_weight, by_bias, by_exponent = (
            None if one is None else (one * gradient).to(dtype) for one, dtype in zip(others, ctx.dtypes, strict=True)
        )
        return by_hidden * gradient, by_weight, by_bias, None, None, None, None, by_exponent, None


def into_gradient(
    logits: Float32[Tensor, "R V"], targets: Int64[Tensor, " R"], weights: Float[Tensor, " R"] | None = None
) -> Float32[Tensor, ""]:
    """Return the sum of the losses; overwrites the logits with the gradient with respect to them."""
    peaks = logits.amax(1, keepdim=True)
    target = logits.gather(1, targets[:, None]) - peaks
    sums = logits.sub_(peaks).exp_().sum(1, keepdim=True)
    losses = (sums.log() - target)[:, 0]
    logits.div_(sums).scatter_add_(1, targets[:, None], logits.new_full((len(logits), 1), -1.0))
    if weights is not None:
        logits.mul_(weights[:, None])
    return weighted_sum(losses, weights)
