"""Runs experiments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.errors import SettingError
from chainrule.experiments.enlarged import enlarged
from chainrule.experiments.names import TRAINED

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.experiments.findings import Findings
    from chainrule.experiments.names import Name


@shows_progress
def experiment(name: Name, *, seed: int = 0, minutes: float | None = None, progress: ProgressOption = None) -> Findings:
    """Measures what textbooks claim of language models; gives lines, a finding and other sentences.

    seed: of all random numbers. minutes: train for as many steps as fit this time, in place of the usual ones. Each
    experiment is also a function with more arguments, such as `chainrule.experiments.memory.memory`. Raises
    SettingError for an unknown name, for a negative seed, and for minutes of an experiment that trains no network.

    good:  print(chainrule.experiment("gradients"))
    good:  chainrule.experiment("scaling", minutes=20)
    """
    from chainrule.experiments.agreement import agreement
    from chainrule.experiments.attention import attention
    from chainrule.experiments.balance import balance
    from chainrule.experiments.bottleneck import bottleneck
    from chainrule.experiments.cost import cost
    from chainrule.experiments.extrapolation import extrapolation
    from chainrule.experiments.gradients import gradients
    from chainrule.experiments.heads import heads
    from chainrule.experiments.memory import memory
    from chainrule.experiments.order import order
    from chainrule.experiments.paths import paths
    from chainrule.experiments.positions import positions
    from chainrule.experiments.radius import radius
    from chainrule.experiments.retrieval import retrieval
    from chainrule.experiments.saturation import saturation
    from chainrule.experiments.scaling import scaling
    from chainrule.experiments.shots import shots

    functions: dict[str, Callable[..., Findings]] = {
        "memory": memory,
        "cost": cost,
        "gradients": gradients,
        "positions": positions,
        "saturation": saturation,
        "radius": radius,
        "paths": paths,
        "order": order,
        "balance": balance,
        "retrieval": retrieval,
        "agreement": agreement,
        "shots": shots,
        "bottleneck": bottleneck,
        "attention": attention,
        "heads": heads,
        "extrapolation": extrapolation,
        "scaling": scaling,
    }
    if name not in functions:
        raise SettingError(f"there is no experiment {name!r}; expected one of {', '.join(functions)}")
    if seed < 0:
        raise SettingError(f"seed is {seed}; expected 0 or more")
    if minutes is not None and name not in TRAINED:
        raise SettingError(
            f"minutes is for experiments that train networks: {', '.join(TRAINED)}; {name} trains none, so leave it out"
        )
    try:
        if minutes is None:
            return functions[name](seed=seed, progress=callback(progress))
        return enlarged(functions[name], minutes, seed=seed, progress=callback(progress))
    except KeyboardInterrupt:  # that of a training run would speak of its folder, and there is none
        raise KeyboardInterrupt("interrupted; an experiment saves nothing before its end") from None
