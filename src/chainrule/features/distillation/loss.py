"""The loss of a network that learns from a teacher as well as from the text (Hinton et al. 2015; Kim and Rush 2016).

    L = (1 - a) CE(text, p) + a t^2 KL(q_t || p_t),    log q_t = log q / t - log Z,    log p_t = log p / t - log Z

with weight a and temperature t. Of the teacher's distribution q_t, the likeliest tokens are known, and the sum of all
others. The divergence is that of distributions in which these others are a single token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.neural.layers.cross_entropy import into_gradient

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64
    from torch import Tensor

_LEAST = 1e-6  # of the student's probability of all other tokens, which is a difference


def taught_into_gradient(
    logits: Float32[Tensor, "R V"],
    targets: Int64[Tensor, " R"],
    tokens: Int64[Tensor, "R k"],
    probs: Float32[Tensor, "R k"],
    weight: float,
    temperature: float,
) -> Float32[Tensor, ""]:
    """Return the sum of the losses; overwrite the logits with the gradient with respect to them.

    tokens, probs: the teacher's likeliest tokens, and their probabilities at the temperature.
    """
    soft = logits if temperature == 1 else (logits / temperature).softmax(1)
    loss, chosen = into_gradient(logits, targets), targets[:, None]
    logits.scatter_add_(1, chosen, logits.new_ones(chosen.shape))  # now it is p
    known = soft.gather(1, tokens)
    others = (1 - probs.sum(1)).clamp_min(0)
    left = (1 - known.sum(1)).clamp_min(_LEAST)
    tiny = torch.finfo(torch.float32).tiny
    divergence = (probs * (probs.clamp_min(tiny) / known.clamp_min(tiny)).log()).sum()
    divergence += (others * (others.clamp_min(tiny) / left).log()).sum()
    # The divergence's gradient, over t, is p_t - q_t at the likeliest tokens, and p_t (1 - others / left) elsewhere.
    factor, ratio = weight * temperature, (others / left)[:, None]
    if soft is logits:
        logits.mul_(1 - factor * ratio)
    else:
        logits.mul_(1 - weight).add_(soft.mul_(factor * (1 - ratio)))
    logits.scatter_add_(1, tokens, factor * (ratio * known - probs))
    logits.scatter_add_(1, chosen, logits.new_full(chosen.shape, weight - 1))
    return (1 - weight) * loss + weight * temperature**2 * divergence
