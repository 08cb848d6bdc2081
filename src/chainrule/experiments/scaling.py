"""Scaling: the loss of Transformers by size and by training tokens, with a power law through each (Kaplan et al. 2020).

Small networks that read characters of the built-in text are trained for several numbers of steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.api.tokenizers import tokenized
from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.families.table import FAMILIES
from chainrule.neural.config import TransformerConfig
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_lines
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONTEXT, _BATCH = 64, 16
_RESAMPLINGS = 1000


class PowerLaw(NamedTuple):
    """loss = factor * tokens^-exponent. low, high: a 95 % interval of the exponent, from resampled residuals."""

    factor: float
    exponent: float
    low: float
    high: float


def scaling(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lines: Sequence[str] | None = None,
    widths: Sequence[int] = (16, 32, 64),
    steps: Sequence[int] = (50, 100, 200, 400),
) -> Findings:
    """The held-out loss of a character by training tokens, with a line for each width.

    lines: a text; by default the built-in one. Raises TextError.
    """
    tokenizer, stream, _ = tokenized(Lines(lines or sample_lines(progress)), "character", progress=silent)
    cut = int(0.95 * len(stream))
    heldout = [stream[i : i + _CONTEXT] for i in range(cut, len(stream) - _CONTEXT, 4 * _CONTEXT)][:200]
    tokens = [float(count * _CONTEXT * _BATCH) for count in steps]
    curves, says, runs = [], [], 0
    for width in widths:
        losses = []
        config = TransformerConfig(layers=2, heads=2, width=width, context=_CONTEXT)
        for count in steps:
            progress(f"scaling: width {width}, {count:,} steps", runs, len(widths) * len(steps))
            training = TrainingConfig(steps=count, batch=_BATCH, seed=seed, compile="no")
            model, _ = FAMILIES["transformer"].train(
                stream[:cut], tokenizer.vocabulary_size, config, silent, options=StreamOptions(training=training)
            )
            scores = np.concatenate(model.score(heldout, end=False))
            losses.append(-float(scores.mean()))
            runs += 1
        size = 2 * 12 * width**2
        curves.append(Line(label=f"{size:,} parameters in blocks", x=tokens, y=losses))
        law = fit_power_law(np.array(tokens), np.array(losses), seed)
        says.append(
            f"{size:,} parameters: loss = {law.factor:.2f} · tokens^-{law.exponent:.3f} "
            f"(exponent {law.low:.3f} to {law.high:.3f})"
        )
    progress("scaling", 1, 1)
    return Findings(
        title="The loss of Transformers by size and training",
        x=Axis(label="training tokens", log=True),
        y=Axis(label="loss of a character, nats", log=True),
        lines=curves,
        finding=(
            f"{tokens[-1] / tokens[0]:.0f} times the tokens and {(widths[-1] / widths[0]) ** 2:.0f} times the "
            f"parameters take the loss from {curves[0].y[0]:.2f} to {curves[-1].y[-1]:.2f} nats."
        ),
        says=says,
    )


def fit_power_law(x: np.ndarray, y: np.ndarray, seed: int = 0) -> PowerLaw:
    """The line through the logarithms; the interval from residuals drawn with replacement."""
    slope, intercept = np.polyfit(np.log(x), np.log(y), 1)
    fitted = intercept + slope * np.log(x)
    residuals = np.log(y) - fitted
    rng = np.random.default_rng(seed)
    slopes = [np.polyfit(np.log(x), fitted + rng.choice(residuals, len(x)), 1)[0] for _ in range(_RESAMPLINGS)]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return PowerLaw(float(np.exp(intercept)), -float(slope), -float(high), -float(low))
