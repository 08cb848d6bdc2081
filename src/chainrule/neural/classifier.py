"""A head on a network: labels for texts, or for their words.

A unit's vector is the mean of those of its tokens; the head is a linear map of it, normalised. A text that is longer
than the network reads at once is read in parts. Legend: B batch, T time, D width, C labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.dropout import dropped
from chainrule.neural.framing import framed, padding
from chainrule.neural.scoring import padded, rounded_up
from chainrule.protocol import END, check_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.text.labelled import LabelledUnit

_TOGETHER = 1 << 12  # tokens in a batch


class Units(NamedTuple):
    """A text's tokens, and which of its units each belongs to; -1: none."""

    tokens: Int32[ndarray, " tokens"]
    of_tokens: Int64[ndarray, " tokens"]
    number: int


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
        """width: of what the head is given: the last layer, or gamma sum_j softmax(w)_j h_j of so many mixed layers
        (Peters 2018, equation 1).
        """
        super().__init__()
        self.network, self.labels, self.unit, self.dropout = network, tuple(labels), unit, dropout
        self.mix = nn.Parameter(torch.zeros(mixed_layers + 1 if mixed_layers else 0))  # w, and log gamma
        self.head = nn.Linear(width, len(self.labels))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, texts: Sequence[Units]) -> Tensor:
        """(units of all texts, C): what becomes log-probabilities by a softmax."""
        parts, owners = self._parts(texts)
        lengths = [len(part) for part in parts]
        device, width = self.network.device, max(lengths)
        if self.training:
            width = min(rounded_up(width), self.network.causal.context or 1 << 62)
        tokens = torch.from_numpy(padded(parts, END, length=width)).to(device)
        starts = padding(lengths, device, width=width) if self.network.causal.looks_right else None
        hidden = self._hidden(tokens, starts).float()
        flat = np.concatenate([np.pad(each, (0, width - len(each)), constant_values=-1) for each in owners])
        chosen = np.flatnonzero(flat >= 0)
        of_tokens = torch.from_numpy(flat[chosen]).to(device)
        units = sum(text.number for text in texts)
        sums = hidden.new_zeros(units, hidden.shape[-1])
        sums = sums.index_add(0, of_tokens, hidden.flatten(0, 1)[torch.from_numpy(chosen).to(device)])
        counts = torch.bincount(of_tokens, minlength=units)[:, None].clamp(min=1)
        vectors = F.layer_norm(sums / counts, sums.shape[-1:])
        return cast(Tensor, self.head(dropped(vectors, self.dropout, self.training)))

    @torch.inference_mode()
    def log_probs(self, texts: Sequence[Units]) -> list[Float32[ndarray, "units C"]]:
        """Of each text's units, in nats. Raises SettingError where an id is outside the vocabulary."""
        for text in texts:
            check_tokens(text.tokens, self.network.vocabulary_size)
        found: list[Float32[ndarray, "units C"]] = [np.empty(0, np.float32)] * len(texts)
        for batch in batches_by_length(texts, _TOGETHER):
            rows = self([texts[number] for number in batch]).float().log_softmax(-1).cpu()
            for number, own in zip(batch, rows.split([texts[number].number for number in batch]), strict=True):
                found[number] = own.numpy()
        return found

    def _hidden(self, tokens: Tensor, starts: Tensor | None) -> Tensor:
        layers = list(self.network.causal.hidden_layers(self.network.embedding(tokens), starts))
        if not len(self.mix):
            return layers[-1]
        weights = self.mix[:-1].softmax(0)
        mixture = torch.stack([weight * layer for weight, layer in zip(weights, layers, strict=True)]).sum(0)
        return self.mix[-1].exp() * mixture

    def _parts(self, texts: Sequence[Units]) -> tuple[list[Int64[ndarray, " inputs"]], list[Int64[ndarray, " inputs"]]]:
        """What is read, and the unit of each input, counted through all texts; -1: none.

        The </s> before a text is part of it where texts are labelled, so that an empty one has a vector, too.
        """
        parts, owners, first = [], [], 0
        context = self.network.causal.context
        size = max(1, (context or 1 << 62) - 2)
        for text in texts:
            for begin in range(0, max(1, len(text.tokens)), size):
                inputs = framed(text.tokens[begin : begin + size], self.network)[:context]
                owner = np.full(len(inputs), first if self.unit == "text" else -1)
                own = text.of_tokens[begin : begin + size][: len(inputs) - 1]
                owner[1 : len(own) + 1] = np.where(own < 0, -1, first + own)
                parts.append(inputs)
                owners.append(owner)
            first += text.number
        return parts, owners


@torch.no_grad()
def layer_widths(network: Network) -> list[int]:
    """What each layer of a network's encoder gives."""
    tokens = torch.full((1, 1), END, device=network.device)
    return [layer.shape[-1] for layer in network.causal.hidden_layers(network.embedding(tokens))]


def batches_by_length(texts: Sequence[Units], together: int) -> list[list[int]]:
    """The numbers of texts of about the same length, at most so many tokens together, the longest first."""
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number].tokens)):
        size = len(texts[number].tokens) + 2
        if not batches or (len(batches[-1]) + 1) * room > together:
            batches.append([])
            room = size
        batches[-1].append(number)
    return batches
