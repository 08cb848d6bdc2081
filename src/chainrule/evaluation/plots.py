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
    from chainrule.evaluation.likelihood import Measurement

PLOT_NAMES = ("learning-curves", "by-position", "by-frequency")
_BITS = Axis(label="bits per byte")
_LEFT_OUT = " Models that need over twice the bits of the best are left out."


def plots_of(contenders: Sequence[Contender], best: Contender) -> list[Plot]:
    """Those that there are numbers for. best: whose text the others share that stand beside it."""
    near_the_best = _near_the_best(contenders, best)
    drawn = [
        _learning_curves(contenders),
        _by_group(
            near_the_best,
            "by-position",
            "By position in the document",
            "By the place of a token in its document, the first being 1." + _LEFT_OUT,
            "position in the document",
            lambda found: found.by_position,
        ),
        _by_group(
            near_the_best,
            "by-frequency",
            "By word frequency",
            "By how often the training text has a token; 0 stands for those that it lacks, with their spelling."
            + _LEFT_OUT,
            "times in the training text",
            lambda found: found.by_frequency,
        ),
    ]
    return [plot for plot in drawn if plot is not None]


def _learning_curves(contenders: Sequence[Contender]) -> Plot | None:
    lines = [
        Line(label=each.name, x=[x for x, _ in each.curve], y=[y for _, y in each.curve], look=number)
        for number, each in enumerate(contenders)
        if each.curve
    ]
    if not lines:
        return None
    levels = {each.name: each.level for each in contenders if each.level is not None}
    best = min(levels, key=lambda name: levels[name], default=None)
    return Plot(
        name="learning-curves",
        title="Learning curves",
        explained="On the text that networks are validated on while they learn. Models that are counted are there at "
        "once; the best of these is the line without marks.",
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
    found = [(number, each, breakdown_of(each.measurement)) for number, each in contenders]
    known = [(number, each.name, breakdown) for number, each, breakdown in found if breakdown is not None]
    groups = sorted({group for _, _, breakdown in known for group in breakdown.groups})
    lines = [
        Line(label=model, x=range(len(groups)), y=[breakdown.bits_per_byte(group) for group in groups], look=number)
        for number, model, breakdown in known
    ]
    if not any(math.isfinite(y) for line in lines for y in line.y):
        return None
    axis = Axis(label=label, categories=[group_name(group) for group in groups])
    return Plot(name=name, title=title, explained=explained, lines=lines, x=axis, y=_BITS)


def _near_the_best(contenders: Sequence[Contender], best: Contender) -> list[tuple[int, Contender]]:
    """Distributions of the best one's text that do not dwarf the others in a plot, each with its row in the table."""
    return [
        (number, each)
        for number, each in enumerate(contenders)
        if each.measurement.text_signature == best.measurement.text_signature
        and each.measurement.is_distribution
        and each.measurement.bits_per_byte <= 2 * best.measurement.bits_per_byte
    ]
