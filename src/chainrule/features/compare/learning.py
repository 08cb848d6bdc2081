"""Learning curves of saved networks: training and validation loss, from the logs in their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from chainrule.drawing.plots import Axis, Line, Plot
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.compare.config import Abscissa
from chainrule.storage.model_folder import saved_family
from chainrule.training.reports import LOG
from chainrule.verbs.draw import Drawing

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

_MOST_POINTS = 400  # of a line; a log has one for each step


def draw_learning(networks: Sequence[str | os.PathLike[str]], by: Abscissa = "step") -> Drawing:
    """Draw the training loss and the validation loss of networks, in nats a token, from the logs in their folders.

    by: step, or seconds of training. A training loss is the mean over the steps since the point before. Raises
    ModelFormatError where a folder has no log; SettingError.

    good:  chainrule.draw_learning(["lstm/", "transformer/"], by="seconds").save("curves.svg")
    """
    if by not in get_args(Abscissa):
        raise SettingError(f"by is {by!r}; expected {' or '.join(get_args(Abscissa))}")
    if not networks:
        raise SettingError("there is no network to draw; name the folders of one or more")
    lines = []
    for look, path in enumerate(map(Path, networks)):
        reports = _reports(path)
        name = path.name or str(path)
        steps = [(report[by], report["loss"]) for report in reports if report.get("loss") is not None]
        x, y = _averaged(steps)
        lines.append(Line(label=f"{name}, training", x=x, y=y, look=2 * look))
        validated = [report for report in reports if report.get("valid_loss") is not None]
        if validated:
            x, y = [report[by] for report in validated], [report["valid_loss"] for report in validated]
            lines.append(Line(label=f"{name}, validation", x=x, y=y, look=2 * look + 1))
    plot = Plot(
        name="learning",
        title="Learning curves",
        explained="",
        lines=lines,
        x=Axis(label="step" if by == "step" else "seconds of training"),
        y=Axis(label="loss in nats a token"),
    )
    return Drawing(plot.figure())


def _reports(folder: Path) -> list[dict[str, Any]]:
    """Return the reports in the log of a network's folder. Raises ModelFormatError."""
    log = folder / LOG
    if not log.is_file():
        kind = saved_family(folder) if folder.is_dir() else None
        what = "there is no model" if kind is None else f"a model of family {kind!r} has no {LOG}"
        raise ModelFormatError(f"{folder}: {what}; learning curves are drawn for networks that train wrote here")
    reports = []
    for number, line in enumerate(log.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            report = json.loads(line)
            if isinstance(report, dict) and "event" not in report:
                reports.append({**report, "step": float(report["step"]), "seconds": float(report["seconds"])})
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFormatError(f"{log}:{number}: is damaged: expected a report of a training step") from error
    if not reports:
        raise ModelFormatError(f"{log}: there is no report of a training step in it")
    return reports


def _averaged(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return at most _MOST_POINTS points: each the last place and the mean value of as many neighbours."""
    size = -(-len(points) // _MOST_POINTS) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [group[-1][0] for group in groups], [sum(y for _, y in group) / len(group) for group in groups]
