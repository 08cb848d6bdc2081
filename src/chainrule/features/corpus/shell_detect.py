"""chainrule detect MODEL TEXTS: how likely each token was, and how well that tells machines from people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

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
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, text_for
from chainrule.features.corpus.options import DetectOptions

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.features.corpus.detect import DetectedText, DetectionMeasurement

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
        Path | None, Parameter(name=("--output", "-o"), help="Write a page with the coloured texts: .html.")
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
    _check(machine, quiz=quiz, plot=plot, output=output, overwrite=overwrite)
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
        _print_measurement(measured, json=json)
        return
    if output is not None:
        draw_ranks(found, output, overwrite=overwrite)
        print(f"{output}: written", file=sys.stderr)
    _print_texts(found, json=json)


def _check(machine: str | None, *, overwrite: bool, **paths: Path | None) -> None:
    """Raises CycloptsError, OutputError, SettingError, before the work."""
    from chainrule.base.files import check_new_file
    from chainrule.cli.shared.screen import check_plot_option
    from chainrule.drawing.plots import check_matplotlib

    for name, path in paths.items():
        if path is None:
            continue
        if name == "output" and machine is not None:
            raise CycloptsError(msg="--output has no effect with --machine.")
        if name == "plot":
            check_plot_option("--plot", path)
            check_matplotlib()
        elif path.suffix.lower() != ".html":
            raise CycloptsError(msg=f"--{name} {path}: its name must end in .html.")
        check_new_file(path, overwrite=overwrite)


def _texts(model: Path, reading: TextOptions, text: str, beside: str | None, progress: Progress) -> list[str]:
    """The texts of a file that are not empty. beside: another file that is read with the same options."""
    source = text_for([model], reading, text, beside=[beside])
    texts = [document for block in source.blocks(progress) for document in block.documents()]
    return [document for document in texts if document.strip()]


def _print_texts(found: list[DetectedText], *, json: bool) -> None:
    from chainrule.base.json import finite_figures
    from chainrule.base.tables import printable
    from chainrule.cli.shared.screen import on_one_line

    for each in found:
        if json:
            print_json(finite_figures({**each.to_dict(), "ranked": each.to_records()}))
            continue
        if sys.stdout.isatty():
            _print_coloured(each)
        else:
            for row in each.to_records():
                print(f"{row['rank']}\t{row['log_prob']:.6f}\t{printable(on_one_line(row['token'].strip()))}")
        print(each.figures + "\n")


def _print_coloured(found: DetectedText) -> None:
    from rich.console import Console
    from rich.text import Text

    from chainrule.base.tables import printable
    from chainrule.features.corpus.detect import without_space

    line = Text()
    for piece, group in zip(found.ranked.pieces, found.ranked.groups.tolist(), strict=True):
        before, token = without_space(piece)
        line.append(before)
        line.append(printable(token), style=_STYLES[group])
    Console().print(line)


def _print_measurement(measured: DetectionMeasurement, *, json: bool) -> None:
    from chainrule.base.tables import text_table

    if json:
        for row in measured.to_records():
            print_json({**row, "human": measured.human, "machine": measured.machine})
        return
    rows = [
        [
            row["statistic"],
            f"{row['area']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{100 * row['found_at_5_percent']:.1f} %",
        ]
        for row in measured.to_records()
    ]
    print(text_table(["statistic", "area under ROC", "95 %", "found at 5 % false alarms"], rows))
    print(f"{measured.human:,} texts by people, {measured.machine:,} by a machine")
