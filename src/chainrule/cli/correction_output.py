"""The output of `chainrule correct`: texts as they should be, differences, and questions about each change."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from itertools import repeat
from json import dumps
from typing import TYPE_CHECKING, Any

from chainrule.cli.shared.screen import note
from chainrule.errors import TextError
from chainrule.text.corpus.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from chainrule.applications.correction.spans import Change, Corrected
    from chainrule.text.corpus.corpus import Corpus

_SURROGATE = re.compile("[\ud800-\udfff]")


@contextmanager
def line_writer(output: Path | None) -> Iterator[Callable[[str], object]]:
    """What writes a line to a file or, without one, to standard output."""
    from chainrule.base.files import compressing, replace_file

    if output is None:
        yield print
        return
    with replace_file(output) as raw, compressing(raw, output) as file:
        yield lambda line: file.write(line.encode() + b"\n")


def text_writer(write: Callable[[str], object], output: Path | None, source: Corpus) -> Callable[[str], object]:
    """What writes a corrected text: as a line, or as a record with all fields that it had.

    It raises TextError for a text of several lines, where texts are lines.
    """
    if output is not None and text_suffix(str(output)) in FORMATS:
        field = source.reading.field
        records = _records(source) if keeps_fields(output, source) else repeat({})
        return lambda text: write(_dumps({**next(records), field: text}))

    def write_line(text: str) -> None:
        if "\n" in text and source.reading.document != "file":
            raise TextError(
                f"{', '.join(source.sources)}: a record has several lines, which would be several texts; "
                "give --output a name that ends in .jsonl, or --json"
            )
        write(text)

    return write_line


def keeps_fields(output: Path, source: Corpus) -> bool:
    """Whether records are written with all of their fields: JSON lines that can be read a second time."""
    files = [file for of_source in source.files for file in of_source]
    return (
        text_suffix(str(output)) in FORMATS
        and source.documents == ("record",)
        and all(source.reading.format_of(file) == "json" and file != "-" for file in files)
    )


def _records(source: Corpus) -> Iterator[dict[str, Any]]:
    from chainrule.text.corpus.records import json_objects

    for file in (file for of_source in source.files for file in of_source):
        for _, record in json_objects(file, encoding_errors=source.reading.encoding_errors, exact=True):
            yield record


def _dumps(record: dict[str, Any]) -> str:
    line = dumps(record, ensure_ascii=False)
    return line if line.isascii() or not _SURROGATE.search(line) else dumps(record)


def write_corrected(lines: Iterable[Corrected], write: Callable[[str], object], *, interactive: bool) -> None:
    asking = interactive
    for number, line in enumerate(lines, 1):
        if line.note is not None:
            note(f"line {number}: {line.note}")
        if not asking or not line.changes:
            write(line.text if interactive and not asking else line.corrected)
            continue
        accepted = []
        for change in line.changes:
            answer = _ask(line, change, number) if asking else "n"
            asking = asking and answer != "q"
            if answer == "y":
                accepted.append(change)
        write(line.with_changes(accepted))


def _ask(line: Corrected, change: Change, number: int) -> str:
    """Asks about a change: y, n, or q for no further change."""
    before, after = line.text[max(0, change.start - 40) : change.start], line.text[change.stop : change.stop + 40]
    print(f"\nline {number}: {before}[{change.before} -> {change.after}]{after}   ({change.prob:.0%})", file=sys.stderr)
    while True:
        print("change? [y]es, [n]o, [q]uit asking: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer or answer.strip().lower()[:1] in ("y", "n", "q"):
            return answer.strip().lower()[:1] or "q"


def json_of(line: Corrected) -> dict[str, Any]:
    changes = [{**change._asdict(), "prob": round(change.prob, 4)} for change in line.changes]
    return {"text": line.text, "corrected": line.corrected, "changes": changes} | (
        {"note": line.note} if line.note else {}
    )


def print_differences(lines: Iterable[Corrected]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        write_differences(lines, print)
        return
    for number, line in _changed(lines):
        shown, end = Text(f"{number}: "), 0
        for change in line.changes:
            shown.append(line.text[end : change.start])
            shown.append(change.before, "red strike").append(change.after, "green")
            end = change.stop
        console.print(shown.append(line.text[end:]))


def write_differences(lines: Iterable[Corrected], write: Callable[[str], object]) -> None:
    for number, line in _changed(lines):
        marked = [change._replace(after=f"[-{change.before}-]{{+{change.after}+}}") for change in line.changes]
        write(f"{number}: {line.with_changes(marked)}")


def _changed(lines: Iterable[Corrected]) -> Iterator[tuple[int, Corrected]]:
    """The lines that change, with their numbers; the notes on others go to the screen."""
    for number, line in enumerate(lines, 1):
        if line.note is not None:
            note(f"line {number}: {line.note}")
        if line.changes:
            yield number, line
