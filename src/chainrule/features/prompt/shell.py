"""chainrule prompt MODEL --template ... --data ...: answers of a model that was never trained for the task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

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
from chainrule.cli.shared.results import ResultOptions, check_table, write_table
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.features.prompt.config import unescaped
from chainrule.features.prompt.options import PromptOptions


def prompt(
    model: ModelPath,
    /,
    *,
    template: Annotated[
        tuple[str, ...],
        Parameter(
            help="A prompt with the fields of an example in braces; several are compared. \\n is a line end. For a "
            "masked model, [MASK] marks the place of the answer.",
            consume_multiple=True,
            negative=(),
        ),
    ],
    data: Annotated[
        str,
        FILE,
        Parameter(help="Examples with their right answers: JSON lines, Parquet, or CSV or TSV with a header."),
    ],
    choices: Annotated[
        tuple[str, ...],
        Parameter(
            help="What the model chooses among, such as great=positive: a text and its label. Without choices, the "
            "model writes its answer.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    options: Flags[PromptOptions] = NO_FLAGS,
    records: RecordFlags = NO_FLAGS,
    show: Annotated[int, WholeNumber, Parameter(help="Print this many prompts as the model gets them.")] = 0,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="Write every answer, too: .csv, .tsv, .jsonl or .parquet."),
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
    from chainrule.features.prompt.choices import parse_choices, prefixes_among
    from chainrule.features.prompt.experiment import PromptConfig
    from chainrule.features.prompt.prompt import prompt_with
    from chainrule.features.prompt.results import PromptTable

    given = given_settings(options)
    examples = given.pop("examples", None)
    if given.get("shots") and examples is None:
        raise CycloptsError(msg="--shots needs --examples, a file to draw solved examples from.")
    if examples is not None and not given.get("shots"):
        raise CycloptsError(msg="--examples needs --shots, the number of examples in a prompt.")
    if choices and given.keys() & {"match", "max_tokens"}:
        raise CycloptsError(msg="--match and --max-tokens are for answers that the model writes, without --choices.")
    check_table(output, data, *([] if examples is None else [examples]), overwrite=overwrite)
    configs = [
        PromptConfig(template=unescaped(text), choices=tuple(parse_choices(choices)), **given) for text in template
    ]
    for one, other in prefixes_among(configs[0].choices):
        note(f"the choice {other!r} begins with {one!r}, so that {one!r} is always at least as likely; see --normalise")
    with progress_bar() as progress, bad_records(records, "stop", data, *filter(None, [examples])) as bad:
        loaded = open_model(model, None, markers, progress)
        results = [prompt_with(loaded, data, config, examples, progress, bad) for config in configs]
    if output is not None:
        write_table(output, (row for result in results for row in result.to_records()))
    shown = PromptTable(results)
    ResultOptions(json=json).show_all(results if json else [shown])
    for text in [text for result in results for text in result.runs[0].prompts[:show]]:
        print(f"\n--- prompt\n{text}\n---")
    if json:
        for message in shown.notes():
            note(message)
