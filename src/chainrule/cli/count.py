"""chainrule count: the n-grams of a text with their counts, a line each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    MarkerRule,
    Overwrite,
    TextFiles,
    TokenizerOptions,
    WholeNumber,
)
from chainrule.cli.screen import print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, check_text_target, note_repairs


def count(
    *texts: TextFiles,
    output: Annotated[
        Path, Parameter(name=("--output", "-o"), help="The file to write; .gz, .zst, .xz and .bz2 are compressed.")
    ],
    order: Annotated[int, WholeNumber, Parameter(help="The longest n-grams to count.")] = 5,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Count the n-grams of a text.

    All orders, as SRILM and Google write them: words with a space between, a
    tab, and how often they follow each other. <s> and </s> begin and end each
    document. train ngram --counts reads such files and adds them up.
    """
    from chainrule.api.counts import count_text

    source = reading.corpus(*texts)
    check_text_target(output, source, overwrite=overwrite)
    with progress() as told:
        found = count_text(source, output, order=order, tokenizer=tokenizer.config(), markers=markers, progress=told)
    note_repairs(source)
    if json:
        print_json({"counts": str(output), **found})
    else:
        sizes = ", ".join(f"{n}: {size:,}" for n, size in enumerate(found["ngrams"], start=1))
        print(
            f"{output}: {found['lines']:,} n-grams of {found['tokens']:,} tokens in {found['documents']:,} documents\n"
            f"by order {sizes}"
        )
