"""chainrule prompt MODEL --template ... --data ...: answers of a model that was never trained for the task."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    ModelPath,
    Overwrite,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.screen import note, on_one_line, print_json, progress_bar
from chainrule.features.prompt.config import unescaped
from chainrule.features.prompt.options import PromptOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.prompt.experiment import PromptResult

_SHOWN = 3  # free answers
_LABELS = 10  # listed with how often each was answered, at most


def prompt(
    model: ModelPath,
    /,
    *,
    template: Annotated[
        tuple[str, ...],
        Parameter(
            help="A prompt with the fields of an example in braces; several are compared. \\n is a line end. For a "
            "masked model, [MASK] stands where the answer goes.",
            consume_multiple=True,
            negative=(),
        ),
    ],
    data: Annotated[
        str, FILE, Parameter(help="Examples with their right answers: JSON lines, or CSV or TSV with a header.")
    ],
    choices: Annotated[
        tuple[str, ...],
        Parameter(
            help="What the model chooses among, such as great=positive: the text, and the label it stands for. Without "
            "choices, the model writes its answer.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    options: Flags[PromptOptions] = NO_FLAGS,
    show: Annotated[int, WholeNumber, Parameter(help="Print this many prompts as the model gets them.")] = 0,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write every answer to this file, as JSON lines.")
    ] = None,
    overwrite: Overwrite = False,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Measure a model's answers to prompts, zero-shot or few-shot.

        $ chainrule prompt lm/ --template "{text} Overall, it was" --choices good=1 bad=0 --data reviews.tsv

    The right answers are the field label, unless --answer names another. The
    model chooses the likeliest of --choices, or writes an answer. Accuracy and
    its 95 % interval are over examples; with several --seeds or --orders of
    few-shot examples, also the mean and standard deviation over them.
    """
    from chainrule.base.files import check_new_file, replace_file
    from chainrule.evaluation.choices import parse_choices, prefixes_among
    from chainrule.features.prompt.experiment import PromptConfig
    from chainrule.features.prompt.prompt import prompt_with

    given = given_settings(options)
    examples = given.pop("examples", None)
    if given.get("shots") and examples is None:
        raise CycloptsError(msg="--shots needs --examples, a file to draw solved examples from.")
    if examples is not None and not given.get("shots"):
        raise CycloptsError(msg="--examples needs --shots, the number of examples in a prompt.")
    if choices and given.keys() & {"match", "max_tokens"}:
        raise CycloptsError(msg="--match and --max-tokens are for answers that the model writes, without --choices.")
    if output is not None:
        inputs = [data, *([] if examples is None else [examples])]
        check_new_file(output, overwrite=overwrite, inputs=inputs)
    configs = [
        PromptConfig(template=unescaped(text), choices=tuple(parse_choices(choices)), **given) for text in template
    ]
    for one, other in prefixes_among(configs[0].choices):
        note(f"the choice {other!r} begins with {one!r}, so that {one!r} is always at least as likely; see --normalise")
    with progress_bar() as progress:
        loaded = open_model(model, None, markers, progress)
        results = [prompt_with(loaded, data, config, examples, progress) for config in configs]
    if output is not None:
        with replace_file(output) as file:
            for row in (row for result in results for row in result.to_records()):
                file.write((json_module.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    if json:
        for result in results:
            print_json(result.as_json())
    else:
        _print_table(results)
    for text in [text for result in results for text in result.runs[0].prompts[:show]]:
        print(f"\n--- prompt\n{text}\n---")
    _note_lengths(results)


def _print_table(results: Sequence[PromptResult]) -> None:
    from chainrule.base.tables import text_table

    single = all(len(result.runs) == 1 for result in results)
    chooses = bool(results[0].config.choices)
    header = ["template", *([] if single else ["seed", "order"]), "accuracy", "95 %"]
    header += ["macro F1", "calibration error"] if chooses else []
    moves = results[0].config.calibrate != "none"
    header += ["before calibration", "changed"] if moves else []
    rows: list[list[str]] = []
    for result in results:
        name = on_one_line(result.config.template)
        for run in result.runs:
            low, high = run.accuracy.interval
            figures = run.classification
            cells = [name, *([] if single else [str(run.seed), str(run.order)])]
            cells += [f"{run.accuracy.share:.2%}", f"{100 * low:.2f} to {100 * high:.2f}"]
            cells += [] if figures is None else [f"{figures.macro_f1:.4f}", f"{figures.calibration_error:.4f}"]
            if run.moved is not None:
                cells += [f"{run.moved[0].share:.2%}", f"{run.moved[1]:,}"]
            rows.append(cells + [""] * (len(header) - len(cells)))
            name = ""
        if result.spread is not None:
            mean = ["mean +- deviation", "", "", f"{result.mean_accuracy:.2%}", f"+- {100 * result.spread:.2f}"]
            rows.append(mean + [""] * (len(header) - len(mean)))
    print(text_table(header, rows))
    print(count_of(len(results[0].records), "example"))
    if not chooses:
        run, expected = results[0].runs[0], results[0].records
        for record, answer in list(zip(expected, run.predicted, strict=True))[:_SHOWN]:
            print(f"expected {record.fields[results[0].config.answer]!r}, answered {answer.strip()!r}")
    for result in results:
        figures = result.runs[0].classification
        if figures is not None and len(figures.labels) <= _LABELS:
            answered = zip(
                figures.labels, figures.confusion.sum(0).tolist(), figures.confusion.sum(1).tolist(), strict=True
            )
            shares = ", ".join(f"{label} {given:,} ({true:,} true)" for label, given, true in answered)
            print(f"answers: {shares}")


def _note_lengths(results: Sequence[PromptResult]) -> None:
    for run in (run for result in results for run in result.runs):
        if run.dropped or run.cut:
            parts = [f"{run.dropped:,} solved examples were left out of prompts"] if run.dropped else []
            parts += [f"the beginnings of {run.cut:,} prompts were cut off"] if run.cut else []
            note(f"{' and '.join(parts)} that are longer than the model's context")
            return
