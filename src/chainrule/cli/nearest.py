"""chainrule nearest MODEL "a [word] in its sentence" [TEXT]: finds words with similar vectors."""

from __future__ import annotations

from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, TextFile, WholeNumber
from chainrule.cli.embed import Layer, NetworkPath, Pool
from chainrule.cli.models import open_model
from chainrule.cli.screen import on_one_line, print_json, progress_bar
from chainrule.cli.texts import DEFAULT_READING, TextOptions, note_repairs


def nearest_words(
    model: NetworkPath,
    sentence: Annotated[str, Parameter(help="A sentence with one word in brackets: the [bank] of the river.")],
    text: TextFile | None = None,
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many words to show, nearest first.")] = 10,
    layer: Layer = None,
    pooling: Pool = "mean",
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    json: Json = False,
) -> None:
    """Find the words of a text, each in its sentence, that are most like a given one.

        $ chainrule nearest masked/ "the [bank] of the river" heldout.txt

    Without a text, compares with the tokens of the vocabulary, by their
    vectors without context.

    Columns: the cosine of the vectors; the text, with the word in brackets.
    """
    from chainrule.api.nearest import nearest

    if text is None and (layer is not None or reading != DEFAULT_READING):
        raise CycloptsError(msg="--layer, and the options that say how to read texts, need a TEXT, which is missing.")
    source = None if text is None else reading.corpus(text)
    with progress_bar() as progress:
        network = open_model(model, None, markers, progress)
        neighbours = nearest(network, sentence, source, top=top, layer=layer, pooling=pooling, progress=progress)
    if source is not None:
        note_repairs(source)
    for neighbour in neighbours:
        if json:
            print_json(neighbour._asdict())
        else:
            before, after = neighbour.text[: neighbour.start], neighbour.text[neighbour.start + len(neighbour.word) :]
            print(f"{neighbour.cosine:.4f}\t{on_one_line(f'{before}[{neighbour.word}]{after}')}")
