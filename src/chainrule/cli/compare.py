"""chainrule compare [TEXT...]: the ladder of models on one text, in one table."""

from __future__ import annotations

import json as json_library
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, MarkerRule, Output, Overwrite, TextFile, TokenizerName
from chainrule.cli.screen import print_json, progress
from chainrule.errors import OutputError
from chainrule.report.tables import markdown_table, text_table

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.evaluation.comparison import Comparison
    from chainrule.progress import Progress
    from chainrule.text.corpus import Source

TABLE, FIGURES = "table.md", "table.json"


def compare(
    *texts: TextFile,
    output: Output | None = None,
    heldout: Annotated[
        str | None, Parameter(help="Measure on this text; by default on every tenth part of the others.")
    ] = None,
    order: Annotated[int, Parameter(help="The highest n-gram order.")] = 5,
    tokenizer: TokenizerName = "word",
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Train every model on the same text and measure all on the same held-out text, in one table.

    Without a text: Python's own documentation, as it came with this Python. With -o, the table is written there too,
    as table.md and table.json.
    """
    from chainrule.ladder import climb

    if output is not None:
        _check_report_folder(output, overwrite=overwrite)
    with progress() as told:
        train, measured = _parts(texts, heldout, told)
        comparison, _ = climb(train, measured, order=order, tokenizer=tokenizer, markers=markers, progress=told)
    if json:
        print_json(comparison.as_json())
    else:
        _print(comparison, train, measured)
    if output is not None:
        _write(output, comparison, train, measured)


def _parts(texts: tuple[str, ...], heldout: str | None, told: Progress) -> tuple[Source, Source]:
    """The text to train on and the text to measure on."""
    from chainrule.text.corpus import Corpus, Lines
    from chainrule.text.sample import sample_lines
    from chainrule.text.splits import train_and_heldout

    if heldout is not None:
        return Corpus.of(texts), Corpus.of(heldout)
    lines = [line for block in Corpus.of(texts).blocks(told) for line in block.lines()] if texts else sample_lines(told)
    train, measured = train_and_heldout(lines)
    name = ", ".join(texts) or "Python's own documentation"
    return Lines(train, f"{name}, nine tenths"), Lines(measured, f"{name}, one tenth")


def _print(comparison: Comparison, train: Source, measured: Source) -> None:
    print(_heading(train, measured))
    print()
    print(text_table(comparison.header(), comparison.rows()))
    print()
    print(f"best by bits per byte: {comparison.best.name}")
    print(f"signature  {comparison.best.measurement.signature}")


def _heading(train: Source, measured: Source) -> str:
    return f"trained on {', '.join(train.sources)}; measured on {', '.join(measured.sources)}"


def _check_report_folder(folder: Path, *, overwrite: bool) -> None:
    """Asked before the work, not after it."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: a file is in the way; a report is a folder, so choose another name")
    taken = [name for name in (TABLE, FIGURES) if (folder / name).exists()]
    if taken and not overwrite:
        raise OutputError(
            f"{folder / taken[0]}: exists already; say --overwrite to replace it, or choose another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror}") from error


def _write(folder: Path, comparison: Comparison, train: Source, measured: Source) -> None:
    table = markdown_table(comparison.header(), comparison.rows())
    signature = comparison.best.measurement.signature
    page = f"# Language models compared\n\n{_heading(train, measured)}\n\n{table}\nSignature: `{signature}`\n"
    try:
        (folder / TABLE).write_text(page, encoding="utf-8")
        (folder / FIGURES).write_text(json_library.dumps(comparison.as_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror}") from error
    print(f"{folder}: {TABLE}, {FIGURES}", file=sys.stderr)
