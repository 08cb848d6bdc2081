"""The loss on a validation text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.neural.layers.state import detach
from chainrule.training.batches import blocks, lanes
from chainrule.training.objective import ValidationResult

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.training.machine import Machine
    from chainrule.training.processes import Processes

_BATCH_TOKENS = 1 << 13
_SAMPLE_BLOCKS = 2  # at least, in each row of a sample with a carried state


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
) -> ValidationResult:
    """The loss in nats per token.

    carried: read the text in a few rows and carry their states, not in independent blocks. tokens: about
    this many, evenly spread over the text; by default all. The network must be in evaluation mode.
    """
    tokens = stream.size if tokens is None else min(tokens, stream.size)
    total = torch.zeros(2, dtype=torch.float64)  # nats, predictions
    rows = max(1, _BATCH_TOKENS // length)
    if carried:
        rows = max(1, min(rows, stream.size // length))
        if tokens < stream.size:
            rows = max(1, min(rows, tokens // (_SAMPLE_BLOCKS * length)))
    state = None
    parts = (lanes if carried else blocks)(stream, length, rows, tokens)
    for part, counts in ((part, True) for part in parts) if carried else processes.turns(parts):
        inputs = torch.from_numpy(part.inputs).to(machine.device)
        targets = torch.from_numpy(part.targets).to(machine.device)
        if carried and not part.continues:
            state = network.start(len(inputs))
        with machine.precision():
            hidden, state = network(inputs, state if carried else None)
            nats = network.output.loss(hidden, targets)
        state = detach(state)
        if counts:
            total += torch.tensor([float(nats), part.targets.size], dtype=torch.float64)
    if not carried:
        processes.add([total])
    return ValidationResult(float(total[0] / total[1]), int(total[1]))


def unigram_loss(counts: Int64[ndarray, " vocab"], stream: Int32[ndarray, " tokens"]) -> float:
    """Nats per token of a stream, by add-one frequencies of another one."""
    log_probs = np.log(counts + 1) - math.log(int(counts.sum()) + counts.size)
    return float(-log_probs[stream].mean())
