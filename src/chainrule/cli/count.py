"""chainrule count: the n-grams of a text with their counts, a line each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

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
from chainrule.vectors.cooccurrence_config import CooccurrenceConfig

if TYPE_CHECKING:
    from chainrule.text.corpus import Corpus
    from chainrule.text.vocabulary import Markers


def count(
    *texts: TextFiles,
    output: Annotated[
        Path, Parameter(name=("--output", "-o"), help="The file to write; .gz, .zst, .xz and .bz2 are compressed.")
    ],
    order: Annotated[
        int | None, WholeNumber, Parameter(help="The longest n-grams to count: 5 by default.", show_default=False)
    ] = None,
    window: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Count how often words stand within so many words of one another; GloVe's is 15."),
    ] = None,
    weighting: Annotated[
        Literal["distance", "flat"],
        Parameter(help="With --window, distance: words d apart count 1/d, as for GloVe; flat: all count 1."),
    ] = "distance",
    sides: Annotated[
        Literal["both", "left", "right"],
        Parameter(help="With --window, where contexts stand: both makes the counts symmetric."),
    ] = "both",
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Count the n-grams of a text, or with --window the words that stand together.

    All orders, as SRILM and Google write them: words with a space between, a
    tab, and how often they follow each other. <s> and </s> begin and end each
    document. train ngram --counts reads such files and adds them up.

    With --window: a word, a word near it, and how often, a line each, with tabs
    between; or, where the file's name ends in .bin, as GloVe's cooccur writes
    them, with its vocabulary beside. Words are as for train vectors.
    """
    from chainrule.api.counts import count_text

    if window is not None:
        if order is not None:
            raise CycloptsError(msg="--order is for n-grams, and --window counts words that stand together; say one.")
        _count_together(
            reading.corpus(*texts), output, CooccurrenceConfig(window=window, weighting=weighting, sides=sides),
            tokenizer, markers, overwrite=overwrite, json=json,
        )  # fmt: skip
        return
    if weighting != "distance" or sides != "both":
        raise CycloptsError(msg="--weighting and --sides are for --window.")
    order = 5 if order is None else order
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


def _count_together(
    source: Corpus,
    output: Path,
    config: CooccurrenceConfig,
    tokenizer: TokenizerOptions,
    markers: Markers,
    *,
    overwrite: bool,
    json: bool,
) -> None:
    from chainrule.api.cooccurrences import count_together
    from chainrule.api.train_vectors import WORDS

    check_text_target(output, source, overwrite=overwrite)
    with progress() as told:
        found = count_together(
            source, config, tokenizer=tokenizer.config(WORDS.min_count), markers=markers, progress=told
        )
        found.save(output, overwrite=overwrite, progress=told)
    note_repairs(source)
    if json:
        print_json({"counts": str(output), "words": len(found.words), "pairs": found.pairs})
    else:
        print(f"{output}: {found.pairs:,} pairs of {len(found.words):,} words, {config.window} apart at most")
