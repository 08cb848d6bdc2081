"""What `chainrule count --window` does: it counts pairs of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.cli.shared.options import Flags, TokenizerFlags, given_settings, tokenizer_of
from chainrule.cli.shared.parts import Part
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import check_text_target, note_repairs
from chainrule.features.vectors.learning.config import CooccurrenceConfig

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.text.corpus.corpus import Corpus
    from chainrule.text.tokenization.vocabulary import Markers


def _count_together(
    flags: Any,
    *,
    source: Corpus,
    output: Path,
    order: int | None,
    memory: str | None,
    tokenizer: TokenizerFlags,
    markers: Markers,
    overwrite: bool,
    json: bool,
) -> None:
    """Count pairs of words in place of n-grams. Raises CycloptsError, TextError, OutputError."""
    from chainrule.features.vectors.cooccurrences import count_cooccurrences, files_of
    from chainrule.features.vectors.options import WORDS

    if memory is not None:
        raise CycloptsError(msg="--memory is for n-grams; pairs of words use what is free.")
    if order is not None:
        raise CycloptsError(msg="--order is for n-grams and --window for pairs of words; choose one.")
    config = CooccurrenceConfig(**given_settings(flags))
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


COUNT = Part(Flags[CooccurrenceConfig], _count_together)
