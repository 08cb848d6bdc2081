"""chainrule train FAMILY: text in, a model folder out, a summary on screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    MarkerRule,
    ModelOutput,
    Output,
    Overwrite,
    TextFiles,
    TokenizerOptions,
    WholeNumber,
)
from chainrule.cli.models import check_model_target
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.texts import AS_USUAL, NOT_MIXED, MixOptions, TextOptions, note_mix, note_repairs
from chainrule.ngram.config import NGramConfig
from chainrule.report.tables import text_table

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance

    from chainrule.text.corpus import Source


def ngram(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: ModelOutput,
    order: Annotated[int, WholeNumber, Parameter(help="Contexts are order - 1 tokens long.")] = 5,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    prune: Annotated[
        tuple[int, ...],
        WholeNumber,
        Parameter(
            help="Drop n-grams seen at most this often, by order from unigrams (0) on; the last number repeats: 0 0 1. "
            "Texts stand before it.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (0,),
    interpolate_unigrams: Annotated[
        bool, Parameter(help="Let all unigrams share in the uniform distribution, not <unk> alone.")
    ] = True,
    strict_discounts: Annotated[
        bool, Parameter(negative=(), help="Fail where discounts cannot be estimated, and do not fall back.")
    ] = False,
    kenlm_compatible: Annotated[
        bool, Parameter(negative=(), help="Repeat a slip of lmplz that shows only on tiny texts.")
    ] = False,
    markers: MarkerRule = "error",
    reading: TextOptions = AS_USUAL,
    mixing: MixOptions = NOT_MIXED,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """An n-gram model, modified Kneser-Ney smoothing.

    Interpolated, as KenLM's lmplz.
    """
    config = NGramConfig(
        order=order,
        prune=tuple(prune),
        interpolate_unigrams=interpolate_unigrams,
        strict_discounts=strict_discounts,
        kenlm_compatible=kenlm_compatible,
    )
    _train(mixing.source(texts, reading), config, output, tokenizer, markers, overwrite=overwrite, json=json)


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
) -> None:
    from chainrule.trained import peak_memory, train

    check_model_target(output, overwrite=overwrite)
    began = time.perf_counter()
    with progress() as told:
        model = train(source, config, tokenizer=tokenizer.config(), markers=markers, progress=told)
        model.save(output, overwrite=overwrite, progress=told)
    note_repairs(source)
    note_mix(source)
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
        f"in {record['documents']:,} documents, vocabulary {summary['vocabulary']:,}{share}"
    )
    if "discounts" in record:
        rows = []
        for size, discounts in zip(record["ngrams"], record["discounts"], strict=True):
            values = [f"{value:.4f}" for value in discounts["values"]]
            rows.append([str(discounts["order"]), f"{size:,}", *values, "" if discounts["estimated"] else "fallback"])
        print(text_table(["order", "n-grams", "D1", "D2", "D3+", ""], rows))
        _note_fallback([discounts for discounts in record["discounts"] if not discounts["estimated"]])
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
