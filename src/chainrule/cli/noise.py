"""chainrule noise TEXTS: corrupts texts with typing or OCR errors, and proposes corrections."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelTokenizerName, Overwrite, TextFiles, WholeNumber
from chainrule.cli.models import open_model
from chainrule.cli.screen import progress_bar
from chainrule.cli.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs


def noise(
    *texts: TextFiles,
    channel: Annotated[
        Literal["keyboard", "ocr"],
        Parameter(help="The source of errors: typing, or letters that look alike."),
    ] = "keyboard",
    rate: Annotated[
        float, Parameter(help="The probability of an error at each character that can be corrupted, up to 0.5.")
    ] = 0.03,
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of the errors.")] = 0,
    model: Annotated[
        Path | None, Parameter(help="Write n-best lists of corrections from the words of this model, instead of text.")
    ] = None,
    best: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="With --model: how many corrections a list has; by default 50."),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="The file to write, also compressed; by default standard output."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
) -> None:
    """Corrupt a text with typing or OCR errors, and propose corrections.

        $ chainrule noise heldout.txt --model lm/ -o nbest.jsonl

    Each line becomes a line with errors. With --model, it becomes an n-best
    list for chainrule rescore: candidate corrections, likeliest first, each
    with two scores: log P(observed | text) of the channel, and the sum of the
    log-probabilities of its words without context. The second is marked as a
    prior, which a model given to rescore replaces. The original line is the
    list's "reference", the corrupted one its "observed".
    """
    from chainrule.api.noise import noise as add_noise
    from chainrule.applications.channel.confusions import channel_named
    from chainrule.base.files import compressing, replace_file
    from chainrule.text.writing import check_format

    for name, given in (("--best", best), ("--tokenizer", tokenizer)):
        if model is None and given is not None:
            raise CycloptsError(msg=f"{name} is for lists of corrections, which need --model.")
    channel_named(channel, rate)  # raises SettingError, before anything is opened
    source = reading.corpus(*texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress, ExitStack() as stack:
        loaded = None if model is None else open_model(model, tokenizer, None, progress)
        lines = add_noise(
            source,
            channel=channel,
            rate=rate,
            seed=seed,
            model=loaded,
            best=50 if best is None else best,
            progress=progress,
        )
        file: Any = sys.stdout.buffer
        if output is not None:
            file = stack.enter_context(compressing(stack.enter_context(replace_file(output)), output))
        for number, line in enumerate(lines, 1):
            text = line.observed if model is None else json.dumps(line.as_json(str(number)), ensure_ascii=False)
            file.write(text.encode() + b"\n")
    note_repairs(source)
