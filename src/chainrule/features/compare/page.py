"""A comparison as one self-contained page that opens offline."""

from __future__ import annotations

import json
import math
import platform
import shlex
from typing import TYPE_CHECKING, Any

from chainrule import __version__
from chainrule.base.memory import bytes_shown
from chainrule.base.tables import cell
from chainrule.drawing.pages import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.drawing.plots import Plot
    from chainrule.features.compare.comparison import Comparison
    from chainrule.features.serve.explorer.shell import Explorer

TITLE = "Language models compared"


def report_page(
    comparison: Comparison,
    drawn: Mapping[str, str],
    *,
    about: str,
    command: Sequence[str],
    notes: Sequence[str],
    explorer: Explorer | None = None,
) -> str:
    """Return the page as HTML. drawn: the SVGs of its plots, by name; a plot without one is shown as a table only.

    about: the texts of training and measurement. command: the one that wrote the page. notes: lines below the table.
    """
    plots = comparison.plots()
    samples = ["Samples"] if any(contender.samples for contender in comparison.contenders) else []
    explored = [] if explorer is None else ["Look into the models"]
    titles = [plot.title for plot in plots]
    sections = ["Table", *titles, *samples, *explored, "Signatures", "How to reproduce this"]
    header, rows = _table(comparison)
    return render(
        "report.html.j2",
        title=TITLE,
        about=about,
        anchors={title: f"part-{number}" for number, title in enumerate(sections, 1)},
        header=header,
        rows=rows,
        notes=notes,
        plots=[_plot(plot, drawn.get(plot.name)) for plot in plots],
        contenders=comparison.contenders,
        signatures=[[contender.name, contender.measurement.signature] for contender in comparison.contenders],
        command=shlex.join(command),
        explorer=None if explorer is None else {"command": shlex.join(explorer.command), "address": explorer.address},
        versions=f"chainrule {__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}",
        records=[
            (contender.name, json.dumps(contender.record, indent=1, default=str, ensure_ascii=False).split("\n"))
            for contender in comparison.contenders
            if contender.record
        ],
    )


def _plot(plot: Plot, svg: str | None) -> dict[str, Any]:
    from markupsafe import Markup

    return {"plot": plot, "svg": None if svg is None else Markup(svg)}


def _table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    texts = comparison.texts
    header = [
        "model",
        *(["text"] if len(texts) > 1 else []),
        "bits per byte",
        "95 % interval",
        "p",
        "perplexity a word",
        "n-grams or parameters",
        "size",
        "training",
        "tokens/s scored",
    ]
    rows = []
    for contender, gap in zip(comparison.contenders, comparison.differences, strict=True):
        measurement = contender.measurement
        is_best = contender is comparison.best_on(measurement.text_signature)
        low, high = measurement.interval
        mark = "" if measurement.is_distribution else "*"
        text = [f"[{texts.index(measurement.text_signature) + 1}]"] if len(texts) > 1 else []
        rows.append(
            [
                contender.name,
                *text,
                f"{measurement.bits_per_byte:.{comparison.digits}f}{mark}",
                f"{low:.4f}-{high:.4f}" if math.isfinite(low) and math.isfinite(high) else "",
                "best" if is_best else cell(None if gap is None else gap.p_value, ".4f"),
                f"{measurement.word_perplexity:,.1f}{mark}",
                cell(contender.parameters, ","),
                "" if contender.size is None else bytes_shown(contender.size),
                "" if contender.train_seconds is None else f"{contender.train_seconds:,.1f} s",
                f"{measurement.tokens / max(measurement.seconds, 1e-9):,.0f}",
            ]
        )
    return header, rows
