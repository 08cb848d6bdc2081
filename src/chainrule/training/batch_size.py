"""How many rows a step has where the minutes are few for this machine, found by a short trial before the first step."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from chainrule.training.optimisers import orthogonalising_flops
from chainrule.training.plan import fitted_rows, halved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from chainrule.training.job import N, Setup, TrainingJob
    from chainrule.training.objective import Objective

_SHARE, _LONGEST = 0.01, 1.0  # of the minutes, and seconds, for the trial
_UPDATE_SECONDS = 2e-9  # of a parameter, for the optimiser: some 20 bytes of memory are read and written


def rows_for(
    job: TrainingJob[N], network: N, setup: Setup, objective: Objective, matrices: Iterable[Tensor], budget: float
) -> int:
    """Rows of a step, those of the recipe or fewer. objective: with those of the recipe. budget: seconds."""
    recipe, processes = setup.recipe, setup.processes
    choices = halved(recipe.batch, objective.row_tokens, setup.training.accumulate * processes.number)
    if len(choices) == 1:
        return recipe.batch
    row_seconds = _row_seconds(job, network, setup, choices[-1], min(_LONGEST, _SHARE * budget))
    row_flops = objective.flops_per_token * objective.row_tokens
    is_muon = setup.training.optimiser == "muon"
    beside = _UPDATE_SECONDS * sum(weight.numel() for weight in network.parameters())
    if is_muon:
        beside += orthogonalising_flops(matrices) / row_flops * row_seconds
    return int(processes.agreed(float(fitted_rows(choices, budget, row_seconds / processes.number, beside))))


def _row_seconds(job: TrainingJob[N], network: N, setup: Setup, rows: int, enough: float) -> float:
    """What a row takes, forward and back, in steps of so many; neither weights nor random numbers are changed.

    enough: seconds of trial.
    """
    objective = job.objective(network, replace(setup, recipe=replace(setup.recipe, batch=rows)))
    parts = objective.parts(0)
    devices = [setup.machine.device] if setup.machine.device.type == "cuda" else []
    times: list[float] = []
    network.train()
    with torch.random.fork_rng(devices):
        while sum(times) < enough or (len(times) == 1 and times[0] < 2 * enough):
            began = time.perf_counter()
            with setup.machine.precision():
                nats = objective.loss(0, parts[0], network, 0.0)
            nats.backward()  # type: ignore[no-untyped-call]
            setup.machine.wait()
            times.append(time.perf_counter() - began)
    network.zero_grad(set_to_none=True)
    later = times[1:] or times  # the first one makes things ready
    return sum(later) / len(later) / rows * len(parts) * setup.processes.number
