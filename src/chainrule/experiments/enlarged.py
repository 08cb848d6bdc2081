"""An experiment with as many training steps as fit some minutes, by the measured speed."""

from __future__ import annotations

import time
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.experiments.findings import Findings

_FEW = 0.5  # of the usual steps
_TRIALS = (0.01, 0.01, 0.05)  # shares of the usual steps; the first, which also loads and compiles, does not count


def enlarged(function: Callable[..., Findings], minutes: float, *, seed: int, progress: Progress) -> Findings:
    """The findings of an experiment that takes `steps`. Raises SettingError."""
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
    """The factor of the steps that fits the seconds, if time is a line through two trials; at least the first's share.

    shares, measured: of the trials, whose factor and seconds they are.
    """
    slope = (measured[1] - measured[0]) / (shares[1] - shares[0])
    slope = slope if slope > 0 else measured[1] / shares[1]
    return max(shares[0], (seconds - max(0.0, measured[0] - slope * shares[0])) / slope)


def times_steps(steps: Any, factor: float) -> Any:
    """A number of steps, or each of several, times a factor; at least 1."""
    if isinstance(steps, int):
        return max(1, round(factor * steps))
    return tuple(times_steps(count, factor) for count in steps)
