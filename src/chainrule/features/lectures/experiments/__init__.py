"""Classroom experiments on memory, cost, gradients, positions and others; each is a function that returns Findings.

This file has only their names, so that the command line can show them at once.
"""

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
    "softmax",
    "projections",
    "dilution",
    "lookups",
    "nonlinearity",
    "places",
    "nesting",
    "probes",
    "graphs",
    "pretraining",
    "race",
    "forcing",
    "throughput",
    "extrapolation",
    "scaling",
]

# The module of each, in this room; its function has the name of the experiment.
HOMES: dict[Name, str] = {
    "memory": "recurrence",
    "cost": "cost",
    "gradients": "recurrence",
    "positions": "positions",
    "saturation": "recurrence",
    "radius": "recurrence",
    "paths": "cost",
    "order": "positions",
    "balance": "data",
    "retrieval": "data",
    "agreement": "context",
    "shots": "context",
    "bottleneck": "attention",
    "attention": "attention",
    "heads": "attention",
    "softmax": "attention_weights",
    "projections": "attention_weights",
    "dilution": "attention_weights",
    "lookups": "attention_weights",
    "nonlinearity": "capacity",
    "places": "capacity",
    "nesting": "capacity",
    "probes": "structure",
    "graphs": "structure",
    "pretraining": "training",
    "race": "training",
    "forcing": "training",
    "throughput": "cost",
    "extrapolation": "positions",
    "scaling": "data",
}
