"""chainrule detect MODEL TEXTS: how likely each token was, and how well that tells machines from people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.api.texts.config import DetectOptions
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    Json,
    ModelMarkerRule,
    ModelPath,
    Overwrite,
    TextFile,
    WholeNumber,
    flags_of,
    given_settings,
)
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, text_for

if TYPE_CHECKING:
    from chainrule.api.texts.detect import DetectedText, DetectionMeasurement
    from chainrule.base.progress import Progress

_GROUPS = ("top 10", "top 100", "top 1000", "other")
_STYLES = ("black on green", "black on yellow", "white on red", "white on magenta")

if TYPE_CHECKING:
    DetectFlags = Any
else:
    DetectFlags = flags_of(DetectOptions)


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
    options: DetectFlags = DetectFlags(),  # noqa: B008
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write a page with the coloured texts: .html.")
    ] = None,
    quiz: Annotated[
        Path | None, Parameter(help="With --machine, write a page on which people guess who wrote each text: .html.")
    ] = None,
    plot: Annotated[Path | None, Parameter(help="With --machine, draw the ROC curves: .pdf, .png or .svg.")] = None,
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
    from chainrule.api.models.language_models import CausalModel, MaskedModel
    from chainrule.api.texts.detect import detect as detect_texts
    from chainrule.api.texts.detect import measure_detection

    given = given_settings(options)
    _check(machine, quiz=quiz, plot=plot, output=output, overwrite=overwrite)
    with progress_bar() as progress:
        loaded = open_model(model, None, markers, progress, kind=CausalModel)
        if "masked" in given:
            given["masked"] = open_model(given["masked"], None, None, progress, kind=MaskedModel)
        people = _texts(model, reading, text, progress)
        if machine is None:
            found = detect_texts(loaded, people, progress=progress, **given)
        else:
            machines = _texts(model, reading, machine, progress)
            if quiz is not None:
                _write(quiz, _quiz(people, machines, number, given.get("seed", 0)))
            measured = measure_detection(loaded, people, machines, progress=progress, **given)
    if machine is not None:
        if plot is not None:
            from chainrule.drawing.plots import write_plot

            write_plot(measured.plot(), plot)
        _print_measurement(measured, json=json)
        return
    if output is not None:
        _write(output, _page(found))
    _print_texts(found, json=json)


def _check(machine: str | None, *, overwrite: bool, **paths: Path | None) -> None:
    """Raises CycloptsError, OutputError, SettingError, before the work."""
    from chainrule.base.files import check_new_file
    from chainrule.cli.shared.screen import check_plot_option
    from chainrule.drawing.plots import check_matplotlib

    for name, path in paths.items():
        if path is None:
            continue
        if (machine is None) != (name == "output"):
            raise CycloptsError(msg=f"--{name} {'has no effect with' if machine is not None else 'needs'} --machine.")
        if name == "plot":
            check_plot_option("--plot", path)
            check_matplotlib()
        elif path.suffix.lower() != ".html":
            raise CycloptsError(msg=f"--{name} {path}: its name must end in .html.")
        check_new_file(path, overwrite=overwrite)


def _texts(model: Path, reading: TextOptions, text: str, progress: Progress) -> list[str]:
    """The texts of a file that are not empty."""
    source = text_for([model], reading, text)
    texts = [document for block in source.blocks(progress) for document in block.documents()]
    return [document for document in texts if document.strip()]


def _quiz(people: list[str], machines: list[str], number: int, seed: int) -> str:
    """Raises SettingError if there are not enough texts."""
    from chainrule.api.texts.detect import quiz_page
    from chainrule.errors import SettingError

    if number < 1 or number > min(len(people), len(machines)):
        raise SettingError(
            f"n is {number}, but there are {len(people):,} texts of people and {len(machines):,} of machines; expected "
            "1 or more, and as many of each"
        )
    return quiz_page(people[:number], machines[:number], seed)


def _page(found: list[DetectedText]) -> str:
    from chainrule.api.texts.detect import ShownText, ShownToken, ranks_page

    texts = []
    for each in found:
        ranked = each.ranked
        columns = zip(
            ranked.pieces, ranked.groups.tolist(), ranked.ranks.tolist(), ranked.log_probs, ranked.likelier, strict=True
        )
        tokens = [
            ShownToken(
                *_without_space(piece), group, f"rank {rank:,}, {_percent(log_prob)}; likeliest: {', '.join(likelier)}"
            )
            for piece, group, rank, log_prob, likelier in columns
            if piece
        ]
        texts.append(ShownText(tokens, _figures(each)))
    return ranks_page("How likely was each token?", _GROUPS, texts)


def _without_space(piece: str) -> tuple[str, str]:
    """The white space before a token, and the rest; a token of white space alone is kept."""
    token = piece.lstrip() or piece
    return piece[: len(piece) - len(token)], token


def _percent(log_prob: float) -> str:
    import math

    return f"{100 * math.exp(log_prob):.3g} %"


def _figures(found: DetectedText) -> str:
    shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in zip(_GROUPS, found.ranked.shares, strict=True))
    curvature = "" if found.curvature is None else f", curvature {found.curvature:.2f}"
    means = f"mean log-probability {found.ranked.mean_log_prob:.3f}, mean log-rank {found.ranked.mean_log_rank:.3f}"
    return f"{shares}; {means}{curvature}"


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
        print(_figures(each) + "\n")


def _print_coloured(found: DetectedText) -> None:
    from rich.console import Console
    from rich.text import Text

    from chainrule.base.tables import printable

    line = Text()
    for piece, group in zip(found.ranked.pieces, found.ranked.groups.tolist(), strict=True):
        before, token = _without_space(piece)
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


def _write(path: Path, page: str) -> None:
    from chainrule.base.files import replace_file

    with replace_file(path) as file:
        file.write(page.encode())
    print(f"{path}: written", file=sys.stderr)
