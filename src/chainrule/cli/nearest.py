"""chainrule nearest MODEL "a [word] in its sentence" [TEXT]: what has a like vector."""

from __future__ import annotations

from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, TextFile, WholeNumber
from chainrule.cli.embed import Layer, NetworkPath, Pool
from chainrule.cli.models import opened
from chainrule.cli.screen import on_one_line, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs


def nearest_words(
    model: NetworkPath,
    sentence: Annotated[str, Parameter(help="With one word in brackets: the [bank] of the river.")],
    text: TextFile | None = None,
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many are shown, the nearest first.")] = 10,
    layer: Layer = None,
    pooling: Pool = "mean",
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """The words of a text, each in its sentence, that are most like a given one.

    Without a text: the tokens of the vocabulary, by their vectors alone,
    whatever stands around the given one.

    Columns: the cosine of the vectors; the text, with the word in brackets.
    """
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
