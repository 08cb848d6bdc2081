"""chainrule count TEXTS -o FILE: the n-grams of a text with their counts, one a line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Json,
    MarkerRule,
    Memory,
    Overwrite,
    TextFiles,
    TokenizerFlags,
    flag,
    tokenizer_of,
)
from chainrule.cli.shared.parts import flags_of_parts, parts_of, run_part, with_flags
from chainrule.cli.shared.screen import note_plan, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs
from chainrule.verbs.training.options import CountOptions

_PARTS = parts_of("count")


@with_flags(flags_of_parts(_PARTS))
def count(
    *texts: TextFiles,
    output: Annotated[
        Path,
        Parameter(
            name=("--output", "-o"), help="The file to write; compressed if its name ends in .gz, .zst, .xz or .bz2."
        ),
    ],
    order: Annotated[int | None, flag(CountOptions, "order")] = None,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    memory: Memory = None,
    overwrite: Overwrite = False,
    json: Json = False,
    flags: dict[str, Any],
) -> None:
    """Count the n-grams of a text, or with --window its co-occurring words.

        $ chainrule count corpus.txt -o counts.txt.gz --order 3

    Writes all orders in the format of SRILM and Google: words separated by
    spaces, a tab, the count. <s> and </s> begin and end each document.
    train ngram --counts reads such files and adds them up.

    With --window, each line has a word, a context and their count, separated by
    tabs; or, if the file's name ends in .bin, the format of GloVe's cooccur,
    with its vocabulary file. Words are chosen as by train vectors.
    """
    from chainrule.verbs.training.counts import count_text

    shared = {"output": output, "tokenizer": tokenizer, "markers": markers, "overwrite": overwrite, "json": json}
    if run_part(_PARTS, flags, source=reading.corpus(*texts), order=order, memory=memory, **shared):
        return
    order = 5 if order is None else order

    source = reading.corpus(*texts)
    check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress:
        summary = count_text(
            source,
            output,
            order=order,
            tokenizer=tokenizer_of(tokenizer),
            markers=markers,
            memory=memory,
            on_plan=note_plan,
            progress=progress,
        )
    note_repairs(source)
    if json:
        print_json({"counts": str(output), **summary})
    else:
        sizes = ", ".join(f"{n}: {size:,}" for n, size in enumerate(summary["ngrams"], start=1))
        print(
            f"{output}: {count_of(summary['lines'], 'n-gram')} of {count_of(summary['tokens'], 'token')} "
            f"in {count_of(summary['documents'], 'document')}\n"
            f"by order {sizes}"
        )
