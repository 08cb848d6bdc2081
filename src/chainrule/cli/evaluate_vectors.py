"""What `chainrule evaluate` does with word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import WholeNumber
from chainrule.cli.shared.screen import note, print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path


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


def holds_vectors(model: Path) -> bool:
    """Whether this is a folder of word vectors, or a file whose name says that it has them."""
    from chainrule.api.vectors.word_vectors import is_vectors_folder

    return is_vectors_folder(model) if model.is_dir() else model.name.endswith((".vec", ".vec.gz"))


def evaluate_vectors(model: Path, options: VectorsOptions, *, json: bool) -> None:
    """Measures word vectors and prints the result.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    from chainrule.api.vectors.evaluate import evaluate_vectors as measure
    from chainrule.api.vectors.word_vectors import load_vectors

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
        print_json(measurement.as_json())
        return
    print(measurement)
    if measurement.by_ngrams:
        note(f"{measurement.by_ngrams:,} unknown words got their vectors from their character n-grams")
