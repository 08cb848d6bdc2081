"""The softmax after hard attention: a token is predicted from one of several choices, each with a probability.

Legend: *shape positions of any shape, C choices, D width, V vocabulary.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64

    from chainrule.neural.output import FullSoftmax

_BASELINE = 0.99  # decay of the running mean loss, the baseline of REINFORCE


class ChoiceSoftmax(nn.Module):
    """P(token) = sum over choices of P(choice) P(token | choice); in training, choices are drawn at random.

    The last element of each hidden state is log P(choice). Rounding of the sum makes no probability more than 1.
    """

    def __init__(self, full: FullSoftmax, *, is_exact: bool = False) -> None:
        """is_exact: in training, too, there are all choices, and the loss is that of their sum (Wu et al. 2018)."""
        super().__init__()
        self.full, self.is_exact = full, is_exact
        self.register_buffer("baseline", torch.zeros(1))  # nats

    @property
    def weight(self) -> nn.Parameter:
        return self.full.weight

    def loss(
        self,
        hidden: Float[Tensor, "*shape C D+1"],
        targets: Int64[Tensor, "*shape"],
        *,
        label_smoothing: float = 0.0,
        weights: Float[Tensor, "*shape"] | None = None,
    ) -> Float32[Tensor, ""]:
        """As `Output.loss`. In training, the variational bound of Xu et al. 2015 (equation 10); the gradient of the
        choice is that of REINFORCE, with the mean loss as baseline.
        """
        if label_smoothing:
            raise SettingError("label_smoothing does not work with hard attention; leave one of them out")
        if not self.training or self.is_exact:
            nats = -self.log_probs_of(hidden, targets)
            return nats.sum() if weights is None else (nats * weights).sum()
        if hidden.shape[-2] > 1:
            return self._loss_of_several(hidden, targets, weights)
        drawn = hidden[..., 0, :]
        nats = -self.full.log_probs_of(drawn[..., :-1].contiguous(), targets)
        counts = torch.ones_like(nats) if weights is None else weights
        assert isinstance(self.baseline, Tensor)
        worse = (nats - self.baseline).detach()
        with torch.no_grad():
            self.baseline.lerp_((nats * counts).sum() / counts.sum(), 1 - _BASELINE)
        bound = (nats * counts).sum()
        choosing = (worse * drawn[..., -1] * counts).sum()
        return bound + choosing - choosing.detach()  # the value is that of the bound, the gradient that of both

    def _loss_of_several(
        self, hidden: Float[Tensor, "*shape C D+1"], targets: Int64[Tensor, "*shape"], weights: Tensor | None
    ) -> Float32[Tensor, ""]:
        """-log of the mean probability of K draws, a closer bound (Mnih and Rezende 2016, equation 4).

        What a draw is worth is how much it adds to that logarithm: the baseline has the geometric mean of the other
        probabilities in place of its own (equation 10).
        """
        draws = hidden.shape[-2]
        log_probs = self.full.log_probs_of(hidden[..., :-1].contiguous(), targets[..., None].expand(hidden.shape[:-1]))
        bound = log_probs.logsumexp(-1) - math.log(draws)
        with torch.no_grad():
            of_others = (log_probs.sum(-1, keepdim=True) - log_probs) / (draws - 1)
            is_own = torch.eye(draws, dtype=torch.bool, device=hidden.device)
            without = torch.where(is_own, of_others.unsqueeze(-1), log_probs.unsqueeze(-2))  # (*shape, K, K)
            worth = bound.unsqueeze(-1) - (without.logsumexp(-1) - math.log(draws))
        choosing = (worth * hidden[..., -1]).sum(-1)
        counts = torch.ones_like(bound) if weights is None else weights
        return -((bound + choosing - choosing.detach()) * counts).sum()

    def log_probs(self, hidden: Float[Tensor, "*shape C D+1"]) -> Float32[Tensor, "*shape V"]:
        """As `Output.log_probs`."""
        if not len(hidden):  # without rows, there are no choices either
            return hidden.new_zeros(0, len(self.weight))
        return (self.full.log_probs(hidden[..., :-1]) + hidden[..., -1:]).logsumexp(-2).clamp(max=0)

    def log_probs_of(
        self, hidden: Float[Tensor, "*shape C D+1"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> Float32[Tensor, "*shape *tokens"]:
        """As `Output.log_probs_of`."""
        choice = hidden.dim() - 2
        tokens = targets.shape[choice:]
        repeated = targets.unsqueeze(choice).expand(*hidden.shape[:-1], *tokens)
        log_probs = self.full.log_probs_of(hidden[..., :-1].contiguous(), repeated)
        of_choices = hidden[..., -1].view(*hidden.shape[:-1], *(1 for _ in tokens))
        return (log_probs + of_choices).logsumexp(choice).clamp(max=0)
