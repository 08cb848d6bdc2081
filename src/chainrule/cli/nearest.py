"""chainrule nearest MODEL "a [word] in its sentence" [TEXT]: what has a like vector."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, TextFile, WholeNumber
from chainrule.cli.embed import Layer, NetworkPath, Pool
from chainrule.cli.models import opened
from chainrule.cli.screen import on_one_line, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs
from chainrule.embedding_config import EmbeddingConfig
from chainrule.errors import SettingError


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
    from chainrule.embedding import nearest, vector_of_marked

    if top < 1:
        raise SettingError(f"top is {top}; expected 1 or more")
    if text is None and (layer is not None or reading != AS_USUAL):
        raise CycloptsError(msg="--layer, and how texts are read, are for the words of a TEXT, which is missing.")
    source = None if text is None else reading.corpus(text)
    with progress() as told:
        network = opened(model, None, markers, told)
        config = EmbeddingConfig(unit="word", layer=0 if source is None else layer, pooling=pooling)
        wanted = vector_of_marked(network, sentence, config)
        among = (
            network.embed_vocabulary()
            if source is None
            else network.embed_blocks(source.blocks(told, "embedding"), config)
        )
        found = nearest(among, wanted, top)
    if source is not None:
        note_repairs(source)
    for cosine, where, (start, stop) in found:
        if json:
            record: dict[str, Any] = {"cosine": cosine, "word": where[start:stop], "text": where, "start": start}
            print_json(record)
        else:
            print(f"{cosine:.4f}\t{on_one_line(f'{where[:start]}[{where[start:stop]}]{where[stop:]}')}")
