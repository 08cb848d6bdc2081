"""A head on a network: labels for texts, or for their words.

A unit's vector is the mean of those of its tokens; the head is a linear map of it, normalised. A text that is longer
than the network reads at once, or than 2,048 tokens, is read in parts. Legend: B batch, T time, D width, C labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.progress import Progress, silent
from chainrule.base.tokens import check_tokens
from chainrule.neural.dropout import dropped
from chainrule.neural.framing import framed, padding
from chainrule.neural.scoring import batched, padded, rounded_up
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.text.labelled import LabelledUnit
    from chainrule.text.units import UnitTokens

_TOGETHER = 1 << 12  # tokens in a batch
_SORTED = 1 << 10  # texts among which those of about the same length are looked for
_PART = 1 << 11  # tokens that are read at once by a network that would read any number


class _Part(NamedTuple):
    """As much of a text as is read at once, and the unit of each input, counted through all texts; -1: none."""

    inputs: Int64[ndarray, " inputs"]
    owners: Int64[ndarray, " inputs"]


class Classifier(nn.Module):
    """Network, mix of layers, head."""

    def __init__(
        self,
        network: Network,
        labels: Sequence[str],
        unit: LabelledUnit,
        *,
        width: int,
        mixed_layers: int = 0,
        dropout: float = 0.0,
    ) -> None:
        """width: of what the head is given: the last layer, or sum_j softmax(w)_j h_j of so many mixed layers (Peters
        2018, equation 1, without the scale, which normalising takes away, and without the tokens' own vectors).
        """
        super().__init__()
        self.network, self.labels, self.unit, self.dropout = network, tuple(labels), unit, dropout
        self.mix = nn.Parameter(torch.zeros(mixed_layers))  # w
        self.head = nn.Linear(width, len(self.labels))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Sequence[UnitTokens]) -> Tensor:
        """(units of all texts, C): what becomes log-probabilities by a softmax."""
        parts = self._parts(inputs)
        return self._judged(self._summed(parts, self._nothing(inputs)), parts)

    def train(self, mode: bool = True) -> Classifier:
        """A network that does not learn is read as it will be: nothing in it is dropped."""
        super().train(mode)
        self.network.train(mode and any(weight.requires_grad for weight in self.network.parameters()))
        return self

    def size(self, item: UnitTokens) -> int:
        """The tokens that are read of a text, with its markers."""
        return len(item.tokens) + 2

    def matrices(self) -> list[nn.Parameter]:
        """The network's hidden matrices."""
        return self.network.matrices()

    @torch.inference_mode()
    def log_probs(self, texts: Sequence[UnitTokens], progress: Progress = silent) -> list[Float32[ndarray, "units C"]]:
        """Of each text's units, in nats. A unit without a token of its own has what the next one has, whose tokens span
        it. Raises SettingError where an id is outside the vocabulary.
        """
        found: list[Float32[ndarray, "units C"]] = []
        for first in range(0, len(texts), _SORTED):
            progress("classifying", first, len(texts))
            some = texts[first : first + _SORTED]
            for text in some:
                check_tokens(text.tokens, self.network.vocabulary_size)
            parts, sums = self._parts(some), self._nothing(some)
            by_length = sorted(parts, key=lambda part: -len(part.inputs))
            for batch in batched(by_length, lambda part: len(part.inputs), _TOGETHER):
                self._summed(batch, sums)
            rows = self._judged(sums, parts).float().log_softmax(-1).cpu()
            own_rows = torch.split(rows, [text.number for text in some])
            found += [_of_all_units(own.numpy(), text) for own, text in zip(own_rows, some, strict=True)]
        return found

    def _nothing(self, texts: Sequence[UnitTokens]) -> Tensor:
        """(units of all texts, D)."""
        return torch.zeros(sum(text.number for text in texts), self.head.in_features, device=self.network.device)

    def _summed(self, parts: Sequence[_Part], sums: Tensor) -> Tensor:
        """The vectors of tokens, added to those of their units, (units, D), which are given back."""
        lengths = [len(part.inputs) for part in parts]
        device, width = self.network.device, max(lengths)
        if self.training:
            width = min(rounded_up(width), self.network.encoder.context or 1 << 62)
        tokens = torch.from_numpy(padded([part.inputs for part in parts], END, length=width)).to(device)
        starts = padding(lengths, device, width=width) if self.network.encoder.is_bidirectional else None
        hidden = self._hidden(tokens, starts).float()
        owners = padded([part.owners for part in parts], -1, length=width).ravel()
        chosen = np.flatnonzero(owners >= 0)
        of_tokens, positions = (torch.from_numpy(each).to(device) for each in (owners[chosen], chosen))
        return sums.index_add_(0, of_tokens, hidden.flatten(0, 1)[positions])

    def _judged(self, sums: Tensor, parts: Sequence[_Part]) -> Tensor:
        """(units, D) -> (units, C)."""
        owners = np.concatenate([part.owners for part in parts])
        counts = torch.from_numpy(np.bincount(owners[owners >= 0], minlength=len(sums))).to(sums.device)
        vectors = F.layer_norm(sums / counts[:, None].clamp(min=1), sums.shape[-1:])
        return cast("Tensor", self.head(dropped(vectors, self.dropout, self.training)))

    def _hidden(self, tokens: Tensor, starts: Tensor | None) -> Tensor:
        layers = list(self.network.encoder.hidden_layers(self.network.embed(tokens), starts))
        if not len(self.mix):
            return layers[-1]
        weights = self.mix.softmax(0)
        return torch.stack([weight * layer for weight, layer in zip(weights, layers, strict=True)]).sum(0)

    def _parts(self, texts: Sequence[UnitTokens]) -> list[_Part]:
        """What is read. The </s> before a text is part of it where texts are labelled, so that an empty one has a
        vector, too.
        """
        parts, first = [], 0
        context = self.network.encoder.context or _PART
        size = max(1, context - 2)
        for text in texts:
            for begin in range(0, max(1, len(text.tokens)), size):
                inputs = framed(text.tokens[begin : begin + size], self.network)[:context]
                owners = np.full(len(inputs), first if self.unit == "text" else -1)
                own = text.of_tokens[begin : begin + size][: len(inputs) - 1]
                owners[1 : len(own) + 1] = np.where(own < 0, -1, first + own)
                parts.append(_Part(inputs, owners))
            first += text.number
        return parts


def _of_all_units(rows: Float32[ndarray, "units C"], text: UnitTokens) -> Float32[ndarray, "units C"]:
    read = np.unique(text.of_tokens[text.of_tokens >= 0])
    if len(read) in (0, text.number):
        return rows
    next_read = np.searchsorted(read, np.arange(text.number))
    return rows[read[np.minimum(next_read, len(read) - 1)]]


@torch.no_grad()
def layer_widths(network: Network) -> list[int]:
    """What each layer of a network's encoder gives."""
    tokens = torch.full((1, 1), END, device=network.device)
    return [layer.shape[-1] for layer in network.encoder.hidden_layers(network.embed(tokens))]
