"""The plots of a comparison: learning curves, and bits per byte by position and by frequency."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chainrule.drawing.plots import Axis, Line, Plot
from chainrule.evaluation.breakdown import group_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.evaluation.breakdown import Breakdown
    from chainrule.evaluation.contender import Contender
    from chainrule.evaluation.measurement import Measurement

PLOT_NAMES = ("learning-curves", "by-position", "by-frequency")
_BITS = Axis(label="bits per byte")
_OMISSION = " Models that need more than twice the bits of the best are omitted."


def plots_of(contenders: Sequence[Contender], best: Contender) -> list[Plot]:
    """The plots that there is data for. best: only models measured on the same text as this one are drawn with it."""
    near_the_best = _near_the_best(contenders, best)
    drawn = [
        _learning_curves(contenders),
        _by_group(
            near_the_best,
            "by-position",
            "By position in the document",
            "By the position of a token in its document, from 1." + _OMISSION,
            "position in the document",
            lambda measured: measured.by_position,
        ),
        _by_group(
            near_the_best,
            "by-frequency",
            "By word frequency",
            "By how often a token occurs in the training text; 0 includes the spelling of unknown tokens." + _OMISSION,
            "times in the training text",
            lambda measured: measured.by_frequency,
        ),
    ]
    return [plot for plot in drawn if plot is not None]


def _learning_curves(contenders: Sequence[Contender]) -> Plot | None:
    lines = [
        Line(label=model.name, x=[x for x, _ in model.curve], y=[y for _, y in model.curve], look=row)
        for row, model in enumerate(contenders)
        if model.curve
    ]
    if not lines:
        return None
    levels = {model.name: model.level for model in contenders if model.level is not None}
    best = min(levels, key=lambda name: levels[name], default=None)
    return Plot(
        name="learning-curves",
        title="Learning curves",
        explained="On the validation text of the networks. Models that are counted need no training curve; the best of "
        "them is the line without markers.",
        lines=lines,
        x=Axis(label="seconds of training"),
        y=_BITS,
        levels={} if best is None else {best: levels[best]},
    )


def _by_group(
    contenders: Sequence[tuple[int, Contender]],
    name: str,
    title: str,
    explained: str,
    label: str,
    breakdown_of: Callable[[Measurement], Breakdown | None],
) -> Plot | None:
    breakdowns = [(row, model, breakdown_of(model.measurement)) for row, model in contenders]
    known = [(row, model.name, breakdown) for row, model, breakdown in breakdowns if breakdown is not None]
    groups = sorted({group for _, _, breakdown in known for group in breakdown.groups})
    lines = [
        Line(label=name, x=range(len(groups)), y=[breakdown.bits_per_byte(group) for group in groups], look=row)
        for row, name, breakdown in known
    ]
    if not any(math.isfinite(y) for line in lines for y in line.y):
        return None
    axis = Axis(label=label, categories=[group_name(group) for group in groups])
    return Plot(name=name, title=title, explained=explained, lines=lines, x=axis, y=_BITS)


def _near_the_best(contenders: Sequence[Contender], best: Contender) -> list[tuple[int, Contender]]:
    """The models comparable with the best that need at most twice its bits, each with its row in the table."""
    return [
        (row, model)
        for row, model in enumerate(contenders)
        if model.measurement.text_signature == best.measurement.text_signature
        and model.measurement.is_distribution
        and model.measurement.bits_per_byte <= 2 * best.measurement.bits_per_byte
    ]
