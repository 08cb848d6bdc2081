"""Bottleneck: an encoder that hands over one vector, whatever the length of the source, against attention.

Two LSTMs write letters backwards (Cho et al. 2014; Bahdanau et al. 2015, figure 2). Without attention, the decoder has
nothing but the encoder's last state.
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
    from collections.abc import Sequence

    from chainrule.neural.config.seq2seq import Looks

_COMPARED: dict[str, Looks] = {"one vector": "none", "attention": "soft"}


def bottleneck(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lengths: Sequence[int] = (2, 4, 6, 8, 10, 12, 16),
    trained_to: int = 12,
    sources: int = 6000,
    tested: int = 50,
    steps: int = 400,
) -> Findings:
    """The share of right letters by the length of the source, with and without attention. Raises SettingError.

    trained_to: the length of the longest training source. tested: sources of each length.
    """
    rng = np.random.default_rng(seed)
    training = draw_sources(rng, rng.integers(1, trained_to + 1, sources).tolist())
    tests = [draw_sources(rng, [length] * tested) for length in lengths]
    lines = []
    for i, (label, attention) in enumerate(_COMPARED.items()):
        progress(f"bottleneck: {label}", i, len(_COMPARED))
        model = train_on_reversal(
            replace(SMALL, attention=attention, score="additive"), training, steps=steps, seed=seed
        )
        lines.append(Line(label=label, x=list(lengths), y=[accuracy(model, test) for test in tests]))
    progress("bottleneck", 1, 1)
    at = list(lengths).index(trained_to) if trained_to in lengths else -1
    vector, attention_line = lines
    return Findings(
        title=f"Letters written backwards by two LSTMs; trained to length {trained_to}",
        x=Axis(label="length of the source"),
        y=Axis(label="share of right letters"),
        lines=lines,
        finding=(
            f"At length {lengths[at]}, {vector.y[at]:.0%} of the letters are right where the source is one vector, and "
            f"{attention_line.y[at]:.0%} with attention."
        ),
    )
