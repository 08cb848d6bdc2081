"""What `chainrule train ngram --spark` does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import check_model_target, check_shards_target, save_or_keep
from chainrule.cli.shared.options import TokenizerFlags, WholeNumber, tokenizer_of
from chainrule.cli.shared.parts import Part
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, NO_MIX, check_read_once
from chainrule.cli.train.ngram_output import print_result

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.cli.shared.texts import MixOptions, TextOptions
    from chainrule.ngram.config import NGramConfig
    from chainrule.text.corpus.corpus import Source


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SparkFlags:
    """Where n-grams are counted, if not here."""

    spark: Annotated[
        str | None,
        Parameter(
            help="Count on Spark: local[2] for two processes here, or the address of a cluster. The model is the same."
        ),
    ] = None
    shards: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="With --spark: estimate there, too, and write a model in about as many files, which may be larger "
            "than this machine's memory."
        ),
    ] = None


def _train_on_spark(
    flags: SparkFlags,
    *,
    texts: tuple[str, ...],
    config: NGramConfig,
    output: Path,
    tokenizer: TokenizerFlags,
    markers: Any,
    tune: Source | None,
    reading: TextOptions,
    mixing: MixOptions,
    memory: str | None,
    overwrite: bool,
    json: bool,
    compact: bool,
) -> None:
    """Train on Spark in place of this machine. Raises CycloptsError, SettingError, TextError, ServiceError."""
    from chainrule.features.spark.session import local_session
    from chainrule.features.spark.training import check_training
    from chainrule.features.spark.training import train as train_on_spark

    if flags.spark is None:
        raise CycloptsError(msg="--shards needs --spark; chainrule convert --shards cuts a model that is trained.")
    if mixing != NO_MIX:
        raise CycloptsError(
            msg="--mix and --spark do not go together: in Python, sample data frames, join them with union, and "
            "give chainrule.spark.train the result."
        )
    if reading != DEFAULT_READING:
        raise CycloptsError(
            msg="--spark reads plain text, a document a line, and has no options of texts: for others, give "
            "chainrule.spark.train in Python a data frame of the documents."
        )
    shards = flags.shards
    if shards is not None:
        check_shards_target(output, compact=compact)
    check_read_once(*texts)
    if not texts or "-" in texts:
        raise CycloptsError(msg="--spark reads files; name one or more.")
    check_model_target(output, overwrite=overwrite, compact=compact, ngrams=True)
    chosen = tokenizer_of(tokenizer)
    check_training(texts, config, chosen, markers, tune=tune, shards=shards)  # before Java takes seconds to start
    began = time.perf_counter()
    with progress_bar() as progress:
        progress("starting Spark", 0, None)
        with local_session(flags.spark, memory=memory) as session:
            model = train_on_spark(
                session,
                texts,
                config,
                tokenizer=chosen,
                markers=markers,
                tune=tune,
                shards=shards,
                progress=progress,
            )
        if compact:
            model = model.compact(progress)
        save_or_keep(model, output, overwrite=overwrite, progress=progress)
    print_result(model, output, began, json=json)


TRAIN = Part(SparkFlags, _train_on_spark, SparkFlags())
