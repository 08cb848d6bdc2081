"""The softmax after hard attention."""

from __future__ import annotations

import torch

from chainrule.features.seq2seq.network.network import HardAttentionSoftmax
from chainrule.neural.layers.output import FullSoftmax


def test_rounding_makes_no_token_more_than_certain() -> None:
    """A token that is certain after each of 36 places whose probabilities sum to a little more than 1."""
    weight = torch.nn.Parameter(torch.zeros(6, 2))
    with torch.no_grad():
        weight[4, 0] = 60.0  # nats above all other tokens
    output = HardAttentionSoftmax(FullSoftmax(weight, bias=False), is_exact=True).eval()
    hidden = torch.zeros(1, 36, 3)
    hidden[..., 0] = 1.0
    hidden[..., -1] = torch.tensor(1 / 36).log() + 1e-6
    assert float(hidden[..., -1].logsumexp(-1)) > 0
    assert output.log_probs(hidden)[0, 4] == 0
    assert output.log_probs_of(hidden, torch.tensor([4])) == 0
    hidden[0, 0, 0] = torch.nan
    assert bool(output.log_probs(hidden).isnan().any())  # damage is still seen
