"""The loss on a text that is not learnt from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from chainrule.neural.states import detach
from chainrule.training.batches import blocks, lanes

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.training.machine import Machine
    from chainrule.training.processes import Processes

_TOKENS_AT_ONCE = 1 << 13


@dataclass(frozen=True, kw_only=True)
class Validation:
    """A text to validate on. What the spelling of its unknown tokens costs, no network knows, but bits a byte do."""

    stream: Int32[ndarray, " tokens"]
    bytes: int
    spelling: float = 0.0  # nats

    def bits_per_byte(self, loss: float) -> float:
        """loss: nats a token."""
        return (loss * self.stream.size + self.spelling) / math.log(2) / max(1, self.bytes)


@torch.no_grad()
def validation_loss(
    network: Network,
    stream: Int32[ndarray, " tokens"],
    length: int,
    machine: Machine,
    processes: Processes,
    *,
    carried: bool,
) -> float:
    """Nats a token. carried: the text is read in a few rows that go on; else in blocks that know nothing of each other.

    The network must not be in training mode.
    """
    total = torch.zeros(1, dtype=torch.float64)
    rows = max(1, _TOKENS_AT_ONCE // length)
    if carried:
        rows = max(1, min(rows, stream.size // length))
    state = None
    for number, part in enumerate((lanes if carried else blocks)(stream, length, rows)):
        if not carried and number % processes.number != processes.rank:
            continue
        inputs = torch.from_numpy(part.inputs).to(machine.device)
        targets = torch.from_numpy(part.targets).to(machine.device)
        if carried and not part.goes_on:
            state = network.start(len(inputs))
        with machine.precision():
            hidden, state = network(inputs, state if carried else None)
            nats = network.output.loss(hidden, targets)
        state = detach(state)
        total += nats.double().cpu()
    if not carried:
        processes.add([total])
    return float(total) / stream.size
