"""A classifier from scratch: a body gives each unit of an input a vector, and a linear head labels it.

A body is all that knows what inputs are. Legend: U units of all inputs, D width, C labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from chainrule.base.progress import Progress, silent
from chainrule.neural.dropout import dropped
from chainrule.neural.scoring_batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float, Float32
    from numpy import ndarray

    from chainrule.neural.config.labelling_base import LabellingConfig

_BATCH_SIZE = 1 << 12  # the size of all inputs of a batch, padding included
_SORTED = 1 << 10  # inputs that are sorted by size before they are batched

Read = TypeVar("Read", contravariant=True)


class Body(Protocol[Read]):
    """A torch module that gives units vectors; a unit is the whole of an input, or a part of it.

    width: of the vectors. embedding: the vectors of tokens, (V, E), if it has any. Each unit's vector depends on its
    own input alone, never on the others of a batch.
    """

    @property
    def width(self) -> int: ...

    @property
    def embedding(self) -> nn.Parameter | None: ...

    def __call__(self, inputs: Sequence[Read]) -> Float[Tensor, "U width"]:
        """The vectors of the units of all inputs, one input after the other; at least one input."""

    def check(self, item: Read) -> None:
        """Raises SettingError where a network of these settings cannot read an input, such as unknown ids."""

    def size(self, item: Read) -> int:
        """How much of an input is read, such as tokens, nodes or cells; at least 1."""

    def units(self, item: Read) -> int:
        """How many vectors an input gets."""

    def named_parameters(self) -> Any:
        """As `nn.Module.named_parameters`."""


class ScratchClassifier(nn.Module):
    """A body and a head. It is a `LabelNetwork` of `chainrule.training.labels`."""

    def __init__(self, config: LabellingConfig, body: Body[Any], labels: Sequence[str], unit: str) -> None:
        """unit: what is labelled, one of those of the inputs that the network reads."""
        super().__init__()
        self.config, self.labels, self.unit = config, tuple(labels), unit
        self.body = cast("Any", body)
        self.head = nn.Linear(body.width, len(self.labels))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def reads(self) -> str:
        """What inputs are: a key of INPUTS."""
        return self.config.reads

    def forward(self, inputs: Sequence[Any]) -> Float[Tensor, "U C"]:
        """The logits of each unit."""
        vectors = self.body(inputs)
        return cast("Tensor", self.head(dropped(vectors, self.config.dropout, self.training)))

    def size(self, item: Any) -> int:
        """As `Body.size`."""
        return cast("int", self.body.size(item))

    def matrices(self) -> list[nn.Parameter]:
        """The body's matrices, without its vectors of tokens."""
        return [weight for weight in self.body.parameters() if weight.ndim >= 2 and weight is not self.body.embedding]

    def log_probs(self, inputs: Sequence[Any], progress: Progress = silent) -> list[Float32[ndarray, "units C"]]:
        """The log-probabilities of the labels of each input's units, in nats. Raises SettingError as `Body.check`."""
        return self._by_input(lambda own: self(own).float().log_softmax(-1), inputs, "classifying", progress)

    def vectors(self, inputs: Sequence[Any], progress: Progress = silent) -> list[Float32[ndarray, "units D"]]:
        """The body's vectors of each input's units, which the head labels. Raises SettingError as `Body.check`."""
        return self._by_input(lambda own: self.body(own).float(), inputs, "embedding", progress)

    @torch.inference_mode()
    def _by_input(
        self, compute: Callable[[list[Any]], Tensor], inputs: Sequence[Any], doing: str, progress: Progress
    ) -> list[Float32[ndarray, "units N"]]:
        """The rows of each input's units. compute: those of some inputs. doing: for people."""
        sizes = [self.size(item) for item in inputs]
        rows: dict[int, Float32[ndarray, "units N"]] = {}
        for first in range(0, len(inputs), _SORTED):
            progress(doing, first, len(inputs))
            order = sorted(range(first, min(first + _SORTED, len(inputs))), key=lambda i: -sizes[i])
            for i in order:
                self.body.check(inputs[i])
            for batch in batched(order, lambda i: sizes[i], _BATCH_SIZE):
                found = compute([inputs[i] for i in batch]).cpu()
                own = torch.split(found, [self.body.units(inputs[i]) for i in batch])
                rows |= {i: part.numpy() for i, part in zip(batch, own, strict=True)}
        return [rows[i] for i in range(len(inputs))]
