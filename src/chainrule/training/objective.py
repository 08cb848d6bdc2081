"""What the training loop needs of an objective: the rows of a step, their loss, and the validation loss.

The simplest implementation is next_token.py: the next token of a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


class ValidationResult(NamedTuple):
    """A validation loss in nats per prediction, the number of predictions, and other figures by name.

    figures: bits_per_byte and accuracy are reported if they are among them.
    """

    loss: float
    predictions: int
    figures: dict[str, float] = {}  # noqa: RUF012  # never changed


class Objective(Protocol):
    """What is minimised. Steps are pure functions of their index, so that a run can resume at any.

    epoch: tokens in one pass over the training data. flops_per_token: forward and backward. validation_tokens: 0 if
    there is no validation data. row_tokens: tokens in a row, on average.
    """

    epoch: int
    flops_per_token: float
    validation_tokens: int
    row_tokens: float

    def tokens(self, steps: int) -> int:
        """Tokens in the first `steps` steps, over all processes; strictly increasing."""

    def parts(self, step: int) -> Sequence[Any]:
        """This process's rows of a step, on its device, in as many parts as are accumulated; no part is empty."""

    def weight(self, step: int) -> float:
        """The number of predictions in a step over all processes, which divides the sum of losses."""

    def loss(self, number: int, part: Any, forward: Callable[..., Any], done: float) -> Tensor:
        """The loss of one part of a step, in nats, summed over its rows.

        number: the index of the part. forward: the network, perhaps compiled. done: the share of the run that is over.
        """

    def carried(self) -> list[Tensor]:
        """The state that a step hands to the next, besides the weights; batch first, for this process's rows."""

    def carry(self, tensors: list[Tensor]) -> None:
        """Restores what `carried` gave, with the rows of all processes in order. Raises IndexError."""

    def validated(self, tokens: int) -> ValidationResult:
        """The loss on about `tokens` tokens, evenly spread over the validation data; the same in all processes.

        The network is in evaluation mode.
        """

    def unigram_loss(self) -> float:
        """The validation loss of training frequencies (add-one), in nats per prediction."""


class CarriesNothing:
    """The methods of an Objective that hands no state from step to step."""

    def carried(self) -> list[Tensor]:
        return []

    def carry(self, tensors: list[Tensor]) -> None:
        """There is nothing to restore."""
