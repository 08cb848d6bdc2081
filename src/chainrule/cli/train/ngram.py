"""The verbs train ngram and train uniform, the smoothing options, and the table of estimated smoothing parameters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import check_model_target, is_arpa, save_or_keep
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    ModelOutput,
    Output,
    Overwrite,
    TextFiles,
    TokenizerFlags,
    flag,
    given_settings,
    tokenizer_of,
)
from chainrule.cli.shared.parts import flags_of_parts, parts_of, run_part, with_flags
from chainrule.cli.shared.screen import note, note_plan, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    NO_MIX,
    MixOptions,
    TextOptions,
    check_read_once,
    note_mix,
    note_repairs,
)
from chainrule.cli.train.ngram_output import print_result
from chainrule.errors import SettingError
from chainrule.ngram.config import NGramConfig
from chainrule.verbs.training.options import TrainOptions

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance

    from chainrule.text.corpus.corpus import Source


_PARTS = parts_of("train ngram")


@with_flags(flags_of_parts(_PARTS))
def ngram(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: ModelOutput,
    order: Annotated[int, flag(NGramConfig, "order")] = NGramConfig.order,
    tokenizer: TokenizerFlags = NO_FLAGS,
    counts: Annotated[
        tuple[str, ...],
        Parameter(
            help="Train on files of counts, in the format of chainrule count, SRILM and Google; several are added up. "
            "Without --tokenizer, it is recognised by marks in the words, or else is whitespace.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    smoothing: Flags[NGramConfig] = NO_FLAGS,
    tune: Annotated[str | None, flag(TrainOptions, "tune")] = None,
    compact: Annotated[
        bool, Parameter(negative=(), help="Quantise and pack the model, to a fifth of the size.")
    ] = False,
    memory: Annotated[
        str | None,
        Parameter(
            help="The most memory to use, such as 4G. Larger counts go to temporary files (in TMPDIR); the result is "
            "the same. By default, the free memory. With --spark: of Spark's Java process, by default 2G."
        ),
    ] = None,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    mixing: MixOptions = NO_MIX,
    overwrite: Overwrite = False,
    json: Json = False,
    flags: dict[str, Any],
) -> None:
    """An n-gram model, by default with modified Kneser-Ney smoothing.

        $ chainrule train ngram corpus.txt -o lm/

    The default is interpolated, like KenLM's lmplz; see --smoothing for others.
    """
    heldout = None
    if tune is not None:
        check_read_once(*texts, *counts, tune)
        if tune in texts:
            note(f"{tune}: is also trained on, so tuning on it leaves nothing for unseen words")
        heldout = reading.corpus(tune, beside=[*texts, *mixing.names])
    config = NGramConfig(order=order, **given_settings(smoothing))
    if config.folder_only and is_arpa(output):
        raise SettingError(f"{output}: {config.folder_only} cannot be written as ARPA; name a folder")
    if config.folder_only and compact:
        raise SettingError(f"{config.folder_only} has no compact form; leave out --compact")
    if counts:
        if texts or mixing != NO_MIX:
            raise CycloptsError(msg="TEXTS and --counts are both given; train on one or the other.")
        if memory is not None:
            raise CycloptsError(msg="--memory bounds the counting of texts; --counts are counted already.")
        if tune is None and reading != DEFAULT_READING:
            raise CycloptsError(msg="The options that say how to read texts are for TEXTS and --tune, not --counts.")
        check_read_once(*counts)
        _train_counts(counts, config, output, tokenizer, overwrite=overwrite, json=json, tune=heldout, compact=compact)
        return
    shared = {"texts": texts, "config": config, "output": output, "tokenizer": tokenizer, "markers": markers}
    shared |= {"tune": heldout, "memory": memory, "overwrite": overwrite, "json": json, "compact": compact}
    if run_part(_PARTS, flags, reading=reading, mixing=mixing, **shared):
        return
    source = mixing.source(texts, reading, [tune])
    train_from_counts(
        source,
        config,
        output,
        tokenizer,
        markers,
        overwrite=overwrite,
        json=json,
        tune=heldout,
        compact=compact,
        memory=memory,
    )


def uniform(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    mixing: MixOptions = NO_MIX,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Every token equally likely: the floor for any comparison.

        $ chainrule train uniform corpus.txt -o uniform/

    Learns the vocabulary and nothing else.
    """
    from chainrule.mixture.uniform import UniformConfig

    source = mixing.source(texts, reading)
    train_from_counts(source, UniformConfig(), output, tokenizer, markers, overwrite=overwrite, json=json, ngrams=False)


def train_from_counts(
    source: Source,
    config: DataclassInstance,
    output: Path,
    tokenizer: TokenizerFlags,
    markers: Any,
    *,
    overwrite: bool,
    json: bool,
    tune: Source | None = None,
    compact: bool = False,
    memory: str | None = None,
    ngrams: bool = True,
) -> None:
    """Train a model that is estimated from counts, save it, and print what was learned. ngrams: as for the target.

    Raises what `train` raises; OutputError.
    """
    from chainrule.verbs.training.train import train

    check_model_target(output, overwrite=overwrite, compact=compact, ngrams=ngrams)
    began = time.perf_counter()
    with progress_bar() as progress:
        model = train(
            source,
            config,
            tokenizer=tokenizer_of(tokenizer),
            markers=markers,
            progress=progress,
            tune=tune,
            memory=memory,
            on_plan=note_plan,
        )
        if compact:
            model = model.compact(progress)
        save_or_keep(model, output, overwrite=overwrite, progress=progress)
    note_repairs(source, *([] if tune is None else [tune]))
    note_mix(source)
    print_result(model, output, began, json=json)


def _train_counts(
    counts: tuple[str, ...],
    config: NGramConfig,
    output: Path,
    tokenizer: TokenizerFlags,
    *,
    overwrite: bool,
    json: bool,
    tune: Source | None,
    compact: bool,
) -> None:
    from chainrule.base.files import describe_duplicate
    from chainrule.verbs.training.counts import train_counts

    if twice := describe_duplicate(counts):
        raise CycloptsError(msg=f"--counts names {twice}; its counts would be doubled.")
    check_model_target(output, overwrite=overwrite, compact=compact, ngrams=True)
    began = time.perf_counter()
    chosen = tokenizer_of(tokenizer) if given_settings(tokenizer) else None
    with progress_bar() as progress:
        model = train_counts(counts, config, tokenizer=chosen, progress=progress, tune=tune)
        if compact:
            model = model.compact(progress)
        save_or_keep(model, output, overwrite=overwrite, progress=progress)
    if chosen is None:
        name = model.tokenizer.name
        marks = "no marks of a tokenizer" if name == "whitespace" else "its marks"
        note(f"the tokenizer is {name}: the counted words have {marks}, and no --tokenizer was given")
    print_result(model, output, began, json=json)
