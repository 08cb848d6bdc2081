"""Trains a network on the residual of a known distribution: what it leaves to be learned.

    log P(w | h) = alpha log P_known(w | h) + z_w(h) - log Z(h)

alpha is learned, from 1, and the output begins at 0, so that the first step has the loss of the known distribution. The
trained network and the known distribution are a log-linear mixture with weights 1 and alpha: the softmax of z differs
from exp z by what Z(h) takes in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from chainrule.errors import SettingError
from chainrule.training.objectives.next_token import NextToken
from chainrule.training.objectives.stream import blocks_of, stream_job

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.layers.output import FullSoftmax
    from chainrule.neural.network import Network
    from chainrule.training.job import StreamOptions, TrainingJob


class Residual(nn.Module):
    """A network, and the exponent of the known distribution beside it."""

    def __init__(self, network: Network) -> None:
        """Set the output of the network to 0."""
        super().__init__()
        self.network, self.exponent = network, nn.Parameter(torch.ones(()))
        output = cast("FullSoftmax", network.output)
        for weight in (output.weight, output.bias):
            if weight is not None:
                nn.init.zeros_(weight)

    def forward(self, *inputs: Any) -> Any:
        """Return the same as `Network.forward`."""
        return self.network(*inputs)

    @property
    def weight(self) -> float:
        """The weight alpha of the known distribution in the mixture; 0 or more."""
        return max(0.0, float(self.exponent.detach()))


def check_residual(config: NetworkConfig, options: StreamOptions) -> None:
    """Raise SettingError where a network cannot learn a residual."""
    if config.is_bidirectional:
        raise SettingError(
            "residual_of is for networks that continue texts, and this one reads both sides; leave it out"
        )
    if config.output != "full":
        raise SettingError(f"residual_of needs logits of all tokens, but output is {config.output}; set it to full")
    if config.tied:
        raise SettingError("residual_of needs an output that begins at 0, so it cannot be tied; leave one of them out")
    if options.training.forcing != "teacher":
        raise SettingError(
            f"forcing is {options.training.forcing}, which does not work with residual_of; choose teacher"
        )
    if options.training.shard:
        raise SettingError("shard does not work with residual_of; leave one of them out")
    if options.start is not None:
        raise SettingError("a network that is trained further has an output already; leave residual_of out")


def residual_job(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NetworkConfig, options: StreamOptions
) -> TrainingJob[Residual]:
    """Return a job that trains a network on the residual of `options.known`. Raises TextError, SettingError."""
    assert options.known is not None
    check_residual(config, options)
    known = options.known
    job = stream_job(
        stream,
        vocabulary_size,
        config,
        options,
        lambda network, setup: NextToken(network, setup, stream, options.validation),
    )
    summed = job.summed
    return replace(
        cast("TrainingJob[Any]", job),
        build=lambda: Residual(job.build()),
        matrices=lambda residual: job.matrices(residual.network),
        summed=None if summed is None else lambda residual: summed(residual.network),
        objective=lambda residual, setup: NextToken(
            residual.network, setup, stream, options.validation, known, residual.exponent
        ),
        notes=(*job.notes, known.held_out),
        blocks=None if job.blocks is None else lambda residual: blocks_of(residual.network),
    )
