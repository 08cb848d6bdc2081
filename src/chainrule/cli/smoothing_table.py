"""What compare --smoothing shows: bits per byte and perplexities, a row for each smoothing, a column for each order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import CycloptsError

from chainrule.cli.evaluate import NO_DISTRIBUTION
from chainrule.ngram.config import SMOOTHINGS
from chainrule.report.tables import markdown_code, markdown_table, text_table

if TYPE_CHECKING:
    from chainrule.cli.arguments import TokenizerOptions
    from chainrule.evaluation.likelihood import Measurement
    from chainrule.progress import Progress
    from chainrule.smoothing_table import SmoothingTable
    from chainrule.text.corpus import Source
    from chainrule.text.vocabulary import Markers

ALL = "all"


def smoothing_table_of(
    train: Source,
    measured: Source,
    names: tuple[str, ...],
    order: int,
    tokenizer: TokenizerOptions,
    markers: Markers,
    told: Progress,
) -> SmoothingTable:
    """Raises TextError, SettingError, EstimationError; CycloptsError for a name that is none."""
    from chainrule.smoothing_table import smoothing_table

    for name in names:
        if name not in (ALL, *SMOOTHINGS):
            raise CycloptsError(msg=f"--smoothing takes all, or some of {', '.join(SMOOTHINGS)}, not {name}.")
    return smoothing_table(
        train,
        measured,
        smoothings=SMOOTHINGS if ALL in names else names,
        order=order,
        tokenizer=tokenizer.config(),
        markers=markers,
        progress=told,
    )


def text_of(table: SmoothingTable) -> str:
    """For the screen."""
    parts = [f"{title}\n\n{text_table(table.header(), rows)}" for title, rows in _tables(table)]
    return "\n\n".join([*parts, "\n".join(_footer(table))])


def page_of(table: SmoothingTable, about: str) -> str:
    """Markdown."""
    parts = [f"## {title}\n\n{markdown_table(table.header(), rows)}" for title, rows in _tables(table)]
    footer = "\n".join(f"- {markdown_code(line)}" for line in _footer(table))
    return "\n".join(["# Smoothings compared\n", f"{markdown_code(about)}\n", *parts, footer, ""])


def _tables(table: SmoothingTable) -> list[tuple[str, list[list[str]]]]:
    return [("bits per byte", table.rows(_bits)), ("perplexity per token", table.rows(_perplexity))]


def _bits(found: Measurement) -> str:
    return f"{found.bits_per_byte:.4f}"


def _perplexity(found: Measurement) -> str:
    return f"{found.perplexity:,.2f}"


def _footer(table: SmoothingTable) -> list[str]:
    name, order = table.best
    best = table.measurements[name, order]
    lines = [f"best by bits per byte: {name}, order {order}", f"signature  {best.signature}"]
    if table.impossible:
        lines.append(f"inf: {', '.join(table.impossible)} gave words of the text no probability")
    if any(not found.is_distribution for found in table.measurements.values()):
        lines.append(f"* {NO_DISTRIBUTION}")
    return lines
