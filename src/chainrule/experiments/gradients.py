"""Gradients by distance: how the last loss depends on a vector k positions earlier.

The networks are untrained. In a simple recurrent network, the gradient is multiplied by the recurrent matrix at each
position, so it vanishes or explodes if the spectral radius of that matrix is below or above one (Bengio et al. 1994,
Pascanu et al. 2013). Clipping scales an exploding gradient down to a norm of one; it does not restore a vanished one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.neural.build import build
from chainrule.neural.config import RecurrentConfig, TransformerConfig

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network

_VOCABULARY = 64
_CLIP = 1.0
_LSTM, _RNN = RecurrentConfig(layers=1, width=64), RecurrentConfig(cell="rnn_tanh", layers=1, width=64)
_TRANSFORMER = TransformerConfig(layers=2, width=64, heads=4, zero_projections=False)


def gradients(
    *,
    seed: int = 0,
    progress: Progress = silent,
    length: int = 64,
    rows: int = 64,
    radii: tuple[float, float] = (0.8, 2.0),
) -> Findings:
    """The norm of the gradient by distance, for simple recurrent networks of two radii, LSTMs and a Transformer.

    rows: how many random texts of that length the norms are averaged over.
    """
    low, high = radii
    networks: dict[str, tuple[NetworkConfig, float | None]] = {
        f"RNN, radius {low:g}": (_RNN, low),
        f"RNN, radius {high:g}": (_RNN, high),
        "LSTM": (_LSTM, None),
        "LSTM, forget bias 4": (replace(_LSTM, forget_bias=4.0), None),
        "Transformer": (_TRANSFORMER, None),
    }
    distances = list(range(length))
    lines = []
    for i, (label, (config, radius)) in enumerate(networks.items()):
        progress("gradients", i, len(networks))
        torch.manual_seed(seed)
        norms = norms_by_distance(build_network(config, radius), torch.randint(3, _VOCABULARY, (rows, length + 1)))
        lines.append(Line(label=label, x=distances, y=norms.tolist()))
        total = float(norms.square().sum().sqrt())
        if total > _CLIP:
            lines.append(Line(label=f"{label}, clipped", x=distances, y=(norms * _CLIP / total).tolist()))
    progress("gradients", 1, 1)
    return Findings(
        title="How the last loss depends on earlier tokens, before training",
        x=Axis(label="distance in tokens"),
        y=Axis(label="norm of the gradient", log=True),
        lines=lines,
        says=[
            f"{line.label}: at distance {length - 1}, {line.y[-1] / line.y[0]:.1e} times the norm at distance 0"
            for line in lines
        ],
    )


def build_network(config: NetworkConfig, radius: float | None) -> Network:
    """An untrained network. radius: the spectral radius to scale recurrent matrices to; None: unscaled."""
    network = build(config, _VOCABULARY)
    if radius is not None:
        for name, weight in network.encoder.named_parameters():
            if "weight_hh" in name:
                largest = torch.linalg.eigvals(weight.detach()).abs().max()
                weight.data.mul_(radius / largest)
    return network.eval()


def norms_by_distance(network: Network, text: Int64[Tensor, "B T+1"]) -> Float[Tensor, " T"]:
    """The norm of d loss / d x_t by distance from the last position, averaged over rows. text: inputs and target."""
    x = network.embed(text[:, :-1]).detach().requires_grad_()
    hidden, _ = network.encoder(x, None, None)
    [gradient] = torch.autograd.grad(network.output.loss(hidden[:, -1], text[:, -1]), x)
    return gradient.norm(dim=2).mean(0).flip(0)
