"""The verbs on word vectors: nearest, analogy, odd, map.

`nearest` also takes a language model and a marked word: chainrule nearest MODEL "a [word] in its sentence" [TEXT].
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import Shown, row
from chainrule.base.tables import on_one_line
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    ModelMarkerRule,
    Overwrite,
    TextFile,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, note_repairs
from chainrule.features.vectors.options import NearestOptions
from chainrule.features.vectors.shell_evaluate import open_vectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VectorsPath = Annotated[Path, Parameter(help="Word vectors: a folder, or a file of word2vec, GloVe or fastText.")]
Restrict = Annotated[
    int | None, WholeNumber, Parameter(help="Compare only this many of the most frequent words; by default all.")
]


def nearest_words(
    model: Annotated[Path, Parameter(help="The model folder of a network; or word vectors, a folder or a file.")],
    sentence: Annotated[
        str,
        Parameter(help="A sentence with one word in brackets: the [bank] of the river; or, for word vectors, a word."),
    ],
    text: TextFile | None = None,
    /,
    *,
    options: Flags[NearestOptions] = NO_FLAGS,
    contexts: Annotated[
        bool,
        Parameter(negative=(), help="List the likeliest contexts by P(context | word), of skip-gram vectors."),
    ] = False,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Find the words most similar to a word, in the sentences of a text or among word vectors.

        $ chainrule nearest masked/ "the [bank] of the river" heldout.txt
        $ chainrule nearest words/ king

    Without a text, compares with the tokens of the vocabulary, by their
    vectors without context.

    Columns: the cosine of the vectors; the text, with the word in brackets, or
    the word.
    """
    from chainrule.features.vectors.model import WordVectors
    from chainrule.models.files.recognition import model_class_at
    from chainrule.storage.sources import local_path

    given = given_settings(options)
    if local_path(model).is_file() or model_class_at(model) is WordVectors:
        if text is not None or {"layer", "pooling"} & given.keys() or reading != DEFAULT_READING or markers is not None:
            raise CycloptsError(msg="Word vectors take only --top, --restrict, --contexts, --json and --output.")
        if contexts and "restrict" in given:
            raise CycloptsError(msg="--restrict does not go with --contexts.")
        show.check()
        with progress_bar() as progress:
            vectors = open_vectors(model, progress)
        config = NearestOptions(**given)
        if contexts:
            show.show_all(_ranked(vectors.likeliest_contexts(sentence, top=config.top), "probability"))
        else:
            show.show_all(_ranked(vectors.nearest(sentence, top=config.top, restrict=config.restrict), "cosine"))
        return
    if "restrict" in given or contexts:
        raise CycloptsError(msg="--restrict and --contexts are for word vectors.")
    from chainrule.features.vectors.nearest import nearest

    if text is None and ("layer" in given or reading != DEFAULT_READING):
        raise CycloptsError(msg="--layer, and the options that say how to read texts, need a TEXT, which is missing.")
    source = None if text is None else reading.corpus(text)
    show.check(*(source.paths if source is not None else ()))
    with progress_bar() as progress:
        network = open_model(model, None, markers, progress)
        neighbours = nearest(network, sentence, source, progress=progress, **given)
    if source is not None:
        note_repairs(source)
    show.show_all(row(neighbour.line, neighbour._asdict()) for neighbour in neighbours)


def _ranked(words: Iterable[tuple[str, float]], figure: str = "score") -> Iterator[Shown]:
    """Return words with a figure, best first."""
    return (row(f"{value:.4f}\t{on_one_line(word)}", {"word": word, figure: value}) for word, value in words)


Word = Annotated[str, Parameter(help="One word of the vocabulary.")]


def analogy(
    vectors: VectorsPath,
    a: Word,
    b: Word,
    c: Word,
    /,
    *,
    rule: Annotated[
        Literal["add", "multiply"],
        Parameter(help="add: 3CosAdd, b - a + c; multiply: 3CosMul (Levy and Goldberg 2014)."),
    ] = "add",
    top: Annotated[int, WholeNumber, Parameter(help="How many words to show, best first.")] = 10,
    restrict: Restrict = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Solve a word analogy with word vectors: A is to B as C is to what?

        $ chainrule analogy words/ man king woman

    The three words themselves are never an answer.

    Columns: the score of the rule; the word.
    """
    show.check()
    with progress_bar() as progress:
        ranked = open_vectors(vectors, progress).analogy(a, b, c, rule=rule, top=top, restrict=restrict)
    show.show_all(_ranked(ranked))


def odd(
    vectors: VectorsPath,
    /,
    *words: Annotated[str, Parameter(help="Three words or more, one of which does not belong.")],
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Find the word that does not belong with the others, by word vectors.

        $ chainrule odd words/ breakfast lunch table dinner

    Columns: the cosine with the mean of all; the word. The odd one comes first.
    """
    show.check()
    with progress_bar() as progress:
        ranked = open_vectors(vectors, progress).odd(words)
    show.show_all(_ranked(ranked))


def draw_map(
    vectors: VectorsPath,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The page to write: a name that ends in .html.")],
    words: Annotated[int, WholeNumber, Parameter(help="How many words to draw, the most frequent.")] = 1000,
    method: Annotated[
        Literal["pca", "tsne"],
        Parameter(help="pca: the directions of most variance; tsne: keeps neighbours close, by scikit-learn."),
    ] = "pca",
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of t-SNE.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Draw a searchable two-dimensional map of word vectors, as a page.

        $ chainrule map words/ -o map.html

    The page needs no network and no other file.
    """
    from chainrule.features.vectors.map import map_vectors

    if output.suffix.lower() != ".html":
        raise CycloptsError(msg=f"--output {output}: its name must end in .html.")
    with progress_bar() as progress:
        loaded = open_vectors(vectors, progress)
        shown = map_vectors(
            loaded, output, words=words, method=method, seed=seed, overwrite=overwrite, progress=progress
        )
    print(f"{output}: {shown:,} words")
