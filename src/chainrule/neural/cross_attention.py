"""What a decoder takes from a source: a mean of its positions (soft), of those in a window (local), or one (hard).

Legend: B rows of the decoder, M sources, H heads, T queries, S positions of a source, d numbers in a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.neural.scores import attend_by_score, score_named, weights_of
from chainrule.neural.source import KeysAndValues, Source

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig, ScoreName


class CrossAttention(nn.Module):
    """Of Transformers and convolutions: several heads, each with maps of its own (Vaswani 2017, section 3.2.3)."""

    def __init__(self, width: int, heads: int, score: ScoreName, *, longest: int, biases: bool, dropout: float) -> None:
        """longest: the most positions of a source."""
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width, bias=biases)
        self.key_value = nn.Linear(width, 2 * width, bias=biases)
        self.out = nn.Linear(width, width, bias=biases)
        self.score = score_named(score, heads, width // heads, longest)

    def keys_and_values(self, memory: Tensor) -> KeysAndValues:
        """(M, S, D) -> keys and values."""
        key, value = self.key_value(memory).unflatten(-1, (2, self.heads, -1)).transpose(1, 3).unbind(2)
        return KeysAndValues(self.score.key(key.contiguous()), value.contiguous())

    def forward(self, x: Tensor, source: Source, layer: int) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        (keys, values), times = source.keys_and_values[layer], x.shape[1]
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, d)
        query = source.grouped(self.score.query(query))
        if source.weights_out is not None:
            source.weights_out.source.append(source.of_rows(weights_of(self.score, query, keys, source.mask), times))
        dropout = self.dropout if self.training else 0.0
        found = attend_by_score(self.score, query, keys, values, source.mask, dropout)
        return cast("Tensor", self.out(source.of_rows(found, times).transpose(1, 2).flatten(2)))


class ContextVectors(NamedTuple):
    """What a query took from the source, in one or several ways, which are then decided among.

    values: (B, T, C, D). log_probs: of each choice, (B, T, C).
    """

    values: Tensor
    log_probs: Tensor


class SingleHeadAttention(nn.Module):
    """Of recurrent decoders: one head, whose values are the positions of the source as they are."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.looks, self.window, self.feeds = config.attention, config.window, config.feeds
        self.estimator, self.dropout = config.estimator, config.attention_dropout
        self.score = score_named(config.score, 1, config.width, config.max_source)
        self.center: nn.Module | None = None
        if config.attention == "local" and config.center == "predicted":
            self.center = nn.Sequential(
                nn.Linear(config.width, config.width), nn.Tanh(), nn.Linear(config.width, 1), nn.Sigmoid()
            )

    def keys_and_values(self, memory: Tensor) -> KeysAndValues:
        """(M, S, D) -> keys, and the positions themselves."""
        return KeysAndValues(self.score.key(memory[:, None]), memory[:, None])

    def forward(self, x: Tensor, positions: Tensor, source: Source) -> ContextVectors:
        """x: (B, T, D). positions: of the queries in the target, (B, T)."""
        (keys, values), times = source.keys_and_values[0], x.shape[1]
        query = source.grouped(self.score.query(x[:, None]))  # (M, 1, G T, d)
        if self.looks == "soft" and source.weights_out is None:
            dropout = self.dropout if self.training else 0.0
            found = attend_by_score(self.score, query, keys, values, source.mask, dropout)
            return _certain(source.of_rows(found, times)[:, 0])
        mask, bell = source.mask, None
        if self.looks == "local":
            mask, bell = self._window(source.grouped(self._centers(x, positions, source)), source)
        weights = weights_of(self.score, query, keys, mask)
        if bell is not None:
            weights = weights * bell
        if source.weights_out is not None:
            source.weights_out.source.append(source.of_rows(weights, times))
        if self.looks == "hard":
            return self._chosen(source.of_rows(weights, times)[:, 0], source)
        return _certain(source.of_rows(weights @ values, times)[:, 0])

    def _centers(self, x: Tensor, positions: Tensor, source: Source) -> Tensor:
        """The middles of the windows: (B, 1, T, 1)."""
        last = (source.seen.sum(1) - 1)[source.rows][:, None]
        if self.center is not None:
            return (last * self.center(x)[..., 0])[:, None, :, None]
        return torch.minimum(positions, last).to(x.dtype)[:, None, :, None]

    def _window(self, centers: Tensor, source: Source) -> tuple[Tensor, Tensor | None]:
        """What is in a window, and, where its middle is predicted, a bell over it (Luong 2015, equation 10)."""
        distances = torch.arange(source.seen.shape[1], device=centers.device) - centers  # (M, 1, G T, S)
        mask = source.mask & (distances.abs() <= self.window)
        if self.center is None:
            return mask, None
        return mask, torch.exp(-2 * (distances / self.window).square())

    def _chosen(self, weights: Tensor, source: Source) -> ContextVectors:
        """weights: (B, T, S). In training a position that is drawn; else all, or, where it goes on, the likeliest."""
        memory = source.memory[source.rows]  # (B, S, D)
        log_probs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        if not self.training and not self.feeds:
            every = log_probs.masked_fill(~source.seen[source.rows][:, None], -torch.inf)
            return ContextVectors(memory[:, None].expand(-1, weights.shape[1], -1, -1), every)
        drawn = torch.multinomial(weights.flatten(0, 1), 1) if self.training else weights.flatten(0, 1).argmax(1, True)
        drawn = drawn.view(*weights.shape[:2], 1)  # (B, T, 1)
        one = torch.zeros_like(weights).scatter_(2, drawn, 1.0)
        if self.training and self.estimator == "straight_through":
            return _certain((one + weights - weights.detach()) @ memory)
        chance = log_probs.gather(2, drawn) if self.training else torch.zeros_like(log_probs[..., :1])
        return ContextVectors((one @ memory).unsqueeze(2), chance)


def _certain(values: Tensor) -> ContextVectors:
    """(B, T, D)."""
    return ContextVectors(values.unsqueeze(2), values.new_zeros(*values.shape[:2], 1))
