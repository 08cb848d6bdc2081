"""A mixture of experts: of several feed-forward layers, a router chooses a few for each token.

Legend: B batch, T time, N tokens, D width, E experts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from chainrule.neural.layers.basic import FeedForward
from chainrule.neural.layers.matrix_products import linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from chainrule.neural.config.transformer import FeedForward as FeedForwardKind


class Experts(nn.Module):
    """sum_e p_e(x) f_e(x) over the chosen experts, p being the softmax of R x (Shazeer et al. 2017; Jiang et al. 2024).

    Each expert computes its own tokens only.
    """

    def __init__(
        self,
        kind: FeedForwardKind,
        widths: tuple[int, int],
        count: int,
        chosen: int,
        *,
        normalised: bool,
        bias: bool,
        router_bias: bool,
    ) -> None:
        """Build the router and the experts.

        widths: D, and the hidden one. normalised: whether the weights of the chosen experts are made to add up to 1.
        bias, router_bias: whether experts have biases, and whether the router has.
        """
        super().__init__()
        width, hidden = widths
        self.router = nn.Linear(width, count, bias=router_bias)
        self.experts = nn.ModuleList(FeedForward(kind, width, hidden, bias=bias) for _ in range(count))
        self.chosen, self.normalised = chosen, normalised

    def forward(
        self,
        x: Float[torch.Tensor, "B T D"],
        routed: Float[torch.Tensor, "B T D"] | None = None,
        factors: Float[torch.Tensor, " E"] | None = None,
    ) -> Float[torch.Tensor, "B T D"]:
        """Return the layer's output, for each position alone. routed: what the router reads; None for x. factors:
        of p.
        """
        tokens = x.flatten(0, -2)  # (N, D)
        scores = linear(tokens if routed is None else routed.flatten(0, -2), self.router)
        weights, experts = scores.float().softmax(-1).topk(self.chosen)  # (N, chosen)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        if factors is not None:
            weights = weights * factors[experts]
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = (experts == number).nonzero(as_tuple=True)
            if len(rows):
                weighted = expert(tokens[rows]) * weights[rows, places, None].to(x.dtype)
                out = out.index_add(0, rows, weighted.to(out.dtype))
        return out.view_as(x)


class ExpertsBeside(nn.Module):
    """norm(f(x)) + norm(sum_e c_e p_e(x) f_e(norm(x))): experts beside a feed-forward layer f for all tokens (Gemma 4,
    Google 2026). Their router reads x / rms(x) times a vector, over the root of D.
    """

    def __init__(self, experts: Experts, norms: Sequence[nn.Module], epsilon: float | None) -> None:
        """Build the gains of the router and of the experts.

        norms: of what f gives, of what the experts read, and of what they give. epsilon: of the router's.
        """
        super().__init__()
        self.experts, self.norms = experts, nn.ModuleList(norms)
        count, width = experts.router.weight.shape
        self.gain, self.factors = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(count))
        self.epsilon = epsilon

    def forward(
        self, x: Float[torch.Tensor, "B T D"], fed: Float[torch.Tensor, "B T D"]
    ) -> Float[torch.Tensor, "B T D"]:
        """Return the sum of both. fed: f(x)."""
        width = x.shape[-1]
        routed = F.rms_norm(x, (width,), eps=self.epsilon) * self.gain * width**-0.5
        of_experts = self.experts(self.norms[1](x), routed, self.factors)
        return self.norms[0](fed.to(x.dtype)) + self.norms[2](of_experts.to(x.dtype))
