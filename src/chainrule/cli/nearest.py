"""chainrule nearest MODEL "a [word] in its sentence" [TEXT], or nearest VECTORS WORD: what has a like vector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, TextFile, WholeNumber
from chainrule.cli.embed import Layer, Pool
from chainrule.cli.models import opened
from chainrule.cli.screen import on_one_line, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs

VectorsPath = Annotated[
    Path, Parameter(help="A folder of word vectors, or a file of word2vec, of GloVe, or a .bin of fastText.")
]
Restrict = Annotated[
    int | None, WholeNumber, Parameter(help="Only so many of the most frequent words are compared: by default all.")
]


def nearest_words(
    model: Annotated[
        Path, Parameter(help="The model folder of a network; or word vectors, a folder or a file of them.")
    ],
    sentence: Annotated[
        str, Parameter(help="With one word in brackets: the [bank] of the river; for word vectors, the word alone.")
    ],
    text: TextFile | None = None,
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many are shown, the nearest first.")] = 10,
    layer: Layer = None,
    pooling: Pool = "mean",
    restrict: Restrict = None,
    contexts: Annotated[
        bool,
        Parameter(negative=(), help="Of skip-gram: the likeliest contexts, by P(context | word), not similar words."),
    ] = False,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """The words that are most like a given one: in a text, or of word vectors.

    Of a network: the words of a text, each in its sentence. Without a text:
    the tokens of the vocabulary, by their vectors alone, whatever stands around
    the given one.

    Columns: the cosine of the vectors, or a probability; the text, with the
    word in brackets, or the word alone.
    """
    from chainrule.api.word_vectors import is_vectors_folder

    if model.is_file() or is_vectors_folder(model):
        if text is not None or layer is not None or pooling != "mean" or reading != AS_USUAL or markers is not None:
            raise CycloptsError(msg="Of word vectors, only --top, --restrict, --contexts and --json can be said.")
        _print_similar(model, sentence, top, restrict, contexts=contexts, json=json)
        return
    if restrict is not None or contexts:
        raise CycloptsError(msg="--restrict and --contexts are for word vectors.")
    from chainrule.api.nearest import nearest

    if text is None and (layer is not None or reading != AS_USUAL):
        raise CycloptsError(msg="--layer, and how texts are read, are for the words of a TEXT, which is missing.")
    source = None if text is None else reading.corpus(text)
    with progress() as told:
        network = opened(model, None, markers, told)
        found = nearest(network, sentence, source, top=top, layer=layer, pooling=pooling, progress=told)
    if source is not None:
        note_repairs(source)
    for each in found:
        if json:
            print_json(each._asdict())
        else:
            before, after = each.text[: each.start], each.text[each.start + len(each.word) :]
            print(f"{each.cosine:.4f}\t{on_one_line(f'{before}[{each.word}]{after}')}")


def _print_similar(path: Path, word: str, top: int, restrict: int | None, *, contexts: bool, json: bool) -> None:
    from chainrule.api.word_vectors import load_vectors

    with progress() as told:
        vectors = load_vectors(path, progress=told)
    likeliest = vectors.likeliest_contexts(word, top=top) if contexts else None
    for similar, score in likeliest or vectors.nearest(word, top=top, restrict=restrict):
        if json:
            print_json({"word": similar, "probability" if contexts else "cosine": score})
        else:
            print(f"{score:.4f}\t{on_one_line(similar)}")
