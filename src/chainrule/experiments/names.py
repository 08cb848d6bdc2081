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
