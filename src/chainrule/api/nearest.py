"""The words of a text, each in its sentence, whose vectors are most like a given one's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chainrule.api.model import check_model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.word_vectors import WordVectors
from chainrule.applications.embedding import nearest as nearest_units
from chainrule.applications.embedding import vector_of_marked
from chainrule.applications.embedding_config import EmbeddingConfig, Pooling
from chainrule.errors import SettingError
from chainrule.text.corpus import source_of

if TYPE_CHECKING:
    from chainrule.api.model import Model
    from chainrule.text.corpus import Paths, Source


class Neighbour(NamedTuple):
    """A word in its text, which is as normalised. start: its first character. cosine: of its vector and the given."""

    cosine: float
    word: str
    text: str
    start: int


@shows_progress
def nearest(
    model: Model | WordVectors,
    sentence: str,
    source: Source | Paths | None = None,
    *,
    top: int = 10,
    layer: int | None = None,
    pooling: Pooling | None = None,
    restrict: int | None = None,
    progress: ProgressOption = None,
) -> list[Neighbour]:
    """The words of a text that are most like the one in brackets, by the cosine of their vectors, best first.

    model: a network. sentence: with one word in brackets. source: without it, the tokens of the vocabulary are compared
    by their vectors alone, whatever stands around the given one. layer, pooling: as `EmbeddingConfig` has them.
    Or model: word vectors, and sentence a word alone; restrict: to so many of the most frequent words.
    Raises SettingError; TextError where the text cannot be read.

    good:  chainrule.nearest(model, "the [bank] of the river", "corpus.txt", top=5)
    good:  chainrule.nearest(chainrule.load_vectors("words/"), "bank", top=5)
    """
    if isinstance(model, WordVectors):
        if (source, layer, pooling) != (None, None, None):
            raise SettingError("word vectors know no text, layer or pooling; leave them out")
        similar = model.nearest(sentence, top=top, restrict=restrict)
        return [Neighbour(cosine, word, word, 0) for word, cosine in similar]
    if restrict is not None:
        raise SettingError("restrict is for word vectors")
    check_model(model)
    if top < 1:
        raise SettingError(f"top is {top}; expected 1 or more")
    if source is None and layer is not None:
        raise SettingError("a layer is for the words of a text; give a text, or leave the layer out")
    config = EmbeddingConfig(unit="word", layer=0 if source is None else layer, pooling=pooling)
    wanted = vector_of_marked(model.embed_units, sentence, config)
    if source is None:
        among = model.embed_vocabulary()
    else:
        among = model.embed_blocks(source_of(source).blocks(callback(progress), "embedding"), config)
    return [
        Neighbour(cosine, text[start:stop], text, start)
        for cosine, text, (start, stop) in nearest_units(among, wanted, top)
    ]
