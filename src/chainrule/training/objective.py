"""What the loop knows of what it trains: the rows of a step, their loss, and the loss on what is kept to validate on.

The first of them is the next token of a stream, in next_token.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


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
