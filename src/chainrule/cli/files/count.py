"""chainrule count TEXTS -o FILE: the n-grams of a text with their counts, one a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    Memory,
    Overwrite,
    TextFiles,
    TokenizerFlags,
    flag,
    given_settings,
    tokenizer_of,
)
from chainrule.cli.shared.screen import note_plan, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs
from chainrule.features.vectors.learning.config import CooccurrenceConfig
from chainrule.verbs.training.options import CountOptions

if TYPE_CHECKING:
    from chainrule.text.corpus.corpus import Corpus
    from chainrule.text.tokenization.vocabulary import Markers


def count(
    *texts: TextFiles,
    output: Annotated[
        Path,
        Parameter(
            name=("--output", "-o"), help="The file to write; compressed if its name ends in .gz, .zst, .xz or .bz2."
        ),
    ],
    order: Annotated[int | None, flag(CountOptions, "order")] = None,
    together: Flags[CooccurrenceConfig] = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    memory: Memory = None,
    overwrite: Overwrite = False,
    json: Json = False,
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

    if pairs := given_settings(together):
        if memory is not None:
            raise CycloptsError(msg="--memory is for n-grams; pairs of words use what is free.")
        if order is not None:
            raise CycloptsError(msg="--order is for n-grams and --window for pairs of words; choose one.")
        config = CooccurrenceConfig(**pairs)
        _count_together(reading.corpus(*texts), output, config, tokenizer, markers, overwrite=overwrite, json=json)
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


def _count_together(
    source: Corpus,
    output: Path,
    config: CooccurrenceConfig,
    tokenizer: TokenizerFlags,
    markers: Markers,
    *,
    overwrite: bool,
    json: bool,
) -> None:
    from chainrule.features.vectors.cooccurrences import count_cooccurrences, files_of
    from chainrule.features.vectors.options import WORDS

    files = files_of(output)
    for path in files:
        check_text_target(path, source, overwrite=overwrite)
    with progress_bar() as progress:
        words = tokenizer_of(tokenizer, WORDS.min_count)
        together = count_cooccurrences(source, config, tokenizer=words, markers=markers, progress=progress)
        together.save(output, overwrite=overwrite, progress=progress)
    note_repairs(source)
    if json:
        shown = [str(path) for path in files]
        print_json({"counts": shown[0], "files": shown, "words": len(together.words), "pairs": together.pairs})
    else:
        print(f"{output}: {together.pairs:,} pairs of {len(together.words):,} words, at most {config.window} apart")
        for vocabulary in files[1:]:
            print(f"{vocabulary}: the words, with how often each occurs")
