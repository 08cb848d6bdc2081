"""chainrule compare [TEXT...]: the ladder of models on one text, in one table."""

from __future__ import annotations

import json as json_library
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TextFile,
    TextFiles,
    TokenizerOptions,
    WholeNumber,
)
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, check_read_once, note_repairs
from chainrule.errors import OutputError
from chainrule.report.tables import markdown_code, markdown_table, text_table

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.evaluation.comparison import Comparison
    from chainrule.progress import Progress
    from chainrule.text.corpus import Source

TABLE, FIGURES = "table.md", "table.json"


def compare(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output | None = None,
    heldout: Annotated[
        TextFile | None, Parameter(help="Measure on this text; by default on every tenth part of the others.")
    ] = None,
    order: Annotated[int, WholeNumber, Parameter(help="The highest n-gram order.")] = 5,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Train every model on a text and compare them in one table.

    All are measured on the same held-out text. Without a text: Python's own
    documentation, as it came with this Python. With -o, the table is written
    there too, as table.md and table.json.
    """
    from chainrule.ladder import climb

    check_read_once(*texts, heldout)
    if output is not None:
        _check_report_folder(output, overwrite=overwrite)
    if heldout in texts:
        note(f"{heldout}: measured on what was trained on, so the figures will be too good")
    with progress() as told:
        train, measured = _parts(texts, heldout, reading, told)
        comparison = climb(train, measured, order=order, tokenizer=tokenizer.config(), markers=markers, progress=told)
    note_repairs(train, measured)
    if output is not None:
        _write(output, comparison, train, measured)
    if json:
        print_json(comparison.as_json())
    else:
        _print(comparison, train, measured)


def _parts(texts: tuple[str, ...], heldout: str | None, reading: TextOptions, told: Progress) -> tuple[Source, Source]:
    """The text to train on and the text to measure on."""
    from chainrule.text.corpus import Lines
    from chainrule.text.sample import sample_lines
    from chainrule.text.splits import train_and_heldout

    whole: Source
    whole = reading.corpus(*texts) if texts else Lines(sample_lines(told), "Python's own documentation")
    return train_and_heldout(whole, told) if heldout is None else (whole, reading.corpus(heldout))


def _print(comparison: Comparison, train: Source, measured: Source) -> None:
    print(f"trained on {', '.join(train.sources)}; measured on {', '.join(measured.sources)}")
    print()
    print(text_table(comparison.header(), comparison.rows()))
    print()
    print(f"best by bits per byte: {comparison.best.name}")
    print(f"signature  {comparison.best.measurement.signature}")


def _check_report_folder(folder: Path, *, overwrite: bool) -> None:
    """Asked before the work, not after it."""
    from chainrule.files import check_writable

    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: a file is in the way; a report is a folder, so choose another name")
    taken = [name for name in (TABLE, FIGURES) if (folder / name).exists()]
    if taken and not overwrite:
        raise OutputError(
            f"{folder / taken[0]}: exists already; say --overwrite to replace it, or choose another folder"
        )
    check_writable(folder)


def _write(folder: Path, comparison: Comparison, train: Source, measured: Source) -> None:
    """Raises OutputError."""
    from chainrule.files import replaced

    figures = json_library.dumps(comparison.as_json(), indent=2) + "\n"
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(folder / TABLE) as table, replaced(folder / FIGURES) as file:
            table.write(_page(comparison, train, measured).encode())
            file.write(figures.encode())
    except BaseException as error:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"{folder}: cannot be made: {error.strerror or error}") from error
        raise
    print(f"{folder}: {TABLE}, {FIGURES}", file=sys.stderr)


def _page(comparison: Comparison, train: Source, measured: Source) -> str:
    """Markdown."""
    trained, on = (", ".join(map(markdown_code, source.sources)) for source in (train, measured))
    table = markdown_table(comparison.header(), comparison.rows())
    signature = markdown_code(comparison.best.measurement.signature)
    return f"# Language models compared\n\nTrained on {trained}; measured on {on}.\n\n{table}\nSignature: {signature}\n"
