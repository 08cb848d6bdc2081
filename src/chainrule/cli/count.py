"""chainrule count TEXTS -o FILE: the n-grams of a text with their counts, one a line."""

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
from chainrule.cli.screen import print_json, progress_bar
from chainrule.cli.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs


def count(
    *texts: TextFiles,
    output: Annotated[
        Path,
        Parameter(
            name=("--output", "-o"), help="The file to write; compressed if its name ends in .gz, .zst, .xz or .bz2."
        ),
    ],
    order: Annotated[int, WholeNumber, Parameter(help="The longest n-grams to count.")] = 5,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Count the n-grams of a text.

        $ chainrule count corpus.txt -o counts.txt.gz --order 3

    Writes all orders in the format of SRILM and Google: words separated by
    spaces, a tab, the count. <s> and </s> begin and end each document.
    train ngram --counts reads such files and adds them up.
    """
    from chainrule.api.counts import count_text

    source = reading.corpus(*texts)
    check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress:
        summary = count_text(
            source, output, order=order, tokenizer=tokenizer.config(), markers=markers, progress=progress
        )
    note_repairs(source)
    if json:
        print_json({"counts": str(output), **summary})
    else:
        sizes = ", ".join(f"{n}: {size:,}" for n, size in enumerate(summary["ngrams"], start=1))
        print(
            f"{output}: {summary['lines']:,} n-grams of {summary['tokens']:,} tokens "
            f"in {summary['documents']:,} documents\n"
            f"by order {sizes}"
        )
