"""chainrule train vectors: text in, a folder of word vectors out."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import is_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    Resume,
    TextFiles,
    TokenizerFlags,
    given_settings,
    tokenizer_of,
)
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    NO_MIX,
    MixOptions,
    TextOptions,
    check_read_once,
    note_mix,
    note_repairs,
)
from chainrule.cli.train.run_output import (
    continues_run,
    cost_line,
    data_differences,
    report_finished_run,
    shown_run,
    summary_of,
    text_differences,
)
from chainrule.features.vectors.learning.config import VectorsConfig
from chainrule.features.vectors.options import WORDS
from chainrule.training.config import differences

if TYPE_CHECKING:
    from chainrule.features.vectors.model import WordVectors
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.config import TokenizerConfig


def vectors(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    settings: Flags[VectorsConfig] = NO_FLAGS,
    counts: Annotated[
        Path | None,
        Parameter(help="Train GloVe on co-occurrences, not on TEXTS: a file of count --window or of GloVe's cooccur."),
    ] = None,
    tokenizer: TokenizerFlags = NO_FLAGS,
    resume: Resume = False,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    mixing: MixOptions = NO_MIX,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Word vectors: skip-gram, CBOW or GloVe, with subwords or without.

        $ chainrule train vectors corpus.txt -o words/ --normalise lower

    The same seed gives the same vectors on any number of threads. Ctrl-C saves
    a checkpoint, and --resume continues. With --counts, GloVe learns from
    co-occurrences that were counted before.
    """
    from chainrule.features.vectors.cooccurrences import CooccurrenceMatrix, read_cooccurrences
    from chainrule.features.vectors.train import remove_finished, train_vectors
    from chainrule.storage.model_folder import check_target

    given = given_settings(settings)
    if counts is None:
        check_read_once(*texts)
    elif texts or mixing != NO_MIX or given_settings(tokenizer) or reading != DEFAULT_READING:
        raise CycloptsError(msg="--counts takes no TEXTS, and no options for them.")
    else:
        given.setdefault("method", "glove")
    continues = continues_run(output, resume=resume, overwrite=overwrite)
    config = VectorsConfig(**given)
    words = tokenizer_of(tokenizer, WORDS.min_count) if counts is None else WORDS
    if resume and not continues and is_model(output):
        _report_finished(output, config, mixing.source(texts, reading) if counts is None else counts, words, json=json)
        return
    replaces = overwrite or continues
    check_target(output, overwrite=replaces)
    began = time.perf_counter()
    with progress_bar() as progress:
        source = mixing.source(texts, reading) if counts is None else read_cooccurrences(counts, progress=progress)
        with shown_run(progress, output, resume=resume) as options:
            trained = train_vectors(source, config, tokenizer=words, markers=markers, **options)
        trained.save(output, overwrite=replaces, progress=progress)
    remove_finished(output)
    if not isinstance(source, CooccurrenceMatrix):
        note_repairs(source)
        note_mix(source)
    _print_summary(trained, output, began, json=json)


def _report_finished(
    output: Path, config: VectorsConfig, source: Source | Path, tokenizer: TokenizerConfig, *, json: bool
) -> None:
    """Print that a run has ended. source: a text, or a file of co-occurrences. Raises SettingError if it differs."""
    from chainrule.features.vectors.cooccurrences import read_cooccurrences
    from chainrule.features.vectors.model import FAMILY

    def changes(before: dict[str, Any]) -> list[str]:
        settings = differences(before["settings"], asdict(config.resolved()))
        if isinstance(source, Path):
            return settings + data_differences(before, read_cooccurrences(source).record)
        before = {**before, "tokenizer": asdict(WORDS) | before.get("tokenizer", {})}
        return settings + text_differences(before, source, tokenizer)

    report_finished_run(output, FAMILY, None, {}, changes, json=json)


def _print_summary(trained: WordVectors, output: Path, began: float, *, json: bool) -> None:
    record = trained.record
    summary = summary_of(output, began, words=len(trained), dimensions=trained.vectors.shape[1])
    if json:
        print_json({**record, **summary})
        return
    unit = "pairs" if record["settings"]["method"] == "glove" else "words"
    losses = record["losses"]
    by_epoch = ", ".join(f"{loss:.4f}" for loss in losses[-3:])
    print(
        f"{output}: {summary['words']:,} words, {summary['dimensions']:,} dimensions; {_read_from(record)}\n"
        f"{record['words_per_second']:,.0f} {unit}/s; loss by epoch {'... ' if len(losses) > 3 else ''}{by_epoch}\n"
        f"{cost_line(summary)}"
    )


def _read_from(record: dict[str, Any]) -> str:
    if "cooccurrences" in record:
        return f"{record['cooccurrences']:,} co-occurrences"
    unknown = record["unknown_tokens"] / max(1, record["tokens"])
    return f"{record['tokens']:,} tokens in {record['documents']:,} documents, {unknown:.2%} unknown"
