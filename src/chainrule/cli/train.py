"""chainrule train FAMILY: text in, a model folder out, a summary on screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    MarkerRule,
    ModelOutput,
    Output,
    Overwrite,
    TextFile,
    TextFiles,
    TokenizerOptions,
    WholeNumber,
)
from chainrule.cli.models import check_model_target, is_arpa, save_or_keep
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.smoothing_options import AS_KENLM, SmoothingOptions, estimates_table, tuned_line
from chainrule.cli.texts import (
    AS_USUAL,
    NOT_MIXED,
    MixOptions,
    TextOptions,
    check_read_once,
    note_mix,
    note_repairs,
)
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance

    from chainrule.api.model import Model
    from chainrule.ngram.config import NGramConfig
    from chainrule.text.corpus import Source


def ngram(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: ModelOutput,
    order: Annotated[int, WholeNumber, Parameter(help="Contexts are order - 1 tokens long.")] = 5,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    counts: Annotated[
        tuple[str, ...],
        Parameter(
            help="Files of counts, as chainrule count, SRILM and Google write them, to train on; several are added up. "
            "Without --tokenizer, text is cut as marks in their words show, else at white space.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    smoothing: SmoothingOptions = AS_KENLM,
    tune: Annotated[
        TextFile | None, Parameter(help="Choose weights, discounts or the constant so that this text is likeliest.")
    ] = None,
    compact: Annotated[bool, Parameter(negative=(), help="Quantise and pack the model: a fifth of the size.")] = False,
    markers: MarkerRule = "error",
    reading: TextOptions = AS_USUAL,
    mixing: MixOptions = NOT_MIXED,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """An n-gram model, by default with modified Kneser-Ney smoothing.

    Interpolated, as KenLM's lmplz; --smoothing names the others.
    """
    heldout = None
    if tune is not None:
        check_read_once(*texts, *counts, tune)
        if tune in texts:
            note(f"{tune}: tuned on what is trained on, so nothing is kept for the unseen")
        heldout = reading.corpus(tune)
    config = smoothing.config(order)
    if config.folder_only and is_arpa(output):
        raise SettingError(f"{output}: {config.folder_only} cannot be written as ARPA; name a folder")
    if config.folder_only and compact:
        raise SettingError(f"{config.folder_only} has no compact form; leave --compact out")
    if counts:
        if texts or mixing != NOT_MIXED:
            raise CycloptsError(msg="TEXTS and --counts are both given; a model is made of one or the other.")
        check_read_once(*counts)
        counted = counts, config, output, tokenizer
        _train_counts(*counted, overwrite=overwrite, json=json, tune=heldout, compact=compact)
        return
    trained = mixing.source(texts, reading), config, output, tokenizer, markers
    _train(*trained, overwrite=overwrite, json=json, tune=heldout, compact=compact)


def uniform(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    reading: TextOptions = AS_USUAL,
    mixing: MixOptions = NOT_MIXED,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Every token alike: the floor for any comparison.

    It learns the vocabulary and nothing else.
    """
    from chainrule.uniform import UniformConfig

    _train(mixing.source(texts, reading), UniformConfig(), output, tokenizer, markers, overwrite=overwrite, json=json)


def _train(
    source: Source,
    config: DataclassInstance,
    output: Path,
    tokenizer: TokenizerOptions,
    markers: Any,
    *,
    overwrite: bool,
    json: bool,
    tune: Source | None = None,
    compact: bool = False,
) -> None:
    from chainrule.api.train import train

    check_model_target(output, overwrite=overwrite, compact=compact)
    began = time.perf_counter()
    with progress() as told:
        model = train(source, config, tokenizer=tokenizer.config(), markers=markers, progress=told, tune=tune)
        if compact:
            model = model.compact(told)
        save_or_keep(model, output, overwrite=overwrite, told=told)
    note_repairs(source, *([] if tune is None else [tune]))
    note_mix(source)
    _tell(model, output, began, json=json)


def _train_counts(
    counts: tuple[str, ...],
    config: NGramConfig,
    output: Path,
    tokenizer: TokenizerOptions,
    *,
    overwrite: bool,
    json: bool,
    tune: Source | None,
    compact: bool,
) -> None:
    from chainrule.api.counts import train_counts
    from chainrule.base.files import describe_duplicate

    if twice := describe_duplicate(counts):
        raise CycloptsError(msg=f"--counts names {twice}; its counts would be doubled.")
    check_model_target(output, overwrite=overwrite, compact=compact)
    began = time.perf_counter()
    chosen = None if tokenizer == DEFAULT_TOKENIZER else tokenizer.config()
    with progress() as told:
        model = train_counts(counts, config, tokenizer=chosen, progress=told, tune=tune)
        if compact:
            model = model.compact(told)
        save_or_keep(model, output, overwrite=overwrite, told=told)
    if chosen is None:
        name = model.tokenizer.name
        marks = "no marks of a tokenizer" if name == "whitespace" else "its marks"
        note(f"text will be cut by the {name} tokenizer: the counted words have {marks}, and none was said")
    _tell(model, output, began, json=json)


def _tell(model: Model, output: Path, began: float, *, json: bool) -> None:
    from chainrule.base.memory import peak_memory

    summary = {
        "model": str(output),
        "vocabulary": model.vocabulary_size,
        "bytes": sum(path.stat().st_size for path in (output.iterdir() if output.is_dir() else [output])),
        "total_seconds": time.perf_counter() - began,
        "peak_memory_bytes": peak_memory(),
    }
    if json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    unknown = record["unknown_tokens"]
    share = f", {unknown / record['tokens']:.2%} of the tokens unknown" if unknown else ""
    print(
        f"{summary['model']}: {record['family']} model of {record['tokens']:,} tokens "
        f"in {record['documents']:,} document{'s' * (record['documents'] != 1)}, "
        f"vocabulary {summary['vocabulary']:,}{share}"
    )
    if "discounts" in record:
        print(estimates_table(record))
        _note_fallback([discounts for discounts in record["discounts"] if not discounts["estimated"]])
    if tuned := tuned_line(record):
        print(tuned)
    if record.get("settings", {}).get("smoothing") == "stupid-backoff":
        note("stupid-backoff scores do not sum to one: no perplexity, and nothing to predict or draw from")
    memory = summary["peak_memory_bytes"]
    told_memory = f", {memory / 1e9:.2f} GB of memory at most" if memory else ""
    print(f"{summary['bytes'] / 1e6:,.1f} MB, {summary['total_seconds']:.1f} s{told_memory}")


def _note_fallback(discounts: list[dict[str, Any]]) -> None:
    """One line for all orders: on a tiny text there are many."""
    if discounts:
        first, *others = discounts
        orders = ", ".join(str(other["order"]) for other in others)
        likewise = f"; likewise order{'s' * (len(others) > 1)} {orders}" if others else ""
        note(f"{first['problem']}; took {tuple(first['values'])} instead{likewise}")
