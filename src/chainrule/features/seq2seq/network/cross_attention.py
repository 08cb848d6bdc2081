"""Attention of a decoder to a source that was encoded once: to all its vectors (soft), a window (local), or one (hard).

Many rows may attend to one source: the hypotheses of a beam, or samples. Nothing of the source is copied for them: they
become more queries of its row.
Legend: B rows of the decoder, M sources, G rows of a source at most, H heads, T time or queries, S tokens of a source,
D width, d width of a head, C choices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from chainrule.neural.layers.attention import attend_prepared, build_score, weights_of_prepared
from chainrule.neural.layers.matrix_products import linear

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.neural.config.network import ScoreName


class WeightLists(NamedTuple):
    """Lists to which each layer appends its attention weights."""

    source: list[Float[Tensor, "B H T S"]]  # of the target on the source
    target: list[Float[Tensor, "B H T T"]] | None  # of the target on itself; None: not recorded


class KeysAndValues(NamedTuple):
    """What a layer of the decoder attends to, computed from the memory once."""

    keys: Float[Tensor, "M H S d"]
    values: Float[Tensor, "M H S d"]


@dataclass(frozen=True)
class Source:
    """Encoded sources.

    is_token: False at padding. memory, summary: see `readers.Encoding`. keys_and_values: those of each layer of the
    decoder. rows: the source of each row of the decoder. groups: how these rows are grouped by source. weights_out: the
    lists in which attention records its weights; None if it does not.
    """

    is_token: Bool[Tensor, "M S"]
    memory: Float[Tensor, "M S D"]
    summary: Float[Tensor, "M D"]
    keys_and_values: tuple[KeysAndValues, ...]
    rows: Int64[Tensor, " B"]
    groups: _Groups
    weights_out: WeightLists | None = None

    @classmethod
    def of(
        cls,
        is_token: Bool[Tensor, "M S"],
        memory: Float[Tensor, "M S D"],
        summary: Float[Tensor, "M D"],
        keys_and_values: tuple[KeysAndValues, ...],
    ) -> Source:
        """Return sources with one row of the decoder each."""
        rows = torch.arange(len(is_token), device=is_token.device)
        return cls(is_token, memory, summary, keys_and_values, rows, _Groups(1, None))

    def at(self, rows: Int64[Tensor, " B"], weights_out: WeightLists | None = None) -> Source:
        """Return the same sources for other rows of the decoder. rows: the source of each."""
        return replace(self, rows=rows, groups=_group(rows, len(self.is_token)), weights_out=weights_out)

    @property
    def mask(self) -> Bool[Tensor, "M 1 1 S"]:
        """True at the keys that queries attend to."""
        return self.is_token[:, None, None]

    def grouped(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "M H G*T d"]:
        """Return the queries of rows, by source."""
        size, slots = self.groups
        heads, times, width = x.shape[1:]
        if slots is not None:
            x = x.new_zeros(len(self.is_token) * size, heads, times, width).index_copy(0, slots, x)
        if size == 1:
            return x
        return x.view(-1, size, heads, times, width).transpose(1, 2).flatten(2, 3)

    def of_rows(self, x: Float[Tensor, "M H G*T d"], times: int) -> Float[Tensor, "B H T d"]:
        """Return the inverse of `grouped`: results of each source, by row."""
        size, slots = self.groups
        if size > 1:
            x = x.view(*x.shape[:2], size, times, -1).transpose(1, 2).flatten(0, 1)
        return x if slots is None else x.index_select(0, slots)


class _Groups(NamedTuple):
    """The slots of rows, grouped by source.

    size: how many rows each source has room for. slots: the slot of each row among them; None if rows are in order and
    no slot is empty.
    """

    size: int
    slots: Int64[Tensor, " B"] | None


def _group(rows: Int64[Tensor, " B"], sources: int) -> _Groups:
    counts = torch.bincount(rows, minlength=sources)
    size = max(1, int(counts.max())) if len(rows) else 1
    in_order = torch.arange(sources, device=rows.device).repeat_interleave(size)
    if len(rows) == len(in_order) and torch.equal(rows, in_order):
        return _Groups(size, None)
    order = rows.argsort(stable=True)
    first = counts.cumsum(0) - counts
    slots = torch.empty_like(rows)
    slots[order] = rows[order] * size + torch.arange(len(rows), device=rows.device) - first[rows[order]]
    return _Groups(size, slots)


class CrossAttention(nn.Module):
    """Multi-head attention to the source, for Transformers and convolutions (Vaswani et al. 2017, section 3.2.3)."""

    def __init__(
        self,
        width: int,
        heads: int,
        score: ScoreName,
        *,
        longest: int,
        biases: bool,
        dropout: float,
        head_width: int | None = None,
    ) -> None:
        """Build the projections.

        longest: the most tokens of a source. head_width: d; None for the width divided by the number of heads.
        """
        super().__init__()
        self.heads, self.dropout = heads, dropout
        head_width = width // heads if head_width is None else head_width
        inner = heads * head_width
        self.query = nn.Linear(width, inner, bias=biases)
        self.key_value = nn.Linear(width, 2 * inner, bias=biases)
        self.out = nn.Linear(inner, width, bias=biases)
        self.score = build_score(score, heads, head_width, longest)

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> KeysAndValues:
        """Return the keys and values of each head."""
        both = linear(memory, self.key_value).view(*memory.shape[:2], 2, self.heads, -1)  # (M, S, 2, H, d)
        key, value = both.transpose(1, 3).unbind(2)
        return KeysAndValues(self.score.key(key.contiguous()), value.contiguous())

    def forward(self, x: Float[Tensor, "B T D"], source: Source, layer: int) -> Float[Tensor, "B T D"]:
        """Return the context vector of each position. layer: the index of the decoder's layer, from 0."""
        (keys, values), times = source.keys_and_values[layer], x.shape[1]
        query = linear(x, self.query).view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, d)
        query = source.grouped(self.score.query(query))
        if source.weights_out is not None:
            weights = weights_of_prepared(self.score, query, keys, source.mask)
            source.weights_out.source.append(source.of_rows(weights, times))
        dropout = self.dropout if self.training else 0.0
        attended = attend_prepared(self.score, query, keys, values, source.mask, dropout)
        return linear(source.of_rows(attended, times).transpose(1, 2).flatten(2), self.out)


class ContextVectors(NamedTuple):
    """The context vector of each query; with hard attention, one for each of the C positions that it may choose."""

    values: Float[Tensor, "B T C D"]
    log_probs: Float[Tensor, "B T C"]  # of the choices, in nats


class SingleHeadAttention(nn.Module):
    """Attention of recurrent decoders to the source: its values are the encoder's vectors themselves.

    soft      softmax(score) V over the whole source        Bahdanau et al. 2015, Luong et al. 2015
    local     the same within a window                      Luong et al. 2015, section 3.2
    hard      the value of one position, drawn or likeliest Xu et al. 2015, section 4.1
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.kind, self.window, self.feeds = config.attention, config.window, config.feeds
        self.estimator, self.dropout = config.estimator, config.attention_dropout
        self.soft_share, self.draws = config.soft_share, config.draws
        self.score = build_score(config.score, 1, config.width, config.max_source)
        self.gate = nn.Linear(config.width, 1) if config.gate else None
        self.center: nn.Module | None = None
        if config.attention == "local" and config.center == "predicted":
            self.center = nn.Sequential(
                nn.Linear(config.width, config.width), nn.Tanh(), nn.Linear(config.width, 1), nn.Sigmoid()
            )

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> KeysAndValues:
        """Return keys, and the memory itself as values, for one head."""
        return KeysAndValues(self.score.key(memory[:, None]), memory[:, None])

    def forward(self, x: Float[Tensor, "B T D"], positions: Int64[Tensor, "B T"], source: Source) -> ContextVectors:
        """Return the context vector of each query, x. positions: the positions of the queries in the target."""
        contexts = self._attended(x, positions, source)
        if self.gate is None:
            return contexts
        return contexts._replace(values=torch.sigmoid(self.gate(x)).unsqueeze(2) * contexts.values)

    def _attended(self, x: Float[Tensor, "B T D"], positions: Int64[Tensor, "B T"], source: Source) -> ContextVectors:
        (keys, values), times = source.keys_and_values[0], x.shape[1]
        query = source.grouped(self.score.query(x[:, None]))  # (M, 1, G T, d)
        if self.kind == "soft" and source.weights_out is None:
            dropout = self.dropout if self.training else 0.0
            attended = attend_prepared(self.score, query, keys, values, source.mask, dropout)
            return _without_choice(source.of_rows(attended, times)[:, 0])
        mask, gaussian = source.mask, None
        if self.kind == "local":
            mask, gaussian = self._window(source.grouped(self._centers(x, positions, source)), source)
        weights = weights_of_prepared(self.score, query, keys, mask)
        if gaussian is not None:
            weights = weights * gaussian
        if source.weights_out is not None:
            source.weights_out.source.append(source.of_rows(weights, times))
        if self.kind == "hard":
            return self._choose(source.of_rows(weights, times)[:, 0], source)
        return _without_choice(source.of_rows(weights @ values, times)[:, 0])

    def _centers(
        self, x: Float[Tensor, "B T D"], positions: Int64[Tensor, "B T"], source: Source
    ) -> Float[Tensor, "B 1 T 1"]:
        """Return the centers of the windows: the target's own positions, or predicted (Luong 2015, equation 9)."""
        last = (source.is_token.sum(1) - 1)[source.rows][:, None]
        if self.center is not None:
            return (last * self.center(x)[..., 0])[:, None, :, None]
        return torch.minimum(positions, last).to(x.dtype)[:, None, :, None]

    def _window(
        self, centers: Float[Tensor, "M 1 G*T 1"], source: Source
    ) -> tuple[Bool[Tensor, "M 1 G*T S"], Float[Tensor, "M 1 G*T S"] | None]:
        """Return the mask of each window and, if its center is predicted, a Gaussian over it (Luong 2015,
        equation 10).
        """
        distances = torch.arange(source.is_token.shape[1], device=centers.device) - centers  # (M, 1, G T, S)
        mask = source.mask & (distances.abs() <= self.window)
        if self.center is None:
            return mask, None
        return mask, torch.exp(-2 * (distances / self.window).square())

    def _choose(self, weights: Float[Tensor, "B T S"], source: Source) -> ContextVectors:
        """Choose by hard attention: in training, a position drawn at random; otherwise all positions, or with input
        feeding the likeliest.
        """
        memory = source.memory[source.rows]  # (B, S, D)
        log_probs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        if not self.feeds and (not self.training or self.estimator == "exact"):
            log_probs = log_probs.masked_fill(~source.is_token[source.rows][:, None], -torch.inf)
            return ContextVectors(memory[:, None].expand(-1, weights.shape[1], -1, -1), log_probs)
        flat = weights.flatten(0, 1)
        if self.training and self.draws > 1:
            drawn = torch.multinomial(flat, self.draws, replacement=True).view(*weights.shape[:2], -1)  # (B, T, draws)
            rows = torch.arange(len(memory), device=memory.device)[:, None, None]
            return ContextVectors(memory[rows, drawn], log_probs.gather(2, drawn))
        chosen = torch.multinomial(flat, 1) if self.training else flat.argmax(1, True)
        chosen = chosen.view(*weights.shape[:2], 1)  # (B, T, 1)
        one_hot = torch.zeros_like(weights).scatter_(2, chosen, 1.0)
        if self.training and self.estimator == "straight_through":
            return _without_choice((one_hot + weights - weights.detach()) @ memory)
        log_prob = log_probs.gather(2, chosen) if self.training else torch.zeros_like(log_probs[..., :1])
        if self.training and self.soft_share:
            softly = torch.rand_like(log_prob) < self.soft_share
            one_hot, log_prob = torch.where(softly, weights, one_hot), log_prob.masked_fill(softly, 0)
        return ContextVectors((one_hot @ memory).unsqueeze(2), log_prob)


def _without_choice(values: Float[Tensor, "B T D"]) -> ContextVectors:
    """Return context vectors of log-probability 0: there was nothing to choose."""
    return ContextVectors(values.unsqueeze(2), values.new_zeros(*values.shape[:2], 1))
