"""A mixture of experts: of several feed-forward layers, a router chooses a few for each token.

Legend: B batch, T time, N tokens, D width, E experts, G groups of experts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from chainrule.neural.layers.basic import FeedForward
from chainrule.neural.layers.matrix_products import elementwise, linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int64

    from chainrule.features.open.network.config import OpenSettings


class Experts(nn.Module):
    """sum_e p_e(x) f_e(x) over the chosen experts, p being the softmax of R x (Shazeer et al. 2017; Jiang et al. 2024).

    Each expert computes its own tokens only. A further one may compute all tokens (Dai et al. 2024), perhaps through a
    gate. DeepSeek V3 (2024) has sigmoids in place of the softmax, and chooses by p_e plus a learned number.
    """

    def __init__(self, config: OpenSettings) -> None:
        """Build the router and the experts."""
        super().__init__()
        bias, width = config.has_biases("feed_forward"), config.expert_width or config.hidden_width
        self.router = nn.Linear(config.width, config.experts, bias=config.router_bias)
        self.experts = nn.ModuleList(
            FeedForward(config.feed_forward, config.width, width, bias=bias) for _ in range(config.experts)
        )
        self.chosen, self.normalised = config.chosen_experts, config.normalised_experts
        self.epsilon = config.expert_epsilon
        self.is_sigmoid, self.scale = config.router == "sigmoid", config.routed_scale
        self.groups, self.chosen_groups = config.expert_groups, config.chosen_groups
        self.shift = nn.Parameter(torch.zeros(config.experts)) if config.router_shift else None
        self.shared: FeedForward | None = None
        self.shared_gate = nn.Linear(config.width, 1, bias=False) if config.gated_shared_expert else None
        if config.shared_expert_width:
            self.shared = FeedForward(config.feed_forward, config.width, config.shared_expert_width, bias=bias)

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
        weights, experts = self._chosen(linear(tokens if routed is None else routed.flatten(0, -2), self.router))
        if self.normalised:
            weights = weights / (weights.sum(-1, keepdim=True) + self.epsilon)
        if factors is not None:
            weights = weights * factors[experts]
        if self.scale != 1:
            weights = weights * self.scale
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = (experts == number).nonzero(as_tuple=True)
            if len(rows):
                weighted = expert(tokens[rows]) * weights[rows, places, None].to(x.dtype)
                out = out.index_add(0, rows, weighted.to(out.dtype))
        if self.shared is None:
            return out.view_as(x)
        shared = self.shared(x)
        if self.shared_gate is not None:
            shared = shared * elementwise(torch.sigmoid, linear(x, self.shared_gate))
        return out.view_as(x) + shared.to(out.dtype)

    def _chosen(
        self, scores: Float[torch.Tensor, "N E"]
    ) -> tuple[Float[torch.Tensor, "N chosen"], Int64[torch.Tensor, "N chosen"]]:
        """Return the weights and the numbers of the chosen experts, which are of the best groups."""
        scores = scores.float()
        weights = scores.sigmoid() if self.is_sigmoid else scores.softmax(-1)
        ranks = weights if self.shift is None else weights + self.shift
        if self.chosen_groups < self.groups:
            groups = ranks.view(len(ranks), self.groups, -1)  # (N, G, E/G)
            best = groups.topk(2, -1).values.sum(-1) if self.is_sigmoid else groups.amax(-1)
            is_out = torch.ones_like(best, dtype=torch.bool).scatter(1, best.topk(self.chosen_groups).indices, False)
            ranks = groups.masked_fill(is_out[..., None], -torch.inf).flatten(1)
        experts = ranks.topk(self.chosen).indices
        return weights.gather(1, experts), experts


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
