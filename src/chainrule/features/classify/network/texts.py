"""Networks that label texts, their words, or pairs: token vectors, layers, and one vector for each unit.

Layers are none, recurrent ones, convolutions or a Transformer. For pairs, one body reads both sides, and a layer
compares their vectors.
Legend: B batch, T time, E width of token vectors, D width, U units of all texts, P pairs, C width of the comparison.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.arguments import check_tokens
from chainrule.neural.config import MaskedConfig
from chainrule.neural.encoders.recurrent import set_biases
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.layers.basic import Embedding, drop, layer_stack
from chainrule.neural.network import padding_starts
from chainrule.neural.scoring import pad
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int64

    from chainrule.features.classify.network.classifier import Body
    from chainrule.features.classify.network.config import (
        BagLabelling,
        ConvolutionBagLabelling,
        ConvolutionLabelling,
        Pooling,
        RecurrentLabelling,
        TransformerLabelling,
    )
    from chainrule.neural.config.network import WordsConfig
    from chainrule.text.units import UnitTokens


class TokenLayers(Protocol):
    """A torch module from token vectors, (B, T, E), to hidden vectors. Those of a row do not depend on its padding."""

    width: int
    is_bidirectional: bool  # whether the second half of a vector is of layers that read from the right

    def __call__(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T width"]:
        """Return the hidden vectors. x: (B, T, E), padded on the right."""


class TextBody(nn.Module):
    """Token vectors, layers, pooling, and layers on the pooled vectors."""

    def __init__(
        self,
        config: WordsConfig,
        vocabulary_size: int,
        unit: str,
        layers: TokenLayers,
        pooling: Pooling,
        after: nn.Module | None = None,
        width: int | None = None,
        summed: int = 0,
    ) -> None:
        """Build the token vectors, and store the layers.

        unit: text or word. pooling: of a text; a word's vector is the mean of its tokens'. after: the number of layers
        on the vectors of units, `width` wide. summed: with pooling "max", how many numbers at the end of the vectors
        are summed instead, and divided by the square root of the text's length.
        """
        super().__init__()
        self.vectors = word_vectors(vocabulary_size, config.embedding_width, config.token_dropout)
        self.layers, self.after = layers, nn.Identity() if after is None else after
        self.width = layers.width if width is None else width
        self.unit, self.pooling, self.summed, self.dropout = unit, pooling, summed, config.dropout

    @property
    def embedding(self) -> nn.Parameter:
        return self.vectors.weight

    def forward(self, inputs: Sequence[UnitTokens]) -> Float[Tensor, "U width"]:
        """Return the vectors of the units of all inputs, as `Body` does."""
        device = self.embedding.device
        rows = [item.tokens if len(item.tokens) else np.array([END]) for item in inputs]
        tokens = torch.from_numpy(pad(rows, END)).to(device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        x = drop(self.vectors(tokens), self.dropout, self.training)
        hidden = self.layers(x, lengths)
        pool = _of_words if self.unit == "word" else self._of_texts
        return cast("Tensor", self.after(pool(hidden, lengths, inputs)))

    def _of_texts(self, hidden: Tensor, lengths: Tensor, inputs: Sequence[UnitTokens]) -> Float[Tensor, "B width"]:
        inside = (torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None])[..., None]
        if self.pooling == "mean":
            return (hidden * inside).sum(1) / lengths[:, None]
        if self.pooling == "max":
            highest, summed = hidden[..., : hidden.shape[2] - self.summed], hidden[..., hidden.shape[2] - self.summed :]
            highest = highest.masked_fill(~inside, -torch.inf).amax(1)
            return torch.cat((highest, (summed * inside).sum(1) / lengths[:, None].sqrt()), 1)
        last = hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
        if not self.layers.is_bidirectional:
            return last
        half = hidden.shape[2] // 2
        return torch.cat((last[:, :half], hidden[:, 0, half:]), 1)

    def check(self, item: UnitTokens) -> None:
        """Raise SettingError where an id is outside the vocabulary."""
        check_tokens(item.tokens, len(self.embedding))

    def size(self, item: UnitTokens) -> int:
        """Return the number of its tokens, at least 1."""
        return max(1, len(item.tokens))

    def units(self, item: UnitTokens) -> int:
        """Return the number of its words; 1 for a whole text."""
        return item.number


def word_vectors(vocabulary_size: int, width: int, token_dropout: float = 0.0) -> Embedding:
    """Return vectors of tokens, drawn with a deviation of 0.05 as in the papers; that of <unk>, which training may
    never see, is 0.
    """
    vectors = Embedding(vocabulary_size, width, token_dropout=token_dropout)
    nn.init.normal_(vectors.weight, std=0.05)
    with torch.no_grad():
        vectors.weight[UNKNOWN] = 0
    return vectors


def _of_words(hidden: Tensor, lengths: Tensor, inputs: Sequence[UnitTokens]) -> Float[Tensor, "U width"]:
    """Return the mean of each word's tokens; 0 for a word without any."""
    firsts = np.cumsum([0, *(item.number for item in inputs)])
    owners = pad(
        [np.where(item.of_tokens < 0, -1, first + item.of_tokens) for first, item in zip(firsts, inputs, strict=False)],
        -1,
        length=hidden.shape[1],
    ).ravel()
    positions = np.flatnonzero(owners >= 0)
    units, tokens = (torch.from_numpy(array).to(hidden.device) for array in (owners[positions], positions))
    sums = hidden.new_zeros(int(firsts[-1]), hidden.shape[2]).index_add_(0, units, hidden.flatten(0, 1)[tokens])
    counts = torch.bincount(units, minlength=len(sums)).clamp(min=1)
    return sums / counts[:, None]


_CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class NoLayers(nn.Module):
    """No layers: the token vectors themselves."""

    is_bidirectional = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T E"]:
        """Return x itself."""
        return x


class RecurrentLayers(nn.Module):
    """Stacked recurrent layers, in one direction or in both.

    From right to left, each row is reversed within its own length, so that padding always comes last.
    """

    def __init__(self, config: RecurrentLabelling) -> None:
        super().__init__()
        self.width, self.dropout = config.width, config.dropout
        self.is_bidirectional = config.directions == "both"
        widths = [config.embedding_width, *[config.width] * config.layers]
        own = config.width // 2 if self.is_bidirectional else config.width
        cell = _CELLS[config.cell]
        self.ahead = nn.ModuleList(cell(before, own, batch_first=True) for before, _ in pairwise(widths))
        self.back = nn.ModuleList(
            cell(before, own, batch_first=True) for before, _ in pairwise(widths) if self.is_bidirectional
        )
        if config.cell == "lstm":
            for layers in (self.ahead, self.back):
                set_biases(layers, forget=1.0)

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors of the last layer."""
        if not self.is_bidirectional:
            for i, layer in enumerate(self.ahead):
                x = layer(self._dropped(x, i))[0]
            return x
        order = _reversed(lengths, x.shape[1])
        for i, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            x = self._dropped(x, i)
            backwards = back(_in_order(x, order))[0]
            x = torch.cat((ahead(x)[0], _in_order(backwards, order)), 2)
        return x

    def _dropped(self, x: Tensor, layer: int) -> Tensor:
        """Apply dropout, except to the input of the first layer, which has had it already."""
        return drop(x, self.dropout, self.training) if layer else x


class ConvolutionLayers(nn.Module):
    """ReLU(W x_i..i+n + b) for several filter widths n, side by side (Kim 2014, equation 2); zeros stand around a text.

    The output at position i is that of the window around i, so that words can be labelled, too.
    """

    is_bidirectional = False

    def __init__(self, config: ConvolutionLabelling, *, keeps_input: bool = False) -> None:
        """Build a convolution for each filter width.

        keeps_input: whether the outputs at a position end with the token vector that the filters read there.
        """
        super().__init__()
        self.width = config.width * len(config.filters) + keeps_input * config.embedding_width
        self.keeps_input = keeps_input
        self.filters = nn.ModuleList(nn.Conv1d(config.embedding_width, config.width, n) for n in config.filters)

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T width"]:
        """Return the filters' outputs at each position."""
        inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        columns = (x * inside[..., None]).transpose(1, 2)  # (B, E, T)
        outputs = []
        for layer in self.filters:
            n = cast("nn.Conv1d", layer).kernel_size[0]
            outputs.append(F.relu(layer(F.pad(columns, ((n - 1) // 2, n // 2)))))
        if self.keeps_input:
            outputs.append(columns)
        return torch.cat(outputs, 1).transpose(1, 2)


class TransformerLayers(nn.Module):
    """The project's Transformer, as a bidirectional encoder."""

    is_bidirectional = False

    def __init__(self, config: TransformerLabelling) -> None:
        super().__init__()
        self.width = config.width
        own = MaskedConfig(width=config.width, layers=config.layers, heads=config.heads, dropout=config.dropout)
        narrower = config.embedding_width not in (None, config.width)
        self.widened = nn.Linear(cast("int", config.embedding_width), config.width) if narrower else nn.Identity()
        self.blocks = Transformer(own, is_bidirectional=True)

    def forward(self, x: Float[Tensor, "B T E"], lengths: Int64[Tensor, " B"]) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors of the last layer."""
        starts = padding_starts(lengths.tolist(), x.device, width=x.shape[1])
        return cast("Tensor", self.blocks(self.widened(x), None, starts)[0])


def _reversed(lengths: Int64[Tensor, " B"], width: int) -> Int64[Tensor, "B T"]:
    """Return the positions of each row from its last to its first, then those beyond its length, unchanged."""
    columns = torch.arange(width, device=lengths.device)[None]
    return torch.where(columns < lengths[:, None], lengths[:, None] - 1 - columns, columns)


def _in_order(x: Float[Tensor, "B T D"], order: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[2]))


_WIDTH = 50  # as in the paper


class SharedWords(nn.Module):
    """Figures of what two texts share, word by word, which the vectors of whole texts hardly show.

    A word counts as much as its weight, which is learned: 'not' may matter more than 'the'. Unknown words are one word.
    """

    width = 8

    def __init__(self, vocabulary_size: int, *, is_directed: bool) -> None:
        """Build a weight for each token. is_directed: whether exchanging the texts may change the figures."""
        super().__init__()
        self.is_directed = is_directed
        self.weights = nn.Parameter(torch.ones(vocabulary_size))

    def forward(self, pairs: Sequence[tuple[UnitTokens, UnitTokens]]) -> Float[Tensor, "P width"]:
        """Return, for each text, the share of its words that the other has, weighted and not; the weight of the others,
        in tens; the share of neighbouring words that are neighbours in the other, too; the difference of lengths, in
        tens.

        Undirected, the lesser and the greater figure of the two texts stand in place of the first's and the second's.
        """
        (a, has_a), (b, has_b) = (self._padded([pair[side] for pair in pairs]) for side in (0, 1))
        same = (a[:, :, None] == b[:, None, :]) & has_a[:, :, None] & has_b[:, None, :]  # (P, T, T)
        firsts, seconds = self._figures(a, has_a, same.any(2)), self._figures(b, has_b, same.any(1))  # (P, 3)
        lengths_a, lengths_b = has_a.sum(1), has_b.sum(1)
        neighbours = (same[:, :-1, :-1] & same[:, 1:, 1:]).flatten(1).sum(1)
        shared_neighbours = neighbours / (torch.minimum(lengths_a, lengths_b) - 1).clamp(min=1)
        longer = (lengths_a - lengths_b) / 10
        if not self.is_directed:
            firsts, seconds, longer = torch.minimum(firsts, seconds), torch.maximum(firsts, seconds), longer.abs()
        return torch.cat((firsts, seconds, shared_neighbours[:, None], longer[:, None]), 1)

    def _figures(
        self, tokens: Int64[Tensor, "P T"], inside: Bool[Tensor, "P T"], shared: Bool[Tensor, "P T"]
    ) -> Float[Tensor, "P 3"]:
        weights = self.weights.abs()[tokens] * inside
        found = (weights * shared).sum(1)
        total = weights.sum(1)
        counted = (shared & inside).sum(1) / inside.sum(1)
        return torch.stack((found / total.clamp(min=1e-6), counted, (total - found) / 10), 1)

    def _padded(self, texts: Sequence[UnitTokens]) -> tuple[Int64[Tensor, "P T"], Bool[Tensor, "P T"]]:
        """Return the tokens of some texts, and which of them are no padding; an empty text has </s>."""
        rows = [text.tokens if len(text.tokens) else np.array([END]) for text in texts]
        tokens = torch.from_numpy(pad(rows, END)).to(self.weights.device)
        lengths = torch.tensor([len(row) for row in rows], device=tokens.device)
        return tokens, torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]


class PairBody(nn.Module):
    """sigmoid(W [|a - b|; a * b] + v) of the vectors of two sides (Tai et al. 2015, equation 14).

    Of two texts, W reads what they share as well. A rating must not change if the sides are exchanged. A label, such as
    entailment, may have a direction; for labels, W reads a and b, too.
    """

    def __init__(self, side: Body[Any], shared: SharedWords | None = None, *, is_directed: bool) -> None:
        """Build the layer that compares both sides.

        side: the body that gives each side one vector. shared: compares words of two texts; None: nothing does.
        """
        super().__init__()
        self.side: Any = side
        self.shared = shared
        self.is_directed, self.width = is_directed, _WIDTH
        more = 0 if shared is None else shared.width
        self.compare = nn.Linear((4 if is_directed else 2) * side.width + more, _WIDTH)

    @property
    def embedding(self) -> nn.Parameter | None:
        embedding: nn.Parameter | None = self.side.embedding
        return embedding

    def forward(self, inputs: Sequence[tuple[Any, Any]]) -> Float[Tensor, "P C"]:
        """Return the vector of each pair, as `Body` does."""
        a, b = self.side([first for first, _ in inputs] + [second for _, second in inputs]).chunk(2)
        parts = [(a - b).abs(), a * b, *([a, b] if self.is_directed else [])]
        if self.shared is not None:
            parts.append(self.shared(inputs))
        return torch.sigmoid(self.compare(torch.cat(parts, 1)))

    def check(self, item: tuple[Any, Any]) -> None:
        """Raise SettingError where the network cannot read one of the sides."""
        for own in item:
            self.side.check(own)

    def size(self, item: tuple[Any, Any]) -> int:
        """Return the size of both sides."""
        return int(self.side.size(item[0]) + self.side.size(item[1]))

    def units(self, item: tuple[Any, Any]) -> int:
        """Return 1: a pair has one vector."""
        return 1


def bag_body(config: BagLabelling, vocabulary_size: int, unit: str) -> TextBody:
    widths = [config.embedding_width, *[config.width] * config.layers]
    layers = layer_stack(widths, "relu", config.dropout)
    return TextBody(config, vocabulary_size, unit, NoLayers(widths[0]), "mean", layers, widths[-1])


def recurrent_body(config: RecurrentLabelling, vocabulary_size: int, unit: str) -> TextBody:
    return TextBody(config, vocabulary_size, unit, RecurrentLayers(config), config.pooling)


def convolution_body(config: ConvolutionLabelling, vocabulary_size: int, unit: str) -> TextBody:
    return TextBody(config, vocabulary_size, unit, ConvolutionLayers(config), "max")


def convolution_bag_body(config: ConvolutionBagLabelling, vocabulary_size: int, unit: str) -> TextBody:
    layers = ConvolutionLayers(config, keeps_input=True)
    return TextBody(config, vocabulary_size, unit, layers, "max", summed=config.embedding_width)


def transformer_body(config: TransformerLabelling, vocabulary_size: int, unit: str) -> TextBody:
    settled = replace(config, embedding_width=config.embedding_width or config.width)
    return TextBody(settled, vocabulary_size, unit, TransformerLayers(settled), "mean")
