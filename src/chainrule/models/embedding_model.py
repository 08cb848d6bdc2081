"""EmbeddingModel: gives vectors of texts, of parts of texts, and of the tokens of its vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from chainrule.base.arguments import as_texts
from chainrule.decoding.options import EmbeddingConfig, Pooling, VectorPrecision
from chainrule.errors import SettingError
from chainrule.models.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.models.embedding import Embedded
    from chainrule.protocol import Embedder
    from chainrule.text.corpus.block import Block

_BATCH = 1 << 10  # texts
_BATCH_BYTES = 1 << 16  # of texts, which are sorted by length


class EmbeddingModel(Model):
    """A network that gives vectors. A text encoder does nothing else."""

    capability: ClassVar[str] = "gives vectors, as networks do"

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        precision: VectorPrecision = "float32",
        prompt: str | None = None,
        prompt_name: str | None = None,
        dimensions: int | None = None,
    ) -> Float32[ndarray, "texts D"]:
        """Return a vector for each text, from a network; options as in `EmbeddingConfig`. Raises SettingError."""
        config = EmbeddingConfig(
            layer=layer,
            pooling=pooling,
            precision=precision,
            prompt=prompt,
            prompt_name=prompt_name,
            dimensions=dimensions,
        )
        texts = as_texts(texts)
        if not texts:
            [empty] = self.embed_units([""], config)
            return empty.vectors[:0]
        return np.concatenate([text.vectors for text in self.embed_units(texts, config)])

    def embed_units(self, texts: Iterable[str], config: EmbeddingConfig | None = None) -> list[Embedded]:
        """Return, for each text, the vectors of its words, or of the units that the configuration names.

        Raises SettingError.

        good:  [text] = model.embed_units(["the bank of the river"]); text.units, text.vectors
        """
        from chainrule.models.embedding import embed

        config, texts = config or EmbeddingConfig(unit="word"), as_texts(texts)
        prompt = self._prompt(config)
        batches = (texts[first : first + _BATCH] for first in range(0, len(texts), _BATCH))
        encoded = (self.tokenizer.encode_texts([prompt + text for text in batch]) for batch in batches)
        return [text for batch in encoded for text in embed(self.embedder, self.tokenizer, batch, config, prompt)]

    def embed_blocks(self, blocks: Iterable[Block], config: EmbeddingConfig) -> Iterator[Embedded]:
        """Yield the vectors of `embed_units`, lazily, for the documents of some blocks.

        Raises SettingError, MarkerError.
        """
        from chainrule.models.embedding import embed

        prompt = self._prompt(config)
        for piece in (piece for block in blocks for piece in block.pieces(_BATCH_BYTES)):
            encoded = self.tokenizer.encode_block(piece.after(prompt) if prompt else piece)
            yield from embed(self.embedder, self.tokenizer, encoded, config, prompt)

    def _prompt(self, config: EmbeddingConfig) -> str:
        """Return what is put before each text: the prompt that is asked for, or the model's own. Raises SettingError.

        Words and tokens, and other poolings than the model's own, have none.
        """
        if config.unit != "text" or config.pooling is not None:
            return ""
        if config.prompt is not None:
            return config.prompt
        prompts: dict[str, str] = self.record.get("prompts", {})
        name = self.record.get("prompt_name") if config.prompt_name is None else config.prompt_name
        if name is None:
            return ""
        if name not in prompts:
            known = f"expected one of {', '.join(prompts)}" if prompts else "its files name no prompts; give its text"
            raise SettingError(f"prompt_name is {name!r}, which this model does not have; {known}")
        return prompts[name]

    def embed_vocabulary(self) -> Iterator[Embedded]:
        """Yield the tokens of the vocabulary, each as a separate text, with their vectors in no context; as
        `embed_units`.
        """
        from chainrule.models.embedding import Embedded

        vectors = self.embedder.static_vectors()
        for i, token in enumerate(self.tokenizer.vocabulary.tokens()):
            text = token.decode("utf-8", "replace")
            yield Embedded(text, [(0, len(text))], vectors[i : i + 1])

    @property
    def embedder(self) -> Embedder:
        """The engine as an Embedder. Raises ModelFormatError as `engine`."""
        return cast("Embedder", self.engine)
