"""The verbs train ngram and train uniform, the smoothing options, and the table of estimated smoothing parameters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of, text_table
from chainrule.cli.shared.models import check_model_target, check_shards_target, is_arpa, save_or_keep
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
    WholeNumber,
    flag,
    given_settings,
    tokenizer_of,
)
from chainrule.cli.shared.screen import note, note_plan, print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    NO_MIX,
    MixOptions,
    TextOptions,
    check_read_once,
    note_mix,
    note_repairs,
)
from chainrule.cli.train.run_output import cost_line, summary_of
from chainrule.errors import SettingError
from chainrule.ngram.config import NGramConfig
from chainrule.verbs.training.options import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from _typeshed import DataclassInstance

    from chainrule.models.model import Model
    from chainrule.text.corpus.corpus import Source


def estimates_table(record: dict[str, Any]) -> str:
    """What was counted and estimated, a row for each order."""
    sizes, discounts = record["ngrams"], record["discounts"] or [{}] * len(record["ngrams"])
    width = max((len(row.get("values", ())) for row in discounts), default=0)
    weights = record.get("weights", [[]] * len(sizes))
    rows = []
    for order, (size, row, own) in enumerate(zip(sizes, discounts, weights, strict=True), start=1):
        values = [f"{value:.4f}" for value in row.get("values", ())]
        values += [""] * (width - len(values))
        fallback = "" if row.get("estimated", True) else "fallback"
        rows.append([str(order), f"{size:,}", *values, *([_weight_range(own)] if own else []), fallback])
    header = ["order", "n-grams", *_discount_names(width), *(["weight over lower orders"] if any(weights) else []), ""]
    return text_table(header, rows)


def tuned_line(record: dict[str, Any]) -> str | None:
    """What was tuned on a held-out text, in words; None where nothing was."""
    if "tuned_on_tokens" not in record:
        return None
    result = f"the constant {record['pseudocount']:.6g}" if "pseudocount" in record else "the numbers above"
    return f"tuned on {record['tuned_on_tokens']:,} tokens of {', '.join(record['tuned_on'])}: {result}"


def _discount_names(width: int) -> list[str]:
    return ["D"] if width == 1 else [f"D{n}{'+' * (n == width)}" for n in range(1, width + 1)]


def _weight_range(weights: Sequence[float]) -> str:
    """The weight, or the weights of the rarest and of the most frequent contexts."""
    if len(weights) == 1:
        return f"{weights[0]:.4f}"
    return f"{weights[0]:.4f} to {weights[-1]:.4f}"


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
    spark: Annotated[
        str | None,
        Parameter(
            help="Count on Spark: local[2] for two processes here, or the address of a cluster. The model is the same."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="With --spark: estimate there, too, and write a model in about as many files, which may be larger "
            "than this machine's memory."
        ),
    ] = None,
    memory: Annotated[
        str | None,
        Parameter(
            help="The most memory to use, such as 4G. What needs more lies in temporary files (in TMPDIR); the result "
            "is the same. By default, what is free. With --spark: of Spark's Java process, by default 2G."
        ),
    ] = None,
    markers: MarkerRule = "error",
    reading: TextOptions = DEFAULT_READING,
    mixing: MixOptions = NO_MIX,
    overwrite: Overwrite = False,
    json: Json = False,
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
    if spark is not None:
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
        if shards is not None:
            check_shards_target(output, compact=compact)
        _train_on_spark(
            spark,
            texts,
            config,
            output,
            tokenizer,
            markers,
            tune=heldout,
            shards=shards,
            memory=memory,
            overwrite=overwrite,
            json=json,
            compact=compact,
        )
        return
    if shards is not None:
        raise CycloptsError(msg="--shards needs --spark; chainrule convert --shards cuts a model that is trained.")
    source = mixing.source(texts, reading, [tune])
    _train(
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
    _train(source, UniformConfig(), output, tokenizer, markers, overwrite=overwrite, json=json, ngrams=False)


def _train(
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
    _print_result(model, output, began, json=json)


def _train_on_spark(
    master: str,
    texts: tuple[str, ...],
    config: NGramConfig,
    output: Path,
    tokenizer: TokenizerFlags,
    markers: Any,
    *,
    tune: Source | None,
    shards: int | None,
    memory: str | None,
    overwrite: bool,
    json: bool,
    compact: bool,
) -> None:
    from chainrule.features.spark import check_training, local_session
    from chainrule.features.spark import train as train_on_spark

    check_read_once(*texts)
    if not texts or "-" in texts:
        raise CycloptsError(msg="--spark reads files; name one or more.")
    check_model_target(output, overwrite=overwrite, compact=compact, ngrams=True)
    chosen = tokenizer_of(tokenizer)
    check_training(texts, config, chosen, markers, tune=tune, shards=shards)  # before Java takes seconds to start
    began = time.perf_counter()
    with progress_bar() as progress:
        progress("starting Spark", 0, None)
        with local_session(master, memory=memory) as session:
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
    _print_result(model, output, began, json=json)


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
    _print_result(model, output, began, json=json)


def _print_result(model: Model, output: Path, began: float, *, json: bool) -> None:
    summary = summary_of(output, began, vocabulary=model.vocabulary_size)
    if json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    unknown = record["unknown_tokens"]
    share = f", {unknown / record['tokens']:.2%} of the tokens unknown" if unknown else ""
    print(
        f"{summary['model']}: {record['family']} model of {record['tokens']:,} tokens "
        f"in {count_of(record['documents'], 'document')}, "
        f"vocabulary {summary['vocabulary']:,}{share}"
    )
    if "discounts" in record:
        print(estimates_table(record))
        _note_fallback([discounts for discounts in record["discounts"] if not discounts["estimated"]])
    if impossible := record.get("impossible_types"):
        note(
            f"this smoothing leaves {impossible:,} tokens of the text without probability, so the perplexity of texts "
            "with them is infinite; lower --discount"
        )
    if tuned := tuned_line(record):
        print(tuned)
    if record.get("settings", {}).get("smoothing") == "stupid-backoff":
        note("stupid-backoff scores do not sum to one: there is no perplexity, and nothing to sample from")
    print(cost_line(summary))


def _note_fallback(discounts: list[dict[str, Any]]) -> None:
    """One note for all orders: on a tiny text there are many."""
    if discounts:
        first, *others = discounts
        orders = ", ".join(str(other["order"]) for other in others)
        likewise = f"; likewise order{'s' * (len(others) > 1)} {orders}" if others else ""
        values = first["values"]
        used = ", ".join(f"{value:g}" for value in values)
        fallback = f"; used {used} instead" if any(values) else ", so no count is discounted"
        note(f"{first['problem']}{fallback}{likewise}")
