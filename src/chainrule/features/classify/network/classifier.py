"""Classifiers: a head on a trained language model (FineTunedClassifier), or on a body of its own (ScratchClassifier).

A fine-tuned classifier labels texts, their words, or pairs of sentences. The vector of a unit (a text or a word) is the
mean over its tokens, normalised; the head is linear. A text that is longer than the network's context, or than 2,048
tokens, is read in parts; of a pair, the longer sentence is cut. In a classifier from scratch, a `Body` gives each unit
of an input a vector, and only the body knows what inputs are.
Legend: B batch, T time, U units of all inputs, D width, C labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.arguments import check_tokens
from chainrule.base.progress import Progress, silent
from chainrule.neural.device import follow_load
from chainrule.neural.layers.basic import drop
from chainrule.neural.network import add_boundaries, padding_starts
from chainrule.neural.scoring import make_batches, pad, round_up
from chainrule.neural.sentence_pairs import MARKERS, SentencePair, join_sentences, separator, with_types
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Float, Float32, Int64
    from numpy import ndarray

    from chainrule.features.classify.labelled.texts import LabelledUnit
    from chainrule.neural.config.network import LabellingConfig
    from chainrule.neural.network import Network
    from chainrule.text.units import UnitTokens

    Both = tuple[UnitTokens, UnitTokens]  # the sentences of a pair
    _Text = UnitTokens | SentencePair

_TOGETHER = 1 << 12  # tokens in a batch
_SORTED = 1 << 10  # texts that are sorted by length before they are batched
_NEVER = 1 << 62
_PART = 1 << 11  # tokens that are read at once by a network with unlimited context


class _Part(NamedTuple):
    """A part of a text that is read at once, and the unit of each input, numbered over all texts; -1 for none.

    second: the input at which the second sentence of a pair begins.
    """

    inputs: Int64[ndarray, " inputs"]
    owners: Int64[ndarray, " inputs"]
    second: int = _NEVER


class FineTunedClassifier(nn.Module):
    """A network, a mix of its layers, and a head."""

    reads = "text"

    def __init__(
        self,
        network: Network,
        labels: Sequence[str],
        unit: LabelledUnit | Literal["pair"],
        *,
        width: int,
        mixed_layers: int = 0,
        dropout: float = 0.0,
    ) -> None:
        """Build the head, and the mix of layers.

        width: of the head's input. mixed_layers: 0 if the head reads the last layer; otherwise it reads sum_j
        softmax(w)_j h_j over this many layers (Peters et al. 2018, equation 1, without the scale, which the
        normalisation would undo, and without the embedding).
        """
        super().__init__()
        self.network, self.labels, self.unit, self.dropout = network, tuple(labels), unit, dropout
        self.mix = nn.Parameter(torch.zeros(mixed_layers))  # w
        self.head = nn.Linear(width, len(self.labels))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Sequence[UnitTokens] | Sequence[Both]) -> Float[Tensor, "U C"]:
        """Return the logits of each unit, (U, C).

        A pair is read as the inputs of two sentences, any other text as those of one.
        """
        texts = [self._joined(item) for item in inputs]
        parts = self._parts(texts)
        return self._logits(self._add_vectors(parts, self._zeros(texts)), parts)

    def train(self, mode: bool = True) -> FineTunedClassifier:
        """Set the mode as `nn.Module.train` does, but leave a frozen network in evaluation mode, without dropout."""
        super().train(mode)
        self.network.train(mode and any(weight.requires_grad for weight in self.network.parameters()))
        return self

    def size(self, item: UnitTokens | Both) -> int:
        """Return the length of the input for a text, with its markers."""
        return len(self._joined(item).tokens) + 2

    def matrices(self) -> list[nn.Parameter]:
        """Return the network's hidden matrices."""
        return self.network.matrices()

    @torch.inference_mode()
    def log_probs(
        self, inputs: Sequence[UnitTokens] | Sequence[Both], progress: Progress = silent
    ) -> list[Float32[ndarray, "units C"]]:
        """Return the log-probabilities of the labels of each text's units, in nats.

        A unit without a token shares those of the next unit, whose tokens span it. Raises SettingError if an id is
        outside the vocabulary.
        """
        log_probs: list[Float32[ndarray, "units C"]] = []
        texts = [self._joined(item) for item in inputs]
        for first in range(0, len(texts), _SORTED):
            progress("classifying", first, len(texts))
            chunk = texts[first : first + _SORTED]
            for text in chunk:
                check_tokens(text.tokens, self.network.vocabulary_size)
            parts, sums = self._parts(chunk), self._zeros(chunk)
            by_length = sorted(parts, key=lambda part: -len(part.inputs))
            for batch in make_batches(by_length, lambda part: len(part.inputs), _TOGETHER):
                self._add_vectors(batch, sums)
            rows = self._logits(sums, parts).float().log_softmax(-1).cpu()
            own_rows = torch.split(rows, [text.number for text in chunk])
            log_probs += [_of_all_units(own.numpy(), text) for own, text in zip(own_rows, chunk, strict=True)]
        return log_probs

    def _zeros(self, texts: Sequence[_Text]) -> Float[Tensor, "U D"]:
        """Return zeros, to which the vectors of units are added."""
        return torch.zeros(sum(text.number for text in texts), self.head.in_features, device=self.network.device)

    def _add_vectors(self, parts: Sequence[_Part], sums: Float[Tensor, "U D"]) -> Float[Tensor, "U D"]:
        """Add the vectors of tokens to the sums of their units, in place; return the sums."""
        lengths = [len(part.inputs) for part in parts]
        device, width = self.network.device, max(lengths)
        if self.training:
            width = min(round_up(width), self.network.encoder.context or 1 << 62)
        tokens = torch.from_numpy(pad([part.inputs for part in parts], END, length=width)).to(device)
        starts = padding_starts(lengths, device, width=width) if self.network.encoder.is_bidirectional else None
        second = torch.tensor([part.second for part in parts], device=device)
        hidden = self._hidden(tokens, starts, second).float()
        owners = pad([part.owners for part in parts], -1, length=width).ravel()
        positions = np.flatnonzero(owners >= 0)
        units, tokens = (torch.from_numpy(array).to(device) for array in (owners[positions], positions))
        return sums.index_add_(0, units, hidden.flatten(0, 1)[tokens])

    def _logits(self, sums: Float[Tensor, "U D"], parts: Sequence[_Part]) -> Float[Tensor, "U C"]:
        """Return the head's output for the normalised mean of each unit."""
        owners = np.concatenate([part.owners for part in parts])
        counts = torch.from_numpy(np.bincount(owners[owners >= 0], minlength=len(sums))).to(sums.device)
        vectors = F.layer_norm(sums / counts[:, None].clamp(min=1), sums.shape[-1:])
        return cast("Tensor", self.head(drop(vectors, self.dropout, self.training)))

    def _hidden(
        self, tokens: Int64[Tensor, "B T"], starts: Bool[Tensor, "B T"] | None, second: Int64[Tensor, " B"]
    ) -> Float[Tensor, "B T D"]:
        """Return the last layer, or the mix of layers."""
        x = self.network.embed(tokens)
        if self.unit == "pair":
            x = with_types(x, self.network.types, second)
        layers = list(self.network.encoder.hidden_layers(x, starts))
        if not len(self.mix):
            return layers[-1]
        weights = self.mix.softmax(0)
        return torch.stack([weight * layer for weight, layer in zip(weights, layers, strict=True)]).sum(0)

    def _joined(self, item: UnitTokens | Both) -> _Text:
        """Return the tokens that are read of an input: a text unchanged, two sentences as one text."""
        if self.unit != "pair":
            return cast("UnitTokens", item)
        first, second = cast("Both", item)
        longest = (self.network.encoder.context or _PART) - MARKERS
        return join_sentences(first, second, separator(self.network.config), longest)

    def _parts(self, texts: Sequence[_Text]) -> list[_Part]:
        """Cut texts into parts.

        If texts are labelled, the </s> before a text belongs to it, so that an empty text has a vector, too.
        """
        parts, first = [], 0
        context = self.network.encoder.context or _PART
        size = context if self.unit == "pair" else max(1, context - 2)  # a pair has its length already
        for text in texts:
            for begin in range(0, max(1, len(text.tokens)), size):
                inputs = self._framed(text, slice(begin, begin + size))[:context]
                owners = np.full(len(inputs), -1 if self.unit == "word" else first)
                own = text.of_tokens[begin : begin + size][: len(inputs) - 1]
                owners[1 : len(own) + 1] = np.where(own < 0, -1, first + own)
                parts.append(_Part(inputs, owners, text.second + 1 if isinstance(text, SentencePair) else _NEVER))
            first += text.number
        return parts

    def _framed(self, text: _Text, part: slice) -> Int64[ndarray, " inputs"]:
        """Return a part of a text with the markers around it; a pair has its separators already."""
        if isinstance(text, SentencePair):
            return np.concatenate([[END], text.tokens[part]]).astype(np.int64)
        return add_boundaries(text.tokens[part], self.network)


def _of_all_units(rows: Float32[ndarray, "units C"], text: _Text) -> Float32[ndarray, "units C"]:
    """Return a row for each unit; a unit without a token has the row of the next unit that has one."""
    read = np.unique(text.of_tokens[text.of_tokens >= 0])
    if len(read) in (0, text.number):
        return rows
    next_read = np.searchsorted(read, np.arange(text.number))
    return rows[read[np.minimum(next_read, len(read) - 1)]]


@torch.no_grad()
def layer_widths(network: Network) -> list[int]:
    """Return the width of each layer of a network's encoder."""
    tokens = torch.full((1, 1), END, device=network.device)
    return [layer.shape[-1] for layer in network.encoder.hidden_layers(network.embed(tokens))]


_BATCH_SIZE = 1 << 12  # the size of all inputs of a batch, padding included

Read = TypeVar("Read", contravariant=True)


class Body(Protocol[Read]):
    """A torch module that gives units vectors; a unit is the whole of an input, or a part of it.

    width: D, of the vectors of units. embedding: the vectors of tokens, (V, E), if it has any. Each unit's vector
    depends on its own input alone, never on the others of a batch.
    """

    @property
    def width(self) -> int: ...

    @property
    def embedding(self) -> nn.Parameter | None: ...

    def __call__(self, inputs: Sequence[Read]) -> Float[Tensor, "U width"]:
        """Return the vectors of the units of all inputs, one input after the other; at least one input."""

    def check(self, item: Read) -> None:
        """Raise SettingError where a network of these settings cannot read an input, such as unknown ids."""

    def size(self, item: Read) -> int:
        """Return the size of an input, in tokens, nodes or cells; at least 1."""

    def units(self, item: Read) -> int:
        """Return how many vectors an input gets."""

    def named_parameters(self) -> Any:
        """Return the named parameters, as `nn.Module.named_parameters` does."""


class ScratchClassifier(nn.Module):
    """A body and a head. It is a `LabelNetwork` of `chainrule.features.classify.objective`."""

    def __init__(self, config: LabellingConfig, body: Body[Any], labels: Sequence[str], unit: str) -> None:
        """Build the head. unit: what is labelled, one of the units of the inputs that the network reads."""
        super().__init__()
        self.config, self.labels, self.unit = config, tuple(labels), unit
        self.body = cast("Any", body)
        self.head = nn.Linear(body.width, len(self.labels))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def reads(self) -> str:
        """The kind of inputs that it reads: a key of INPUTS."""
        return self.config.reads

    def forward(self, inputs: Sequence[Any]) -> Float[Tensor, "U C"]:
        """Return the logits of each unit."""
        vectors = self.body(inputs)
        return cast("Tensor", self.head(drop(vectors, self.config.dropout, self.training)))

    def size(self, item: Any) -> int:
        """Implement `Body.size`."""
        return cast("int", self.body.size(item))

    def matrices(self) -> list[nn.Parameter]:
        """Return the body's matrices, without its vectors of tokens."""
        return [weight for weight in self.body.parameters() if weight.ndim >= 2 and weight is not self.body.embedding]

    def log_probs(self, inputs: Sequence[Any], progress: Progress = silent) -> list[Float32[ndarray, "units C"]]:
        """Return the log-probabilities of the labels of each input's units, in nats.

        Raises SettingError as `Body.check`.
        """
        return self._by_input(lambda own: self(own).float().log_softmax(-1), inputs, "classifying", progress)

    def vectors(self, inputs: Sequence[Any], progress: Progress = silent) -> list[Float32[ndarray, "units D"]]:
        """Return the body's vectors of each input's units, which the head labels. Raises SettingError as
        `Body.check`.
        """
        return self._by_input(lambda own: self.body(own).float(), inputs, "embedding", progress)

    @torch.inference_mode()
    def _by_input(
        self, compute: Callable[[list[Any]], Tensor], inputs: Sequence[Any], doing: str, progress: Progress
    ) -> list[Float32[ndarray, "units N"]]:
        """Return the rows of each input's units.

        compute: a function that gives the rows of some inputs. doing: the task's name, for messages.
        """
        sizes = [self.size(item) for item in inputs]
        rows: dict[int, Float32[ndarray, "units N"]] = {}
        for first in range(0, len(inputs), _SORTED):
            progress(doing, first, len(inputs))
            order = sorted(range(first, min(first + _SORTED, len(inputs))), key=lambda i: -sizes[i])
            for i in order:
                self.body.check(inputs[i])
            for batch in make_batches(order, lambda i: sizes[i], _BATCH_SIZE):
                follow_load()
                found = compute([inputs[i] for i in batch]).cpu()
                own = torch.split(found, [self.body.units(inputs[i]) for i in batch])
                rows |= {i: part.numpy() for i, part in zip(batch, own, strict=True)}
        return [rows[i] for i in range(len(inputs))]
