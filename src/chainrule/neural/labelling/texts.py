"""The body of networks that label texts or their words: vectors of tokens, layers, one vector a unit.

Legend: B batch, T time, E width of the vectors of tokens, D width, U units of all texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.arguments import check_tokens
from chainrule.neural.dropout import dropped
from chainrule.neural.layers import Embedding
from chainrule.neural.scoring_batches import padded
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int64

    from chainrule.neural.config.labelling import Pooling
    from chainrule.neural.config.labelling_base import WordsConfig
    from chainrule.text.units import UnitTokens


class TokenLayers(Protocol):
    """A torch module from the vectors of tokens to hidden vectors. A row's do not depend on its padding."""

    width: int
    is_bidirectional: bool  # whether the second half of a vector is of layers that read from the right

    def __call__(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T width"]:
        """x: padded on the right."""


class TextBody(nn.Module):
    """Vectors of tokens, layers, pooling, and layers on what is pooled."""

    def __init__(
        self,
        config: WordsConfig,
        vocabulary_size: int,
        unit: str,
        layers: TokenLayers,
        pooling: Pooling,
        after: nn.Module | None = None,
        width: int | None = None,
    ) -> None:
        """unit: text or word. pooling: of a text; a word's vector is the mean of its tokens'. after: layers on the
        vectors of units, width wide.
        """
        super().__init__()
        self.vectors = word_vectors(vocabulary_size, config.embedding_width, config.token_dropout)
        self.layers, self.after = layers, nn.Identity() if after is None else after
        self.width = layers.width if width is None else width
        self.unit, self.pooling, self.dropout = unit, pooling, config.dropout

    @property
    def embedding(self) -> nn.Parameter:
        return self.vectors.weight

    def forward(self, inputs: Sequence[UnitTokens]) -> Float[Tensor, "U width"]:
        """As `Body`."""
        device = self.embedding.device
        rows = [item.tokens if len(item.tokens) else np.array([END]) for item in inputs]
        tokens = torch.from_numpy(padded(rows, END)).to(device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        x = dropped(self.vectors(tokens), self.dropout, self.training)
        hidden = self.layers(x, lengths)
        pool = _of_words if self.unit == "word" else self._of_texts
        return cast("Tensor", self.after(pool(hidden, lengths, inputs)))

    def _of_texts(self, hidden: Tensor, lengths: Tensor, inputs: Sequence[UnitTokens]) -> Float[Tensor, "B width"]:
        inside = (torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None])[..., None]
        if self.pooling == "mean":
            return (hidden * inside).sum(1) / lengths[:, None]
        if self.pooling == "max":
            return hidden.masked_fill(~inside, -torch.inf).amax(1)
        last = hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
        if not self.layers.is_bidirectional:
            return last
        half = hidden.shape[2] // 2
        return torch.cat((last[:, :half], hidden[:, 0, half:]), 1)

    def check(self, item: UnitTokens) -> None:
        """Raises SettingError where an id is outside the vocabulary."""
        check_tokens(item.tokens, len(self.embedding))

    def size(self, item: UnitTokens) -> int:
        """The number of its tokens, at least 1."""
        return max(1, len(item.tokens))

    def units(self, item: UnitTokens) -> int:
        """The number of its words; 1 for a whole text."""
        return item.number


def word_vectors(vocabulary_size: int, width: int, token_dropout: float = 0.0) -> Embedding:
    """Vectors of tokens, drawn with a deviation of 0.05 as in the papers; that of <unk>, which training may never see,
    is 0.
    """
    vectors = Embedding(vocabulary_size, width, token_dropout=token_dropout)
    nn.init.normal_(vectors.weight, std=0.05)
    with torch.no_grad():
        vectors.weight[UNKNOWN] = 0
    return vectors


def _of_words(hidden: Tensor, lengths: Tensor, inputs: Sequence[UnitTokens]) -> Float[Tensor, "U width"]:
    """The mean of each word's tokens; 0 for a word without any."""
    firsts = np.cumsum([0, *(item.number for item in inputs)])
    owners = padded(
        [np.where(item.of_tokens < 0, -1, first + item.of_tokens) for first, item in zip(firsts, inputs, strict=False)],
        -1,
        length=hidden.shape[1],
    ).ravel()
    positions = np.flatnonzero(owners >= 0)
    units, tokens = (torch.from_numpy(array).to(hidden.device) for array in (owners[positions], positions))
    sums = hidden.new_zeros(int(firsts[-1]), hidden.shape[2]).index_add_(0, units, hidden.flatten(0, 1)[tokens])
    counts = torch.bincount(units, minlength=len(sums)).clamp(min=1)
    return sums / counts[:, None]
