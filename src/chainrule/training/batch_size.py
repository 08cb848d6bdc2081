"""Chooses the batch size of a short run: a trial before the first step measures what a row takes on this machine."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from chainrule.training.optimisers import orthogonalising_flops
from chainrule.training.plan import batch_choices, choose_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from chainrule.training.job import N, Setup, TrainingJob
    from chainrule.training.objective import Objective

_TRIAL_SHARE, _MAX_TRIAL_SECONDS = 0.01, 1.0  # the trial takes this share of the minutes, but not longer
_UPDATE_SECONDS = 2e-9  # per parameter, for the optimiser, which reads and writes some 20 bytes of each


def choose_batch(
    job: TrainingJob[N], network: N, setup: Setup, objective: Objective, matrices: Iterable[Tensor], budget: float
) -> int:
    """Rows per step: those of the recipe, or fewer. objective: built for the rows of the recipe. budget: seconds."""
    recipe, processes = setup.recipe, setup.processes
    choices = batch_choices(recipe.batch, objective.row_tokens, setup.training.accumulate * processes.number)
    if len(choices) == 1:
        return recipe.batch
    row_seconds = _row_seconds(job, network, setup, choices[-1], min(_MAX_TRIAL_SECONDS, _TRIAL_SHARE * budget))
    row_flops = objective.flops_per_token * objective.row_tokens
    is_muon = setup.training.optimiser == "muon"
    fixed_seconds = _UPDATE_SECONDS * sum(weight.numel() for weight in network.parameters())
    if is_muon:
        fixed_seconds += orthogonalising_flops(matrices) / row_flops * row_seconds
    return int(processes.broadcast(float(choose_rows(choices, budget, row_seconds / processes.number, fixed_seconds))))


def _row_seconds(job: TrainingJob[N], network: N, setup: Setup, rows: int, enough: float) -> float:
    """Seconds per row, forward and backward, in steps of `rows` rows. Weights and random states do not change.

    enough: seconds after which the trial ends.
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
    later = times[1:] or times  # the first one also warms up
    return sum(later) / len(later) / rows * len(parts) * setup.processes.number
