"""The verb correct: corrects texts word by word in context, and prints corrected texts, differences or questions."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    ModelPath,
    ModelTokenizerName,
    Needs,
    Overwrite,
    TextFile,
    given_settings,
)
from chainrule.cli.shared.results import is_table, table_rows
from chainrule.cli.shared.screen import note, progress_bar, writes_utf8
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    TextOptions,
    check_text_target,
    note_lost_fields,
    note_repairs,
)
from chainrule.errors import TextError
from chainrule.features.correct.options import CorrectOptions, TuneTarget
from chainrule.text.corpus.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chainrule.base.progress import Progress
    from chainrule.features.correct.corrector.corrector import Corrector
    from chainrule.features.correct.corrector.spans import Change, Corrected
    from chainrule.models.model import Model
    from chainrule.text.corpus.corpus import Corpus

    Records = Iterable[tuple[Corrected, Mapping[str, Any]]]  # corrected texts, each with the fields of its record

_SURROGATE = re.compile("[\ud800-\udfff]")


@contextmanager
def line_writer(output: Path | None) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes a line to a file or, without one, to standard output."""
    from chainrule.base.files import compressing, replace_file

    if output is None:
        yield print
        return
    with replace_file(output) as raw, compressing(raw, output) as file:
        yield lambda line: file.write(line.encode() + b"\n")


@contextmanager
def text_writer(
    output: Path | None, source: Corpus, *, as_records: bool
) -> Iterator[Callable[[str, Mapping[str, Any]], object]]:
    """Yield a function that writes a corrected text: as a line, or as a record with all the fields that it had.

    The function raises TextError for a text of several lines where each text has to be a line.
    """
    from chainrule.text.corpus.record_blocks import as_json

    if output is not None and as_records and FORMATS.get(text_suffix(str(output))) != "json":
        with table_rows(output) as write_rows:
            yield lambda text, fields: write_rows([{**as_json(fields), source.reading.text_field: text}])
        return

    def write_text(text: str, fields: Mapping[str, Any]) -> None:
        if as_records:
            write(_dumps({**as_json(fields), source.reading.text_field: text}))
            return
        if "\n" in text and source.reading.document != "file":
            raise TextError(
                f"{', '.join(source.sources)}: a record has several lines, which would be several texts; "
                "give --output a name that ends in .jsonl, or --json"
            )
        write(text)

    with line_writer(output) as write:
        yield write_text


def _dumps(record: dict[str, Any], *, ascii_only: bool = False) -> str:
    line = dumps(record, ensure_ascii=ascii_only)
    return line if line.isascii() or not _SURROGATE.search(line) else dumps(record)


_FEW_WORDS = 10_000


def note_circumstances(ready: Corrector) -> None:
    """Say which share of wrong words is expected, and if the model knows few words."""
    if ready.estimated_rate is not None:
        note(
            f"corrected as if {ready.estimated_rate:.1%} of the words were wrong, an estimate from the first texts; "
            "--rate sets it"
        )
    if ready.known_words < _FEW_WORDS:
        note(
            f"only {ready.known_words:,} words are known, so right words that are not among them may be changed; "
            "train the model on more text, or name right words by --keep"
        )


def noting(lines: Records) -> Records:
    """Yield the lines; when they end, one note on those that were left alone."""
    first, count = "", 0
    for number, (line, fields) in enumerate(lines, 1):
        if line.note is not None:
            first, count = first or f"line {number}: {line.note}", count + 1
        yield line, fields
    if count:
        note(first + (f"; likewise {count_of(count - 1, 'other line')}" if count > 1 else ""))


def write_corrected(lines: Records, write: Callable[[str, Mapping[str, Any]], object], *, interactive: bool) -> None:
    asking = interactive
    for number, (line, fields) in enumerate(lines, 1):
        if not asking or not line.changes:
            write(line.text if interactive and not asking else line.corrected, fields)
            continue
        accepted = []
        for change in line.changes:
            answer = _ask(line, change, number) if asking else "n"
            asking = asking and answer != "q"
            if answer == "y":
                accepted.append(change)
        write(line.with_changes(accepted), fields)


def _ask(line: Corrected, change: Change, number: int) -> str:
    """Ask about a change: y, n, or q for no further change."""
    before, after = line.text[max(0, change.start - 40) : change.start], line.text[change.stop : change.stop + 40]
    print(f"\nline {number}: {before}[{change.before} -> {change.after}]{after}   ({change.prob:.0%})", file=sys.stderr)
    while True:
        print("change? [y]es, [n]o, [q]uit asking: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer or answer.strip().lower()[:1] in ("y", "n", "q"):
            return answer.strip().lower()[:1] or "q"


def print_differences(lines: Records) -> None:
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


def write_differences(lines: Records, write: Callable[[str], object]) -> None:
    for number, line in _changed(lines):
        write(f"{number}: {line.marked()}")


def _changed(lines: Records) -> Iterator[tuple[int, Corrected]]:
    """Return the lines that change, with their numbers."""
    return ((number, line) for number, (line, _) in enumerate(lines, 1) if line.changes)


def correct(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    options: Flags[CorrectOptions] = NO_FLAGS,
    references: Annotated[
        tuple[Path, ...],
        Parameter(
            consume_multiple=True,
            negative=(),
            help="Corrected texts, line by line, perhaps by several people: measure the corrections by them instead.",
        ),
    ] = (),
    errant: Annotated[
        bool,
        Parameter(negative=(), help="With --references: report F0.5 of edits, too, by the package errant."),
        Needs("references"),
    ] = False,
    tuning: Flags[TuneTarget] = NO_FLAGS,
    diff: Annotated[
        bool, Parameter(negative=(), help="Write only the lines that change, with their changes marked.")
    ] = False,
    interactive: Annotated[bool, Parameter(negative=(), help="Ask about each change.")] = False,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="The file to write; by default standard output.")
    ] = None,
    tokenizer: ModelTokenizerName = None,
    reading: TextOptions = DEFAULT_READING,
    json: Json = False,
    overwrite: Overwrite = False,
) -> None:
    """Correct texts: spelling, spaces, words that do not fit, grammar.

        $ chainrule correct lm/ heldout.txt --diff

    Finds the likeliest intended text, by a model of errors and a language model.
    Corrects unknown words, known words that do not fit their context (there,
    their), and lost and added spaces. Keeps the case. Addresses, numbers, words
    with inner capitals and those of --keep are left alone, and in Markdown,
    LaTeX, HTML and programs all but prose (--format). --json gives each change
    with its position and probability.
    """
    from chainrule.base.files import check_new_file
    from chainrule.base.progress import silent
    from chainrule.features.correct.correct import in_format, start_correction
    from chainrule.text.corpus.record_blocks import after_fields
    from chainrule.text.corpus.writing import check_format, check_table_format

    given, target = given_settings(options), given_settings(tuning)
    tune = target.get("output")
    if sum((diff, interactive, json, bool(references))) > 1:
        raise CycloptsError(msg="Choose one of --diff, --interactive, --json and --references.")
    if interactive and (output is None or text == "-"):
        raise CycloptsError(msg="--interactive reads one file and writes another: give TEXT and --output.")
    if tune is not None:
        if "settings" in given or errant:
            raise CycloptsError(msg="--tune chooses settings; leave out --settings and --errant.")
        check_new_file(tune, overwrite=overwrite, inputs=[text, *map(str, references)])
    if references and output is not None:
        raise CycloptsError(msg="--references measures the corrections and writes no texts; leave out --output.")
    if "format" in given and (references or tune is not None):
        raise CycloptsError(msg="--references and --tune compare lines of plain text; leave out --format.")
    source = reading.corpus(text)
    if not references and tune is None:
        source = in_format(source, given.get("format", CorrectOptions.format))
    if output is not None:
        if diff or json or not is_table(output):
            check_format(output)
        else:
            check_table_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress:
        loaded = open_model(model, tokenizer, None, progress)
        if "rescore_by" in given:
            given["rescore_by"] = open_model(given["rescore_by"], None, None, progress)
        if tune is not None:
            _tune(loaded, source, references, progress, **target, **given)
            return
        if references:
            _print_measures(loaded, CorrectOptions(**given), source, references, errant=errant)
            return
        chosen = CorrectOptions(**given)
        as_records = is_table(output)
        shown = silent if sys.stdout.isatty() else progress
        ready, lines = start_correction(source, loaded, chosen, shown, fields=json or (as_records and not diff))
        noted = noting(lines)
        if diff and output is None:
            print_differences(noted)
        elif diff or json:
            with line_writer(output) as write:
                if diff:
                    write_differences(noted, write)
                else:
                    ascii_only = output is None and not writes_utf8()
                    for line, fields in noted:
                        record = after_fields(line.as_json(), fields, source.reading.text_field)
                        write(_dumps(record, ascii_only=ascii_only))
        else:
            with text_writer(output, source, as_records=as_records) as write_text:
                write_corrected(noted, write_text, interactive=interactive)
    note_circumstances(ready)
    if output is not None and not diff and not json and not as_records:
        note_lost_fields(source)
    note_repairs(source)


def _print_measures(
    model: Model, options: CorrectOptions, source: Corpus, references: tuple[Path, ...], *, errant: bool
) -> None:
    from chainrule.features.correct.correct import build_corrector, measure_correction

    texts, meant = _with_references(source, references)
    ready = build_corrector(model, options, texts[:256])
    note_circumstances(ready)
    measures = measure_correction(ready, texts, meant, errant=errant)
    print(measures)


def _with_references(source: Corpus, references: tuple[Path, ...]) -> tuple[list[str], list[list[str]]]:
    """Return the texts, and the references in each file. Raises CycloptsError unless each text has its references."""
    from chainrule.text.corpus.corpus import Corpus

    texts, *meant = (
        [text for block in one.blocks() for text in block.documents()]
        for one in (source, *(Corpus.of([str(path)]) for path in references))
    )
    for path, lines in zip(references, meant, strict=True):
        if len(texts) != len(lines):
            raise CycloptsError(
                msg=f"There are {len(texts):,} texts and {len(lines):,} references in {path}; "
                "expected a reference for each text."
            )
    return texts, meant


def _tune(model: Any, source: Corpus, references: tuple[Path, ...], progress: Progress, **options: Any) -> None:
    from chainrule.features.correct.correct import tune_correction

    texts, meant = _with_references(source, references)
    tuned = tune_correction(texts, meant, model, progress=progress, **options)
    print(tuned)
    for message in tuned.notes():
        note(message)
