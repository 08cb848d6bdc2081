"""A mixture of experts: of several feed-forward layers, a router chooses a few for each token.

Legend: B batch, T time, N tokens, D width, E experts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from chainrule.neural.layers.basic import FeedForward
from chainrule.neural.layers.matrix_products import linear

if TYPE_CHECKING:
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
        """widths: D, and the hidden one. normalised: whether the weights of the chosen experts are made to add up to 1.

        bias, router_bias: whether experts have biases, and whether the router has.
        """
        super().__init__()
        width, hidden = widths
        self.router = nn.Linear(width, count, bias=router_bias)
        self.experts = nn.ModuleList(FeedForward(kind, width, hidden, bias=bias) for _ in range(count))
        self.chosen, self.normalised = chosen, normalised

    def forward(self, x: Float[torch.Tensor, "B T D"]) -> Float[torch.Tensor, "B T D"]:
        """The layer's output, for each position alone."""
        tokens = x.flatten(0, -2)  # (N, D)
        weights, experts = linear(tokens, self.router).float().softmax(-1).topk(self.chosen)  # (N, chosen)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = (experts == number).nonzero(as_tuple=True)
            if len(rows):
                weighted = expert(tokens[rows]) * weights[rows, places, None].to(x.dtype)
                out = out.index_add(0, rows, weighted.to(out.dtype))
        return out.view_as(x)
