"""Runs experiments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.experiments.findings import Findings

Name = Literal["memory", "cost", "gradients", "positions"]


@shows_progress
def experiment(name: Name, *, seed: int = 0, progress: ProgressOption = None) -> Findings:
    """What networks remember and cost, how far gradients reach, and how positions extrapolate; as lines and sentences.

    seed: of all random numbers. Each experiment is also a function with more arguments, such as
    `chainrule.experiments.memory.memory`. Raises SettingError for an unknown name.

    good:  print(chainrule.experiment("gradients"))
    """
    from chainrule.experiments.cost import cost
    from chainrule.experiments.gradients import gradients
    from chainrule.experiments.memory import memory
    from chainrule.experiments.positions import positions

    functions: dict[str, Callable[..., Findings]] = {
        "memory": memory,
        "cost": cost,
        "gradients": gradients,
        "positions": positions,
    }
    if name not in functions:
        raise SettingError(f"there is no experiment {name!r}; expected one of {', '.join(functions)}")
    return functions[name](seed=seed, progress=callback(progress))
