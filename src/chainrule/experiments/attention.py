"""Attention: six scores, and three ways of attending, after equally many steps on one task.

LSTMs write letters backwards, so that the right place to attend to is known: the one letter that comes next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.experiments.reversal import SMALL, accuracy, draw_sources, train_on_reversal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.neural.config.seq2seq import ConditionalConfig

COMPARED: dict[str, ConditionalConfig] = {
    "none": replace(SMALL, attention="none"),
    "dot": replace(SMALL, score="dot"),
    "scaled dot": replace(SMALL, score="scaled_dot"),
    "general": replace(SMALL, score="general"),
    "additive": replace(SMALL, score="additive"),
    "content": replace(SMALL, score="content"),
    "location": replace(SMALL, score="location"),
    "local": replace(SMALL, attention="local", score="dot", center="predicted", window=3),
    "hard": replace(SMALL, attention="hard", score="dot", estimator="straight_through"),
}


def attention(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: Mapping[str, ConditionalConfig] = COMPARED,
    trained_to: int = 10,
    sources: int = 4000,
    tested: int = 100,
    steps: int = 300,
) -> Findings:
    """The share of right letters of each kind of attention, after so many steps. Raises SettingError.

    trained_to: the length of the longest source, and of those tested.
    """
    rng = np.random.default_rng(seed)
    training = draw_sources(rng, rng.integers(1, trained_to + 1, sources).tolist())
    test = draw_sources(rng, [trained_to] * tested)
    shares = {}
    for i, (label, config) in enumerate(compared.items()):
        progress(f"attention: {label}", i, len(compared))
        shares[label] = accuracy(train_on_reversal(config, training, steps=steps, seed=seed), test)
    progress("attention", 1, 1)
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    return Findings(
        title=f"{trained_to} letters written backwards, after {steps} steps",
        x=Axis(label="attention", categories=list(shares)),
        y=Axis(label="share of right letters"),
        lines=[Line(label="two LSTMs", x=list(range(len(shares))), y=list(shares.values()))],
        finding=f"After {steps} steps {ranked[0]} is best, with {shares[ranked[0]]:.0%} of the letters right; "
        f"{ranked[-1]} is last, with {shares[ranked[-1]]:.0%}.",
    )
