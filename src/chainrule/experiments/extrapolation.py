"""Extrapolation: what a position knows depends on how often it was trained.

Documents end after 1 to 64 words, all lengths equally often, so that late positions are rare: the last one occurs in
one document of 64. A position with a vector of its own learns from nothing else; a rotation by distance learns from all
positions at once. Every word repeats the one four positions before it, so that a model that knows where it is can know
it for sure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.experiments.train_small import FIRST_WORD, train_small
from chainrule.neural.config import TransformerConfig
from chainrule.neural.config.transformer import Positions
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

LONGEST, PERIOD, WORDS = 64, 4, 8


def extrapolation(
    *,
    seed: int = 0,
    progress: Progress = silent,
    kinds: Sequence[Positions] = get_args(Positions),
    documents: int = 3000,
    tested: int = 200,
    steps: int = 300,
    group: int = 8,
) -> Findings:
    """The mean loss of groups of positions, with a line for each position encoding. Raises SettingError."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, LONGEST + 1, documents)
    train = [draw_document(rng, int(length)) for length in lengths]
    test = [draw_document(rng, LONGEST) for _ in range(tested)]
    ends = list(range(group, LONGEST + 1, group))
    training = TrainingConfig(steps=steps, batch=16, seed=seed, compile="no")
    lines = []
    for i, kind in enumerate(kinds):
        progress(f"extrapolation: {kind}", i, len(kinds))
        config = TransformerConfig(layers=2, heads=4, width=64, context=LONGEST + 1, positions=kind, memory="document")
        model = train_small(train, FIRST_WORD + WORDS, config, training)
        losses = -np.mean([np.asarray(row)[:LONGEST] for row in model.score(test)], axis=0)
        lines.append(Line(label=kind, x=ends, y=[float(losses[end - group : end].mean()) for end in ends]))
    progress("extrapolation", 1, 1)
    trained = {end: float((lengths >= end).mean()) for end in ends}
    changes = {line.label: line.y[-1] - line.y[1] for line in lines}
    return Findings(
        title="The loss of a position, by how often it was trained",
        x=Axis(label="position in the document"),
        y=Axis(label="loss of a word, nats"),
        lines=lines,
        finding=(
            f"Position {ends[1]} was in {trained[ends[1]]:.0%} of the training documents, position {ends[-1]} in "
            f"{trained[ends[-1]]:.0%}. From the one to the other the loss changes by "
            + ", ".join(f"{change:+.2f} ({label})" for label, change in changes.items())
            + "."
        ),
    )


def draw_document(rng: np.random.Generator, length: int) -> Int32[ndarray, " T"]:
    """Random words, of which every one repeats the one four positions before it."""
    words = rng.integers(WORDS, size=PERIOD)
    return (FIRST_WORD + np.resize(words, length)).astype(np.int32)
