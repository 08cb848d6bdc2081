"""chainrule noise TEXTS: corrupts texts with errors of typing, OCR or grammar, and proposes corrections."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import ModelTokenizerName, Overwrite, TextFiles, WholeNumber
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs

TAB = "\t"


def noise(
    *texts: TextFiles,
    channel: Annotated[
        str,
        Parameter(
            help="The source of errors: keyboard; ocr, letters that look alike; grammar, as learners of English make "
            "them; or a file from chainrule train channel --grammar."
        ),
    ] = "keyboard",
    rate: Annotated[
        float | None,
        Parameter(
            help="The probability of an error at each character that can be corrupted, up to 0.5 (by default 0.03) or, "
            "with grammar, at each word (0.2)."
        ),
    ] = None,
    pairs: Annotated[
        bool, Parameter(negative=(), help="Write the corrupted text, a tab, and the right one, for train seq2seq.")
    ] = False,
    inflections: Annotated[
        Path | None,
        Parameter(help="With grammar: the forms of a word in each line, or AGID; by default from rules of English."),
    ] = None,
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
    """Corrupt a text with errors, and propose corrections.

        $ chainrule noise heldout.txt --model lm/ -o nbest.jsonl

    Each line becomes a line with errors, or with --pairs a pair that
    chainrule train seq2seq learns from. With --model, it becomes an n-best
    list for chainrule rescore: candidate corrections, likeliest first, each
    with two scores: log P(observed | text) of the channel, and the sum of the
    log-probabilities of its words without context. The second is marked as a
    prior, which a model given to rescore replaces. The original line is the
    list's "reference", the corrupted one its "observed".
    """
    from chainrule.api.texts.noise import noise as add_noise
    from chainrule.applications.noisy_channel.character_channel import CONFUSIONS, channel_named
    from chainrule.base.files import compressing, replace_file
    from chainrule.text.corpus.writing import check_format

    for name, given in (("--best", best), ("--tokenizer", tokenizer)):
        if model is None and given is not None:
            raise CycloptsError(msg=f"{name} is for lists of corrections, which need --model.")
    if pairs and model is not None:
        raise CycloptsError(msg="Choose one of --pairs and --model.")
    if channel in CONFUSIONS and rate is not None:
        channel_named(channel, rate)  # raises SettingError, before anything is opened
    source = reading.corpus(*texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress, ExitStack() as stack:
        loaded = None if model is None else open_model(model, tokenizer, None, progress)
        lines = add_noise(
            source,
            channel=channel if channel in (*CONFUSIONS, "grammar") or not Path(channel).exists() else Path(channel),
            rate=rate,
            seed=seed,
            inflections=inflections,
            model=loaded,
            best=50 if best is None else best,
            progress=progress,
        )
        file: Any = sys.stdout.buffer
        if output is not None:
            file = stack.enter_context(compressing(stack.enter_context(replace_file(output)), output))
        for number, line in enumerate(lines, 1):
            text = line.observed if model is None else json.dumps(line.as_json(str(number)), ensure_ascii=False)
            if pairs:
                text = f"{line.observed.replace(TAB, ' ')}{TAB}{line.text.replace(TAB, ' ')}"
            file.write(text.encode() + b"\n")
    note_repairs(source)
