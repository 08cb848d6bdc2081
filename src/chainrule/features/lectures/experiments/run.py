"""Runs experiments by name; in given minutes, with as many training steps as fit by the measured speed."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args

from chainrule.base.arguments import check_least
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.features.lectures.experiments import HOMES, Name
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.features.lectures.experiments.findings import Findings

_FEW = 0.5  # of the usual steps
_TRIALS = (0.01, 0.01, 0.05)  # shares of the usual steps; the first, which also loads and compiles, does not count


def enlarge(function: Callable[..., Findings], minutes: float, *, seed: int, progress: Progress) -> Findings:
    """Return the findings of an experiment that takes `steps`. Raises SettingError."""
    if not 0 < minutes < float("inf"):
        raise SettingError(f"minutes is {minutes:g}; expected more than 0")
    usual, began = signature(function).parameters["steps"].default, time.perf_counter()
    seconds = []
    for i, share in enumerate(_TRIALS):
        progress("measuring the speed", i, len(_TRIALS))
        started = time.perf_counter()
        function(seed=seed, progress=silent, steps=times_steps(usual, share))
        seconds.append(time.perf_counter() - started)
    left = 60 * minutes - (time.perf_counter() - began)
    factor = factor_for(left, _TRIALS[1:], seconds[1:])
    steps = times_steps(usual, factor)
    began = time.perf_counter()
    findings = function(seed=seed, progress=progress, steps=steps)
    took = time.perf_counter() - began
    call = f"{function.__name__}(seed={seed}, steps={steps})"
    says = [f"{factor:.2g} times the usual steps; the same again: {call}"]
    if factor < _FEW:
        says.append(
            "these steps are few, so the networks may not have learned what the finding is about; the usual ones take "
            f"about {max(1, round(took / factor / 60))} min here"
        )
    return replace(findings, says=[*findings.says, *says])


def factor_for(seconds: float, shares: tuple[float, ...], measured: list[float]) -> float:
    """Return the factor of the steps that fits the seconds, if time is a line through two trials; at least the first's
    share.

    shares, measured: the factors of the trials, and their seconds.
    """
    slope = (measured[1] - measured[0]) / (shares[1] - shares[0])
    slope = slope if slope > 0 else measured[1] / shares[1]
    return max(shares[0], (seconds - max(0.0, measured[0] - slope * shares[0])) / slope)


def times_steps(steps: Any, factor: float) -> Any:
    """Return a number of steps, or each of several, times a factor; at least 1."""
    if isinstance(steps, int):
        return max(1, round(factor * steps))
    return tuple(times_steps(count, factor) for count in steps)


@shows_progress
def experiment(name: Name, *, seed: int = 0, minutes: float | None = None, progress: ProgressOption = None) -> Findings:
    """Measure what textbooks claim of language models; give lines, a finding and other sentences.

    seed: that of all random numbers. minutes: train for as many steps as fit this time, in place of the usual ones.
    Each experiment is also a function with more arguments, such as `memory` in `recurrence.py`. Raises
    SettingError for an unknown name, for a negative seed, and for minutes of an experiment that trains no network.

    good:  print(chainrule.experiment("gradients"))
    good:  chainrule.experiment("scaling", minutes=20)
    """
    if name not in get_args(Name):
        raise SettingError(f"there is no experiment {name!r}; expected one of {', '.join(get_args(Name))}")
    check_least("seed", seed, 0)
    function = function_of(name)
    if minutes is not None and "steps" not in signature(function).parameters:
        raise SettingError(f"minutes is for experiments that train networks; {name} trains none, so leave it out")
    try:
        if minutes is None:
            return function(seed=seed, progress=callback(progress))
        return enlarge(function, minutes, seed=seed, progress=callback(progress))
    except KeyboardInterrupt:  # that of a training run would speak of its folder, and there is none
        raise KeyboardInterrupt("interrupted; an experiment saves nothing before its end") from None


def function_of(name: Name) -> Callable[..., Findings]:
    """Return the function of an experiment; only its module is imported."""
    function: Callable[..., Findings] = getattr(
        import_module(f"chainrule.features.lectures.experiments.{HOMES[name]}"), name
    )
    return function
