"""The names of the experiments, apart, so that the command line can show them at once."""

from __future__ import annotations

from typing import Literal

Name = Literal[
    "memory",
    "cost",
    "gradients",
    "positions",
    "saturation",
    "radius",
    "paths",
    "order",
    "balance",
    "retrieval",
    "agreement",
    "shots",
    "bottleneck",
    "attention",
    "heads",
    "extrapolation",
    "scaling",
]

# The module of each, in this room; its function has the name of the experiment.
HOMES: dict[Name, str] = {
    "memory": "memory",
    "cost": "cost",
    "gradients": "gradients",
    "positions": "positions",
    "saturation": "saturation",
    "radius": "radius",
    "paths": "paths",
    "order": "order",
    "balance": "balance",
    "retrieval": "retrieval",
    "agreement": "agreement",
    "shots": "shots",
    "bottleneck": "bottleneck",
    "attention": "attention",
    "heads": "heads",
    "extrapolation": "extrapolation",
    "scaling": "scaling",
}
