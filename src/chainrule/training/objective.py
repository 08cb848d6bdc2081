"""What the loop knows of what it trains: the rows of a step, their loss, and the loss on what is kept to validate on.

The first of them is the next token of a stream, in next_token.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from chainrule.training.config import TrainingConfig
    from chainrule.training.machine import Machine
    from chainrule.training.processes import Processes
    from chainrule.training.recipe import Recipe

N = TypeVar("N", bound=nn.Module)


class Validated(NamedTuple):
    """A loss, in nats a prediction, how many were made, and what else is to be known, by name.

    figures: bits_per_byte and accuracy are reported, where they are among them.
    """

    loss: float
    predictions: int
    figures: dict[str, float] = {}  # noqa: RUF012  # never changed


class Objective(Protocol):
    """What is minimised. All of a step follows from its number, so that a run can go on at any.

    epoch: the tokens of one pass over what is learnt from. flops_per_token: of a step, forward and back.
    validation_tokens: those of the text to validate on; 0 where there is none. row_tokens: learnt from in a row.
    """

    epoch: int
    flops_per_token: float
    validation_tokens: int
    row_tokens: float

    def tokens(self, steps: int) -> int:
        """Those of the first so many steps, of all processes together; it rises with every step."""

    def parts(self, step: int) -> Sequence[Any]:
        """This process's rows of a step, on its device, in as many parts as are accumulated, none of them empty."""

    def weight(self, step: int) -> float:
        """What the losses of a step, summed over all parts of all processes, are divided by: what is predicted."""

    def loss(self, number: int, part: Any, forward: Callable[..., Any], done: float) -> Tensor:
        """What is minimised, in nats, summed over the rows of one part of a step.

        number: of the part in its step. forward: the network, perhaps compiled. done: the share of the run that is
        over.
        """

    def carried(self) -> list[Tensor]:
        """What a step hands to the next besides the weights, a row for each of this process's rows; mostly nothing."""

    def carry(self, tensors: list[Tensor]) -> None:
        """Goes on with what `carried` gave, the rows of all processes one after the other. Raises IndexError."""

    def validated(self, tokens: int) -> Validated:
        """On about so many tokens, evenly spread over the text; the same in all processes. The network is in evaluation
        mode.
        """

    def unigram_loss(self) -> float:
        """Of the text to validate on, in nats a prediction, by the frequencies of what is learnt from."""


@dataclass(frozen=True)
class Task:
    """How something is trained, and with what."""

    training: TrainingConfig
    recipe: Recipe
    machine: Machine
    processes: Processes


@dataclass(frozen=True)
class Problem(Generic[N]):
    """A network that is not made yet, and what it is to learn.

    training: with nothing left open that the family settles. network: the settings; text: what is learnt from, in words
    and digests; both must be the same for a run to go on. build: makes the network, its weights drawn by torch's random
    numbers. matrices: those of its parameters that Muon makes orthogonal. step: how much memory a step takes, in words;
    smaller: the settings that make it less. note: for people, before the first step. keeps_best: Ctrl-C ends the
    training with the best weights so far, once some have been validated, and not in the middle.
    calmer: the settings that keep its loss from growing without end, where these are not the usual ones.
    """

    training: TrainingConfig
    recipe: Recipe
    network: dict[str, Any]
    text: dict[str, Any]
    build: Callable[[], N]
    matrices: Callable[[N], list[nn.Parameter]]
    objective: Callable[[N, Task], Objective]
    step: str
    smaller: str
    note: str | None = None
    keeps_best: bool = False
    calmer: str | None = None
