"""What the training loop trains: how to build a network, and its objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from chainrule.training.config import TrainingConfig
    from chainrule.training.defaults import Recipe
    from chainrule.training.machine import Machine
    from chainrule.training.objective import Objective
    from chainrule.training.processes import Processes

N = TypeVar("N", bound="nn.Module")


@dataclass(frozen=True)
class Setup:
    """A run's settings, with the defaults and the machine that they resolve to."""

    training: TrainingConfig
    recipe: Recipe
    machine: Machine
    processes: Processes


@dataclass(frozen=True)
class TrainingJob(Generic[N]):
    """How to build a network, and what it learns.

    training: with the family's defaults. network: its settings. text: names and digests of the texts. A run resumes
    only if `network` and `text` are the same. build: makes the network, with weights from torch's random numbers.
    matrices: the parameters that Muon orthogonalises. step: what a step holds in memory, in words. smaller: the
    settings to lower if that does not fit. notes: for users, before the first step, a sentence each. keeps_best: Ctrl-C
    ends training with the best weights so far, once some have been validated. calmer: what to change if the loss
    diverges, if not the usual settings. blocks: the layers of a network that is deep enough to share them out among
    processes and to recompute their activations; None: of others. whole: of a job that is one phase of a run, the
    settings of the whole run, which have to stay the same for it to resume; None: `training`.
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
    notes: tuple[str, ...] = ()
    keeps_best: bool = False
    calmer: str | None = None
    blocks: Callable[[N], Sequence[nn.Module]] | None = None
    whole: TrainingConfig | None = None
