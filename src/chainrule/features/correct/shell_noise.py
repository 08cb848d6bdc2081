"""chainrule noise TEXTS: corrupts texts with errors of typing, OCR or grammar, and proposes corrections."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    ModelTokenizerName,
    Needs,
    Overwrite,
    TextFiles,
    given_settings,
)
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs
from chainrule.features.correct.options import NoiseOptions

TAB = "\t"


def noise(
    *texts: TextFiles,
    options: Flags[NoiseOptions] = NO_FLAGS,
    pairs: Annotated[
        bool, Parameter(negative=(), help="Write the corrupted text, a tab, and the right one, for train seq2seq.")
    ] = False,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="The file to write, also compressed; by default standard output."),
    ] = None,
    tokenizer: Annotated[ModelTokenizerName, Needs("model")] = None,
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
    prior, which rescore replaces by the score of its model. The original line is
    the list's "reference", the corrupted one its "observed".
    """
    from chainrule.base.files import compressing, replace_file
    from chainrule.features.correct.noise import noise as add_noise
    from chainrule.text.corpus.writing import check_format

    given = given_settings(options)
    model = given.pop("model", None)
    if model is not None and pairs:
        raise CycloptsError(msg="Choose one of --pairs and --model.")
    NoiseOptions(**given)  # raises SettingError, before anything is opened
    source = reading.corpus(*texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress, ExitStack() as stack:
        loaded = None if model is None else open_model(model, tokenizer, None, progress)
        lines = add_noise(source, model=loaded, progress=progress, **given)
        file: Any = sys.stdout.buffer
        if output is not None:
            file = stack.enter_context(compressing(stack.enter_context(replace_file(output)), output))
        for number, line in enumerate(lines, 1):
            text = line.observed if model is None else json.dumps(line.as_json(str(number)), ensure_ascii=False)
            if pairs:
                text = f"{line.observed.replace(TAB, ' ')}{TAB}{line.text.replace(TAB, ' ')}"
            file.write(text.encode() + b"\n")
    note_repairs(source)
