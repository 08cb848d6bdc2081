"""The field's formula as a module: softmax(U f(w_1 .. w_i-1)), with an embedding before f.

It is fed with </s> before the first token of a text, so that a text begins as every document of a stream does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn

from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.network import Memory
    from chainrule.neural.layers import Embedding
    from chainrule.neural.output import AdaptiveSoftmax, FullSoftmax, SampledSoftmax
    from chainrule.neural.states import State


class Encoder(Protocol):
    """A context encoder, f: an nn.Module. Causality and the state that it goes on from are its own business.

    is_bidirectional: whether a position sees what comes after it; then there is no state to go on from.
    context: the most tokens that a state holds; before one more is read, it keeps the last `context // 2` and reads
    them again by themselves. None: a state never fills.
    reach: where a state never fills, the last tokens that a prediction depends on; None: all.
    """

    width: int  # of what it gives
    is_bidirectional: bool
    context: int | None
    reach: int | None

    def start(self, rows: int) -> State:
        """The state of rows that have read nothing."""

    def __call__(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, D) -> (B, T, `width`), and the state to go on from, which may be None if none was given.

        state: what `start` or this gave; it is used up. starts: (B, T), True where a row forgets what it has read and
        begins anew at that position; the borders of packed documents, and what is left of a row's beginning.
        """

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """What each layer gives, from the first on, to rows that are read from their beginning: (B, T, D) each.

        The last one is what a call gives. x, starts: as for that.
        """


class Network(nn.Module):
    """Embedding, encoder, output."""

    def __init__(
        self,
        config: NetworkConfig,
        embedding: Embedding,
        encoder: nn.Module,
        output: FullSoftmax | SampledSoftmax | AdaptiveSoftmax,
    ) -> None:
        """encoder: an Encoder."""
        super().__init__()
        self.config, self.embedding, self.encoder, self.output = config, embedding, encoder, output
        self.vocabulary_size = len(embedding.weight)

    def forward(self, tokens: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """tokens: (B, T), int64, </s> before each first one -> (B, T, D), and the state to go on from.

        state: what `start` or this gave. starts: as the encoder's. A network whose memory is that of a document begins
        anew at every </s> by itself.
        """
        if self.memory == "document":
            borders = tokens == END
            starts = borders if starts is None else starts | borders
        return cast("tuple[Tensor, State]", self.encoder(self.embedded(tokens), state, starts))

    def embedded(self, tokens: Tensor) -> Tensor:
        """The vectors of what is read, (B, T) -> (B, T, D); the </s> before a text is <s> where texts begin with that.

        A network that has a document's memory reads </s> only as what a text begins with.
        """
        if self.config.begins_with == "<s>" and not self.causal.is_bidirectional:
            tokens = torch.where(tokens == END, BEGIN, tokens)
        return cast("Tensor", self.embedding(tokens))

    def start(self, rows: int) -> State:
        """The state of rows that have read nothing."""
        return self.causal.start(rows)

    @property
    def causal(self) -> Encoder:
        return cast("Encoder", self.encoder)

    @property
    def memory(self) -> Memory:
        return self.config.memory

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def matrices(self) -> list[nn.Parameter]:
        """The hidden matrices, whose gradients Muon makes orthogonal: of the encoder, with two dimensions."""
        return [weight for name, weight in self.encoder.named_parameters() if weight.ndim == 2 and not _is_table(name)]

    def others(self) -> list[nn.Parameter]:
        """All parameters but the `matrices`; each once."""
        taken = {id(weight) for weight in self.matrices()}
        return [weight for weight in self.parameters() if id(weight) not in taken]


def _is_table(name: str) -> bool:
    """Whether a parameter of two dimensions holds a vector for each of some positions, and is no map of vectors."""
    return name.startswith(("places.", "bias."))
