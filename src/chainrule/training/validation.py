"""The loss on a text that is not learnt from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.neural.encoder_states import detach
from chainrule.training.batches import blocks, lanes
from chainrule.training.objective import Validated

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.training.machine import Machine
    from chainrule.training.processes import Processes

_TOKENS_AT_ONCE = 1 << 13
_BLOCKS_OF_A_SAMPLE = 2  # are read at least with a state that goes on


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
    tokens: int | None = None,
) -> Validated:
    """Nats a token. carried: the text is read in a few rows that go on; else in blocks that know nothing of each other.

    tokens: about so many, evenly spread over the text; by default all. The network must not be in training mode.
    """
    tokens = stream.size if tokens is None else min(tokens, stream.size)
    total, predictions = torch.zeros(1, dtype=torch.float64), 0
    rows = max(1, _TOKENS_AT_ONCE // length)
    if carried:
        rows = max(1, min(rows, stream.size // length))
        if tokens < stream.size:
            rows = max(1, min(rows, tokens // (_BLOCKS_OF_A_SAMPLE * length)))
    state = None
    for number, part in enumerate((lanes if carried else blocks)(stream, length, rows, tokens)):
        predictions += part.targets.size
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
    return Validated(float(total) / predictions, predictions)


def unigram_loss(counts: Int64[ndarray, " vocab"], stream: Int32[ndarray, " tokens"]) -> float:
    """Nats a token of a stream, by the frequencies of another one, each raised by one."""
    log_probs = np.log(counts + 1) - math.log(int(counts.sum()) + counts.size)
    return float(-log_probs[stream].mean())
