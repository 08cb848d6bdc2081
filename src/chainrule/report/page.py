"""A comparison as one page that opens without a network, and its plots."""

from __future__ import annotations

import json
import math
import platform
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chainrule import __version__
from chainrule.report.markup import markup_text
from chainrule.report.page_style import PAGE, STYLE
from chainrule.report.plots import Axis, Line, line_plot
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chainrule.evaluation.breakdown import Breakdown
    from chainrule.evaluation.comparison import Comparison, Contender
    from chainrule.evaluation.likelihood import Measurement

TITLE = "Language models compared"
BITS = Axis(label="bits per byte")
FIGURE_NAMES = ("learning-curves", "by-position", "by-frequency")
_LEFT_OUT = " Models that need over twice the bits of the best are left out."


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot, with its numbers for those who do not see it, and what is to be known about it."""

    name: str  # of its file
    title: str
    explained: str
    lines: Sequence[Line]
    x: Axis
    levels: Mapping[str, float]

    @property
    def full_title(self) -> str:
        return f"Bits per byte by {self.x.label}"

    @cached_property
    def svg(self) -> str:
        return line_plot(self.full_title, self.lines, self.x, BITS, levels=self.levels)

    def table(self) -> str:
        """HTML: a row for each line where all have the same places, else for each point."""
        if self.x.categories:
            header = ["model", *self.x.categories]
            rows = [[line.label, *(_bits(y) for y in line.y)] for line in self.lines]
        else:
            header = ["model", self.x.label, BITS.label]
            rows = [
                [line.label, f"{x:.1f}", _bits(y)] for line in self.lines for x, y in zip(line.x, line.y, strict=True)
            ]
            rows += [[name, "", _bits(value)] for name, value in self.levels.items()]
        return _html_table(header, rows, self.full_title)


def figures_of(comparison: Comparison) -> list[Figure]:
    """Those that a comparison has the numbers for."""
    drawn = [
        _learning_curves(comparison),
        _by_group(
            comparison,
            "by-position",
            "By position in the document",
            "By the place of a token in its document, the first being 1." + _LEFT_OUT,
            "position in the document",
            lambda found: found.by_position,
        ),
        _by_group(
            comparison,
            "by-frequency",
            "By word frequency",
            "By how often the training text has a token; 0 stands for those that it lacks, with their spelling."
            + _LEFT_OUT,
            "times in the training text",
            lambda found: found.by_frequency,
        ),
    ]
    return [figure for figure in drawn if figure is not None]


def report_page(
    comparison: Comparison, figures: Sequence[Figure], *, about: str, command: Sequence[str], notes: Sequence[str]
) -> str:
    """HTML. about: what was trained and measured on. command: what made it. notes: what is to be known besides."""
    sections = [
        ("Table", _table(comparison) + "".join(f"<p>{markup_text(note)}</p>" for note in notes)),
        *((figure.title, _plot(figure)) for figure in figures),
        ("Samples", _samples(comparison)),
        ("Signatures", _signatures(comparison)),
        ("How to reproduce this", _origin(comparison, command)),
    ]
    shown = [(f"part-{number}", markup_text(title), body) for number, (title, body) in enumerate(sections, 1) if body]
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in shown)
    parts = [
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{title}</h2>\n{body}\n</section>'
        for name, title, body in shown
    ]
    return PAGE.format(title=TITLE, style=STYLE, about=markup_text(about), links=links, parts="\n".join(parts))


def _table(comparison: Comparison) -> str:
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
        found = contender.measurement
        is_best = contender is comparison.best_on(found.text_signature)
        low, high = found.interval
        mark = "" if found.is_distribution else "*"
        number = [f"[{texts.index(found.text_signature) + 1}]"] if len(texts) > 1 else []
        rows.append(
            [
                contender.name,
                *number,
                f"{found.bits_per_byte:.4f}{mark}",
                f"{low:.4f}-{high:.4f}" if math.isfinite(low) and math.isfinite(high) else "",
                "best" if is_best else "" if gap is None or math.isnan(gap.p_value) else f"{gap.p_value:.4f}",
                f"{found.word_perplexity:,.1f}{mark}",
                "" if contender.parameters is None else f"{contender.parameters:,}",
                "" if contender.size is None else f"{contender.size / 1e6:,.1f} MB",
                "" if contender.train_seconds is None else f"{contender.train_seconds:,.1f} s",
                f"{found.tokens / max(found.seconds, 1e-9):,.0f}",
            ]
        )
    return _html_table(header, rows, "Models and their figures", best=header.index("p")) + (
        "<p>The interval is a bootstrap over documents; p is of a paired test against the best. The size is that of "
        "all numbers in a model folder, and training is what the clock showed for that alone.</p>"
    )


def _learning_curves(comparison: Comparison) -> Figure | None:
    lines = [
        Line(label=each.name, x=[x for x, _ in each.curve], y=[y for _, y in each.curve], look=number)
        for number, each in enumerate(comparison.contenders)
        if each.curve
    ]
    if not lines:
        return None
    levels = {each.name: each.level for each in comparison.contenders if each.level is not None}
    best = min(levels, key=lambda name: levels[name], default=None)
    return Figure(
        name="learning-curves",
        title="Learning curves",
        explained="On the text that networks are validated on while they learn. Models that are counted are there at "
        "once; the best of these is the line without marks.",
        lines=lines,
        x=Axis(label="seconds of training"),
        levels={} if best is None else {best: levels[best]},
    )


def _by_group(
    comparison: Comparison,
    name: str,
    title: str,
    explained: str,
    label: str,
    breakdown_of: Callable[[Measurement], Breakdown | None],
) -> Figure | None:
    from chainrule.evaluation.breakdown import group_name

    found = [(number, each, breakdown_of(each.measurement)) for number, each in _near_the_best(comparison)]
    known = [(number, each.name, breakdown) for number, each, breakdown in found if breakdown is not None]
    groups = sorted({group for _, _, breakdown in known for group in breakdown.groups})
    lines = [
        Line(label=model, x=range(len(groups)), y=[breakdown.bits_per_byte(group) for group in groups], look=number)
        for number, model, breakdown in known
    ]
    if not any(math.isfinite(y) for line in lines for y in line.y):
        return None
    axis = Axis(label=label, categories=[group_name(group) for group in groups])
    return Figure(name=name, title=title, explained=explained, lines=lines, x=axis, levels={})


def _near_the_best(comparison: Comparison) -> list[tuple[int, Contender]]:
    """Distributions of the best one's text that do not dwarf the others in a plot, each with its row in the table."""
    best = comparison.best.measurement
    return [
        (number, each)
        for number, each in enumerate(comparison.contenders)
        if each.measurement.text_signature == best.text_signature
        and each.measurement.is_distribution
        and each.measurement.bits_per_byte <= 2 * best.bits_per_byte
    ]


def _plot(figure: Figure) -> str:
    return (
        f'<figure><div class="wide" tabindex="0" role="region" aria-label="{markup_text(figure.title)}">'
        f"{figure.svg}</div><figcaption>{markup_text(figure.explained)}</figcaption></figure>"
        f"<details><summary>The same as a table</summary>{figure.table()}</details>"
    )


def _samples(comparison: Comparison) -> str:
    """Texts of all models, side by side as far as there is room."""
    cards = ""
    for each in comparison.contenders:
        texts = "".join(f"<p>{_shown(text)}</p>" for text in each.samples)
        cards += f"<article><h3>{markup_text(each.name)}</h3>{texts}</article>" if texts else ""
    return f'<div class="cards">{cards}</div>' if cards else ""


def _signatures(comparison: Comparison) -> str:
    rows = [[each.name, each.measurement.signature] for each in comparison.contenders]
    return (
        "<p>Figures may be compared where what stands before the + is equal, and perplexities per token where the "
        "tokens after it are equal, too.</p>" + _html_table(["model", "signature"], rows, "Signatures", code=True)
    )


def _origin(comparison: Comparison, command: Sequence[str]) -> str:
    said = f"<pre>{_shown(shlex.join(command))}</pre>" if command else ""
    versions = f"chainrule {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    records = "".join(
        f"<details><summary>{markup_text(each.name)}</summary>"
        f"<pre>{_lines(json.dumps(each.record, indent=1, default=str, ensure_ascii=False))}</pre></details>"
        for each in comparison.contenders
        if each.record
    )
    return (
        f"{said}<p>{markup_text(versions)}. The same text, seed and number of steps give the same networks on the same "
        "machine; a budget of minutes gives as many steps as the machine makes in it, which each record tells.</p>"
        f"{records}"
    )


def _html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, *, best: int | None = None, code: bool = False
) -> str:
    """The first cell of a row names it; best: the column in which the row that is best says so."""
    head = "".join(f'<th scope="col">{markup_text(cell)}</th>' for cell in header)
    lines = []
    for row in rows:
        mark = ' class="best"' if best is not None and row[best] == "best" else ""
        tag = "code" if code else "span"
        cells = "".join(f"<td><{tag}>{_shown(cell)}</{tag}></td>" for cell in row[1:])
        lines.append(f'<tr{mark}><th scope="row">{_shown(row[0])}</th>{cells}</tr>')
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{markup_text(caption)}"><table>'
        f"<caption>{markup_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
        "</table></div>"
    )


def _shown(text: str) -> str:
    return markup_text(printable(text))


def _lines(text: str) -> str:
    return "\n".join(map(_shown, text.split("\n")))


def _bits(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""
