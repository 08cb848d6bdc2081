"""Finds the words of a text whose vectors are nearest to that of a given word in its sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chainrule.base.options import takes
from chainrule.base.tables import on_one_line
from chainrule.decoding.options import EmbeddingConfig
from chainrule.errors import SettingError
from chainrule.features.vectors.model import WordVectors
from chainrule.features.vectors.options import NearestOptions
from chainrule.features.vectors.unit_vectors import nearest as nearest_units
from chainrule.features.vectors.unit_vectors import vector_of_marked
from chainrule.models.any_model import check_kind, check_model
from chainrule.models.embedding_model import EmbeddingModel
from chainrule.models.progress_line import showing
from chainrule.text.corpus.corpus import source_of

if TYPE_CHECKING:
    from chainrule.models.model import Model


class Neighbour(NamedTuple):
    """A word in its normalised text. start: the position of its first character. cosine: similarity to the query."""

    cosine: float
    word: str
    text: str
    start: int

    @property
    def line(self) -> str:
        """The cosine, and the text with the word in brackets."""
        before, after = self.text[: self.start], self.text[self.start + len(self.word) :]
        return f"{self.cosine:.4f}\t{on_one_line(f'{before}[{self.word}]{after}')}"


@takes(NearestOptions)
def nearest(model: Model | WordVectors, sentence: str, options: NearestOptions) -> list[Neighbour]:
    """Return the words of a text nearest to the one in brackets, by the cosine of their vectors, best first.

    model: a network, and sentence: with one word in brackets; or word vectors, and a single word. The options are those
    of `NearestOptions`. Without a source, the tokens of the vocabulary are compared, by their vectors without context.
    Raises SettingError; TextError if the text cannot be read.

    good:  chainrule.nearest(model, "the [bank] of the river", "corpus.txt", top=5)
    good:  chainrule.nearest(chainrule.load_vectors("words/"), "bank", top=5)
    """
    source, layer, pooling = options.source, options.layer, options.pooling
    if isinstance(model, WordVectors):
        if (source, layer, pooling) != (None, None, None):
            raise SettingError("word vectors take no source, layer or pooling; leave them out")
        similar = model.nearest(sentence, top=options.top, restrict=options.restrict)
        return [Neighbour(cosine, word, word, 0) for word, cosine in similar]
    if options.restrict is not None:
        raise SettingError("restrict is for word vectors; leave it out")
    check_model(model)
    network = check_kind(model, EmbeddingModel)
    if source is None and layer is not None:
        raise SettingError("layer is for the words of a text; give a source, or leave layer out")
    config = EmbeddingConfig(unit="word", layer=0 if source is None else layer, pooling=pooling)
    query = vector_of_marked(network.embed_units, sentence, config)
    with showing(options.progress) as progress:
        if source is None:
            candidates = network.embed_vocabulary()
        else:
            candidates = network.embed_blocks(source_of(source).blocks(progress, "embedding"), config)
        return [
            Neighbour(cosine, text[start:stop], text, start)
            for cosine, text, (start, stop) in nearest_units(candidates, query, options.top)
        ]
