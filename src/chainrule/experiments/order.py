"""Order: which networks notice that the words before the last one were shuffled.

Attention is a weighted average over a set: without position encodings, a permutation of the keys changes nothing. So an
untrained network settles it: if its prediction stays the same for random weights, it does for all weights.

A second causal layer does see order, since the outputs of the first were computed from texts that end at different
words. A two-sided network stays blind at any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.neural.build import build
from chainrule.neural.config import (
    BagConfig,
    FeedforwardConfig,
    MaskedConfig,
    RecurrentConfig,
    TransformerConfig,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig

_VOCABULARY = 40
_WIDTH = 32
_BLIND = 1e-4  # a smaller change is rounding
_TRANSFORMER: dict[str, Any] = {"width": _WIDTH, "heads": 2, "zero_projections": False}

NETWORKS: dict[str, NetworkConfig | MaskedConfig] = {
    "bag": BagConfig(width=_WIDTH, window=None),
    "feed-forward, window 4": FeedforwardConfig(width=_WIDTH, window=4),
    "RNN": RecurrentConfig(cell="rnn_tanh", layers=1, width=_WIDTH),
    "LSTM": RecurrentConfig(layers=1, width=_WIDTH),
    "attention, no positions": TransformerConfig(layers=1, positions="none", **_TRANSFORMER),
    "two causal layers, no positions": TransformerConfig(layers=2, positions="none", **_TRANSFORMER),
    "two-sided, 4 layers, no positions": MaskedConfig(layers=4, positions="none", **_TRANSFORMER),
    "attention, rotary": TransformerConfig(layers=1, positions="rotary", **_TRANSFORMER),
    "attention, sinusoidal": TransformerConfig(layers=1, positions="sinusoidal", **_TRANSFORMER),
}


def order(*, seed: int = 0, progress: Progress = silent, length: int = 12, rows: int = 64) -> Findings:
    """How much the prediction after a text changes when all words but the last are shuffled.

    As a share of how much it changes when they are replaced by others: 0 is blind to order, 1 is as if the text were
    another one.
    """
    generator = torch.Generator().manual_seed(seed)
    text, other = (torch.randint(3, _VOCABULARY, (rows, length), generator=generator) for _ in range(2))
    shuffled = torch.stack([row[_shuffle(length, generator)] for row in text])
    other[:, -1] = text[:, -1]
    changes = []
    for i, (label, config) in enumerate(NETWORKS.items()):
        progress(f"order: {label}", i, len(NETWORKS))
        torch.manual_seed(seed)
        probs, probs_shuffled, probs_other = (predictions(config, read, seed) for read in (text, shuffled, other))
        changes.append(moved_probability(probs, probs_shuffled) / moved_probability(probs, probs_other))
    progress("order", 1, 1)
    blind = [label for label, change in zip(NETWORKS, changes, strict=True) if change < _BLIND]
    return Findings(
        title="What a shuffled text changes",
        x=Axis(label="network", categories=list(NETWORKS)),
        y=Axis(label="change of the prediction, relative to another text's"),
        lines=[Line(label="words before the last one shuffled", x=list(range(len(NETWORKS))), y=changes)],
        finding=f"Blind to order, whatever their weights: {'; '.join(blind)}.",
        says=[f"{label}: {change:.6f}" for label, change in zip(NETWORKS, changes, strict=True)],
    )


def _shuffle(length: int, generator: torch.Generator) -> Int64[Tensor, " T"]:
    """A permutation of positions that leaves the last one where it is."""
    return torch.cat([torch.randperm(length - 1, generator=generator), torch.tensor([length - 1])])


@torch.inference_mode()
def predictions(config: NetworkConfig | MaskedConfig, text: Int64[Tensor, "B T"], seed: int) -> Float[Tensor, "B V"]:
    """The distribution that an untrained network gives at the last position."""
    torch.manual_seed(seed)
    network = build(config, _VOCABULARY).eval()
    for parameter in network.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.shape[-1] ** -0.5)  # so that predictions differ visibly
    hidden, _ = network.encoder(network.embed(text), None, None)
    return network.output.log_probs(hidden[:, -1]).exp()


def moved_probability(p: Float[Tensor, "B V"], q: Float[Tensor, "B V"]) -> float:
    """The mean total variation distance of distributions: the probability that moved."""
    return float((p - q).abs().sum(1).mean() / 2)
