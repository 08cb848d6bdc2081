"""Saturation: tanh and the sigmoid are flat away from 0, so that almost no gradient passes through them there."""

from __future__ import annotations

import math

import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings


def saturation(*, seed: int = 0, progress: Progress = silent, limit: float = 6.0, points: int = 25) -> Findings:
    """Both functions and their slopes, from -limit to limit; the slopes come from automatic differentiation."""
    x = torch.linspace(-limit, limit, points, dtype=torch.float64, requires_grad=True)
    lines = []
    for name, function in (("tanh", torch.tanh), ("sigmoid", torch.sigmoid)):
        y = function(x)
        [slope] = torch.autograd.grad(y.sum(), x)
        lines += [Line(label=name, x=x.tolist(), y=y.tolist()), Line(label=f"{name}'", x=x.tolist(), y=slope.tolist())]
    progress("saturation", 1, 1)
    at = {label: 1 - math.tanh(label) ** 2 for label in (0, 2, 4)}
    return Findings(
        title="Activations and their slopes",
        x=Axis(label="x"),
        y=Axis(label="value"),
        lines=lines,
        finding=(
            f"The slope of tanh falls from {at[0]:.0f} at 0 to {at[2]:.2f} at 2 and {at[4]:.4f} at 4: a unit that is "
            "sure of itself hardly learns."
        ),
        says=[
            "tanh'(x) = 1 - tanh²(x), at most 1",
            "sigmoid'(x) = sigmoid(x) (1 - sigmoid(x)), at most 0.25: through ten sigmoids a gradient loses a factor "
            f"of a million at least (0.25^10 = {0.25**10:.1e})",
        ],
    )
