"""chainrule noise TEXTS: texts as a keyboard or the recognition of print would spoil them, and what may be meant."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelTokenizerName, Overwrite, TextFiles, WholeNumber
from chainrule.cli.models import opened
from chainrule.cli.screen import progress
from chainrule.cli.texts import AS_USUAL, TextOptions, check_text_target, note_repairs


def noise(
    *texts: TextFiles,
    channel: Annotated[
        Literal["keyboard", "ocr"],
        Parameter(help="What makes the errors: slips of the fingers, or letters that look alike."),
    ] = "keyboard",
    rate: Annotated[
        float, Parameter(help="How often something goes wrong at a character that can go wrong, up to 0.5.")
    ] = 0.03,
    seed: Annotated[int, WholeNumber, Parameter(help="Another seed makes other errors.")] = 0,
    model: Annotated[
        Path | None, Parameter(help="A model whose words may have been meant: write n-best lists, and no text.")
    ] = None,
    best: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="With --model: how many texts that may have been meant are in a list; 50 unless said."),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="The file to write, also compressed; by default the screen."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
) -> None:
    """Spoil a text with errors, and propose what may have been meant.

    A line becomes a line with errors. With --model, it becomes a list for
    chainrule rescore: the texts that may have been meant, the likeliest
    first, each with its two scores: log P(observed | text) of the channel,
    and the sum of its words' log P by themselves, as the model has them; the
    latter is marked as a prior, which rescore's models stand in for. The line
    itself is the list's reference, and what came out its "observed".
    """
    from chainrule.api.noise import noise as noise_of
    from chainrule.applications.channel.confusions import channel_named
    from chainrule.base.files import compressing, replace_file
    from chainrule.text.writing import check_format

    for name, given in (("--best", best), ("--tokenizer", tokenizer)):
        if model is None and given is not None:
            raise CycloptsError(msg=f"{name} is for lists of what may have been meant; name their --model.")
    channel_named(channel, rate)  # raises SettingError, before anything is opened
    source = reading.corpus(*texts)
    if output is not None:
        check_format(output)
        check_text_target(output, source, overwrite=overwrite)
    with progress() as told, ExitStack() as stack:
        loaded = None if model is None else opened(model, tokenizer, None, told)
        spoilt = noise_of(
            source,
            channel=channel,
            rate=rate,
            seed=seed,
            model=loaded,
            best=50 if best is None else best,
            progress=told,
        )
        file: Any = sys.stdout.buffer
        if output is not None:
            file = stack.enter_context(compressing(stack.enter_context(replace_file(output)), output))
        for number, one in enumerate(spoilt, 1):
            line = one.observed if model is None else json.dumps(one.as_json(str(number)), ensure_ascii=False)
            file.write(line.encode() + b"\n")
    note_repairs(source)
