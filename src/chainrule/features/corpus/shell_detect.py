"""chainrule detect MODEL TEXTS: how likely each token was, and how well that tells machines from people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import Shown, row
from chainrule.base.tables import printable
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    ModelPath,
    Needs,
    Overwrite,
    TextFile,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.results import ResultOptions, check_page, check_plot, is_table
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, text_for
from chainrule.features.corpus.options import DetectOptions

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.features.corpus.detect import DetectedText

_STYLES = ("black on green", "black on yellow", "white on red", "white on magenta")


def detect(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    machine: Annotated[
        str | None,
        FILE,
        Parameter(help="Texts that a machine wrote; the others are by people. Measures how well they are told apart."),
    ] = None,
    options: Flags[DetectOptions] = NO_FLAGS,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="Write a page with the coloured texts, .html; or a table instead: .csv, .tsv, .jsonl or .parquet.",
        ),
    ] = None,
    quiz: Annotated[
        Path | None,
        Parameter(help="With --machine, write a page on which people guess who wrote each text: .html."),
        Needs("machine"),
    ] = None,
    plot: Annotated[
        Path | None, Parameter(help="With --machine, draw the ROC curves: .pdf, .png or .svg."), Needs("machine")
    ] = None,
    number: Annotated[
        int, WholeNumber, Parameter(name=("--number", "-n"), help="How many texts of each kind are in the quiz.")
    ] = 10,
    reading: TextOptions = DEFAULT_READING,
    markers: ModelMarkerRule = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Show how likely each token of a text was, or measure how well that tells who wrote it.

        $ chainrule detect lm/ heldout.txt -o ranks.html

    A token's rank is how many tokens the model found likelier in its place, plus
    one (GLTR): green, yellow and red for the top 10, 100 and 1000, purple for
    the rest; where the output is no terminal, a line for each token. With
    --machine, the area under the ROC curve of each statistic, with its 95 %
    interval: 0.5 is guessing.
    """
    from chainrule.features.corpus.detect import detect as detect_texts
    from chainrule.features.corpus.detect import draw_quiz, draw_ranks, measure_detection
    from chainrule.models.language_models import CausalModel, MaskedModel

    given = given_settings(options)
    table = output if is_table(output) else None
    show = ResultOptions(output=table, overwrite=overwrite, json=json)
    page = output if table is None else None
    if page is not None and machine is not None:
        raise CycloptsError(msg="--output writes a table with --machine: .csv, .tsv, .jsonl or .parquet.")
    show.check(text)
    for option, path in (("--output", page), ("--quiz", quiz)):
        if path is not None:
            check_page(option, path, overwrite=overwrite)
    if plot is not None:
        check_plot("--plot", plot, overwrite=overwrite)
    with progress_bar() as progress:
        loaded = open_model(model, None, markers, progress, kind=CausalModel)
        if "masked" in given:
            given["masked"] = open_model(given["masked"], None, None, progress, kind=MaskedModel)
        people = _texts(model, reading, text, machine, progress)
        if machine is None:
            found = detect_texts(loaded, people, progress=progress, **given)
        else:
            machines = _texts(model, reading, machine, text, progress)
            if quiz is not None:
                draw_quiz(people, machines, quiz, n=number, seed=given.get("seed", 0), overwrite=overwrite)
                print(f"{quiz}: written", file=sys.stderr)
            measured = measure_detection(loaded, people, machines, progress=progress, **given)
    if machine is not None:
        if plot is not None:
            from chainrule.drawing.plots import write_plot

            write_plot(measured.plot(), plot)
        show.show_all([row("", record) for record in measured.to_records()] if json else [measured])
        return
    if page is not None:
        draw_ranks(found, page, overwrite=overwrite)
        print(f"{page}: written", file=sys.stderr)
    show.show_all(_shown(each, number) for number, each in enumerate(found, 1))


def _texts(model: Path, reading: TextOptions, text: str, beside: str | None, progress: Progress) -> list[str]:
    """Return the texts of a file that are not empty. beside: another file that is read with the same options."""
    source = text_for([model], reading, text, beside=[beside])
    texts = [document for block in source.blocks(progress) for document in block.documents()]
    return [document for document in texts if document.strip()]


def _shown(found: DetectedText, number: int) -> Shown:
    """Return a text with its figures; its tokens have colours where the output is a terminal. number: of the text, from
    1.
    """
    text = f"{_coloured(found)}{found.figures}\n" if sys.stdout.isatty() else str(found)
    return Shown(text, found.as_json(), [{"text": number, **row} for row in found.to_records()])


def _coloured(found: DetectedText) -> str:
    from rich.console import Console
    from rich.text import Text

    from chainrule.features.corpus.detect import without_space

    line = Text()
    for piece, group in zip(found.ranked.pieces, found.ranked.groups.tolist(), strict=True):
        before, token = without_space(piece)
        line.append(before)
        line.append(printable(token), style=_STYLES[group])
    console = Console()
    with console.capture() as captured:
        console.print(line)
    return captured.get()
