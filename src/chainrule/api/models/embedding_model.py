"""Models that give vectors of texts, of their words and of their vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from chainrule.api.models.embed import embed_blocks, embed_texts, embed_vocabulary, embed_whole_texts
from chainrule.api.models.model import Model
from chainrule.applications.config import EmbeddingConfig, Pooling, VectorPrecision
from chainrule.base.arguments import as_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.applications.embedding import Embedded
    from chainrule.protocol import Embedder
    from chainrule.text.corpus.block import Block


class EmbeddingModel(Model):
    """A network that gives vectors. A text encoder does nothing else."""

    wanted: ClassVar[str] = "gives vectors, as networks do"

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        precision: VectorPrecision = "float32",
    ) -> Float32[ndarray, "texts D"]:
        """A vector for each text, from a network; options as in `EmbeddingConfig`. Raises SettingError."""
        config = EmbeddingConfig(layer=layer, pooling=pooling, precision=precision)
        return embed_whole_texts(self.embedder, self.tokenizer, as_texts(texts), config)

    def embed_units(self, texts: Iterable[str], config: EmbeddingConfig | None = None) -> list[Embedded]:
        """The vectors of each text's words, or of what the configuration says, by text. Raises SettingError.

        good:  [text] = model.embed_units(["the bank of the river"]); text.units, text.vectors
        """
        config, texts = config or EmbeddingConfig(unit="word"), as_texts(texts)
        return embed_texts(self.embedder, self.tokenizer, texts, config)

    def embed_blocks(self, blocks: Iterable[Block], config: EmbeddingConfig) -> Iterator[Embedded]:
        """As `embed_units`, of the documents of blocks as they come. Raises SettingError, MarkerError."""
        yield from embed_blocks(self.embedder, self.tokenizer, blocks, config)

    def embed_vocabulary(self) -> Iterator[Embedded]:
        """The tokens of the vocabulary, each a text of its own, with their vectors in no context; as `embed_units`."""
        yield from embed_vocabulary(self.embedder, self.tokenizer)

    @property
    def embedder(self) -> Embedder:
        """The engine as an Embedder. Raises ModelFormatError as `engine`."""
        return cast("Embedder", self.engine)
