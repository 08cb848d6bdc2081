"""What is trained, for the loop: a network that is not built yet, and what it is to learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from chainrule.training.config import TrainingConfig
    from chainrule.training.defaults import Recipe
    from chainrule.training.machine import Machine
    from chainrule.training.objective import Objective
    from chainrule.training.processes import Processes

N = TypeVar("N", bound="nn.Module")


@dataclass(frozen=True)
class Setup:
    """What a run's settings come to on this machine."""

    training: TrainingConfig
    recipe: Recipe
    machine: Machine
    processes: Processes


@dataclass(frozen=True)
class TrainingJob(Generic[N]):
    """A network that is not built yet, and what it is to learn.

    training: with nothing left open that the family settles. network: its settings; text: what it learns from, in words
    and digests; both must be the same for a run to go on. build: makes the network, its weights drawn by torch's random
    numbers. matrices: those of its parameters that Muon makes orthogonal. step: what a step holds in memory, in words;
    smaller: the settings that make it less. note: for people, before the first step. keeps_best: Ctrl-C ends the
    training with the best weights so far, once some have been validated. calmer: the settings that keep its loss from
    growing without end, where these are not the usual ones.
    """

    training: TrainingConfig
    recipe: Recipe
    network: dict[str, Any]
    text: dict[str, Any]
    build: Callable[[], N]
    matrices: Callable[[N], list[nn.Parameter]]
    objective: Callable[[N, Setup], Objective]
    step: str
    smaller: str
    note: str | None = None
    keeps_best: bool = False
    calmer: str | None = None
