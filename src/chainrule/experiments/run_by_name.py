"""Runs experiments by name."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, get_args

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.errors import SettingError
from chainrule.experiments.enlarged import enlarged
from chainrule.experiments.names import HOMES, Name

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.experiments.findings import Findings


@shows_progress
def experiment(name: Name, *, seed: int = 0, minutes: float | None = None, progress: ProgressOption = None) -> Findings:
    """Measures what textbooks claim of language models; gives lines, a finding and other sentences.

    seed: of all random numbers. minutes: train for as many steps as fit this time, in place of the usual ones. Each
    experiment is also a function with more arguments, such as `chainrule.experiments.memory.memory`. Raises
    SettingError for an unknown name, for a negative seed, and for minutes of an experiment that trains no network.

    good:  print(chainrule.experiment("gradients"))
    good:  chainrule.experiment("scaling", minutes=20)
    """
    if name not in get_args(Name):
        raise SettingError(f"there is no experiment {name!r}; expected one of {', '.join(get_args(Name))}")
    if seed < 0:
        raise SettingError(f"seed is {seed}; expected 0 or more")
    function = function_of(name)
    if minutes is not None and "steps" not in signature(function).parameters:
        raise SettingError(f"minutes is for experiments that train networks; {name} trains none, so leave it out")
    try:
        if minutes is None:
            return function(seed=seed, progress=callback(progress))
        return enlarged(function, minutes, seed=seed, progress=callback(progress))
    except KeyboardInterrupt:  # that of a training run would speak of its folder, and there is none
        raise KeyboardInterrupt("interrupted; an experiment saves nothing before its end") from None


def function_of(name: Name) -> Callable[..., Findings]:
    """The function of an experiment; only its module is imported."""
    function: Callable[..., Findings] = getattr(import_module(f"chainrule.experiments.{HOMES[name]}"), name)
    return function
