"""What `chainrule evaluate` does with word vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import WholeNumber
from chainrule.cli.screen import note, print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.api.evaluate_vectors import VectorsMeasurement


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VectorsOptions:
    """What word vectors are measured on."""

    similarity: Annotated[
        str | None,
        Parameter(help="Pairs of words with ratings, such as WS-353: a file of lines, or a folder of such files."),
    ] = None
    analogies: Annotated[
        str | None, Parameter(help="Questions of four words a line, in sections, as word2vec's questions-words.txt.")
    ] = None
    restrict: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Ask and answer analogies among this many of the most frequent words; by default all."),
    ] = None
    rule: Annotated[
        Literal["add", "multiply"],
        Parameter(help="How analogies are answered: add, 3CosAdd; multiply, 3CosMul (Levy and Goldberg 2014)."),
    ] = "add"
    unknown: Annotated[
        Literal["skip", "zero"],
        Parameter(help="Pairs with an unknown word: skip leaves them out; zero takes their cosine for 0."),
    ] = "skip"


NO_VECTORS = VectorsOptions()


def evaluate_vectors(model: Path, options: VectorsOptions, *, json: bool) -> None:
    """Measures word vectors and prints the result.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    from chainrule.api.evaluate_vectors import evaluate_vectors as measure
    from chainrule.api.word_vectors import load_vectors

    if options.similarity is None and options.analogies is None:
        raise CycloptsError(msg="--restrict, --rule and --unknown go with --similarity or --analogies.")
    with progress_bar() as progress:
        measurement = measure(
            load_vectors(model, progress=progress),
            similarity=options.similarity,
            analogies=options.analogies,
            restrict=options.restrict,
            rule=options.rule,
            unknown=options.unknown,
            progress=progress,
        )
    if json:
        print_json(measurement.to_dict())
    else:
        _print(measurement)


def _print(measurement: VectorsMeasurement) -> None:
    from chainrule.report.tables import text_table

    if measurement.similarity:
        rows = [
            [
                one.name,
                f"{one.pairs:,} of {one.of:,}",
                *(_number(one.spearman), _interval(one.spearman_interval)),
                *(_number(one.pearson), _interval(one.pearson_interval)),
            ]
            for one in measurement.similarity
        ]
        print(text_table(["", "pairs", "Spearman", "95 %", "Pearson", "95 %"], rows))
        if measurement.by_ngrams:
            note(f"{measurement.by_ngrams:,} unknown words got their vectors from their character n-grams")
    if measurement.similarity and measurement.analogies:
        print()
    if measurement.analogies:
        rows = [
            [one.section, f"{one.questions:,} of {one.of:,}", f"{one.share:.1%}" if one.questions else ""]
            for one in measurement.analogies
        ]
        print(text_table(["", "questions", "right"], rows))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _interval(bounds: tuple[float, float]) -> str:
    return "" if math.isnan(bounds[0]) else f"{bounds[0]:.2f}-{bounds[1]:.2f}"
