"""A softmax behind hard attention: a token is predicted from one of several choices, each of which has a probability.

Legend: (...) any positions, C choices, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.neural.output import FullSoftmax

_BASELINE = 0.99  # decay of the mean loss that REINFORCE compares with


class ChoiceSoftmax(nn.Module):
    """P(token) = sum over choices of P(choice) P(token | choice); in training, one choice has been drawn.

    Hidden states are (..., C, D + 1), the last number being log P(choice).
    """

    def __init__(self, full: FullSoftmax) -> None:
        super().__init__()
        self.full = full
        self.register_buffer("baseline", torch.zeros(1))  # nats

    @property
    def weight(self) -> nn.Parameter:
        return self.full.weight

    def loss(
        self, hidden: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        """As `Output.loss`. In training, the variational bound of Xu et al. 2015 (equation 10), whose gradient for the
        choice is that of REINFORCE with the mean loss as its baseline.
        """
        if label_smoothing:
            raise SettingError("labels cannot be smoothed with hard attention; leave one of them out")
        if not self.training:
            nats = -self.log_probs_of(hidden, targets)
            return nats.sum() if weights is None else (nats * weights).sum()
        drawn = hidden[..., 0, :]
        nats = -self.full.log_probs_of(drawn[..., :-1].contiguous(), targets)
        counts = torch.ones_like(nats) if weights is None else weights
        assert isinstance(self.baseline, Tensor)
        worse = (nats - self.baseline).detach()
        with torch.no_grad():
            self.baseline.lerp_((nats * counts).sum() / counts.sum(), 1 - _BASELINE)
        bound = (nats * counts).sum()
        choosing = (worse * drawn[..., -1] * counts).sum()
        return bound + choosing - choosing.detach()  # what is told is the bound alone

    def log_probs(self, hidden: Tensor) -> Tensor:
        """As `Output.log_probs`: (..., C, D + 1) -> (..., V)."""
        if not len(hidden):  # no rows have no choices either
            return hidden.new_zeros(0, len(self.weight))
        return (self.full.log_probs(hidden[..., :-1]) + hidden[..., -1:]).logsumexp(-2)

    def log_probs_of(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """As `Output.log_probs_of`."""
        every = targets.unsqueeze(-1).expand(hidden.shape[:-1])
        return (self.full.log_probs_of(hidden[..., :-1].contiguous(), every) + hidden[..., -1]).logsumexp(-1)
