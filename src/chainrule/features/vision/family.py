"""The family of two-dimensional LSTMs over pictures."""

from __future__ import annotations

from chainrule.models.families.networks import continuing_network

GRID = continuing_network("grid")
