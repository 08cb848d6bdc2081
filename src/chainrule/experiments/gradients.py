"""Gradients by distance: how much a loss at the last place feels of a vector so many places before it.

The networks are as training begins. In a simple recurrent network the gradient is multiplied by the matrix of the state
at each place, so that it vanishes or explodes as that matrix's spectral radius is below or above one (Bengio 1994,
Pascanu 2013). Clipping shortens what explodes to a norm of one; it does not bring back what has vanished.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.neural.building import build
from chainrule.neural.config import RecurrentConfig, TransformerConfig

if TYPE_CHECKING:
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
    """The norm of the gradient by distance: simple recurrent networks of two spectral radii, LSTMs, Transformer.

    rows: random texts of this length, over which the norms are averaged.
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
    for number, (label, (config, radius)) in enumerate(networks.items()):
        progress("gradients", number, len(networks))
        torch.manual_seed(seed)
        norms = norms_by_distance(made(config, radius), torch.randint(3, _VOCABULARY, (rows, length + 1)))
        lines.append(Line(label=label, x=distances, y=norms.tolist()))
        total = float(norms.square().sum().sqrt())
        if total > _CLIP:
            lines.append(Line(label=f"{label}, clipped", x=distances, y=(norms * _CLIP / total).tolist()))
    progress("gradients", 1, 1)
    return Findings(
        title="What a loss at the end feels of earlier tokens, before training",
        x=Axis(label="distance in tokens"),
        y=Axis(label="norm of the gradient", log=True),
        lines=lines,
        says=[
            f"{line.label}: at distance {length - 1}, {line.y[-1] / line.y[0]:.1e} times what it is at 0"
            for line in lines
        ],
    )


def made(config: NetworkConfig, radius: float | None) -> Network:
    """As training begins; the matrix from state to state has a spectral radius, where one is said."""
    network = build(config, _VOCABULARY)
    if radius is not None:
        for name, weight in network.encoder.named_parameters():
            if "weight_hh" in name:
                largest = torch.linalg.eigvals(weight.detach()).abs().max()
                weight.data.mul_(radius / largest)
    return network.eval()


def norms_by_distance(network: Network, text: Tensor) -> Tensor:
    """(T,): of d loss / d x_t, averaged over rows; first that of the last place. text: (B, T + 1), its targets too."""
    x = network.embed(text[:, :-1]).detach().requires_grad_()
    hidden, _ = network.encoder(x, None, None)
    [gradient] = torch.autograd.grad(network.output.loss(hidden[:, -1], text[:, -1]), x)
    return gradient.norm(dim=2).mean(0).flip(0)
