"""Every experiment is found by its name, and runs in the minutes that are given."""

from __future__ import annotations

from inspect import signature
from typing import get_args

import pytest

import chainrule
from chainrule.base.progress import silent
from chainrule.drawing.plots import Axis
from chainrule.errors import SettingError
from chainrule.features.lectures.experiments import Name
from chainrule.features.lectures.experiments.findings import Findings
from chainrule.features.lectures.experiments.run import enlarge, factor_for, function_of, times_steps


@pytest.mark.parametrize("name", get_args(Name))
def test_every_experiment_is_a_function_in_a_module_of_its_name(name: Name) -> None:
    parameters = signature(function_of(name)).parameters
    assert {"seed", "progress"} < set(parameters)
    assert all(parameter.default is not parameter.empty for parameter in parameters.values())


def test_minutes_set_the_steps() -> None:
    assert factor_for(25.0, (0.01, 0.05), [2.0, 4.0]) == pytest.approx((25 - 1.5) / 50)  # 1.5 s, and 50 a usual run
    assert factor_for(1.0, (0.01, 0.05), [2.0, 4.0]) == 0.01
    assert factor_for(10.0, (0.01, 0.05), [2.0, 1.0]) == pytest.approx((10 - 1.8) / 20)  # a noisy first trial
    assert times_steps((50, 3), 0.1) == (5, 1)
    counted: list[int] = []

    def tried(*, seed: int, progress: object, steps: int = 200) -> Findings:
        counted.append(steps)
        return Findings(title=f"seed {seed}", x=Axis(label="x"), y=Axis(label="y"), lines=[])

    findings = enlarge(tried, 0.001, seed=3, progress=silent)
    assert counted[:3] == [2, 2, 10]
    times = next(sentence for sentence in findings.sentences if "times the usual steps" in sentence)
    assert times.endswith(f"the same again: tried(seed=3, steps={counted[3]})")
    assert ("these steps are few" in findings.sentences[-1]) == (counted[3] < 100)
    with pytest.raises(SettingError, match="minutes is for experiments that train networks; order trains none"):
        chainrule.experiment("order", minutes=1)
    with pytest.raises(SettingError, match="radius trains none"):
        chainrule.experiment("radius", minutes=1)
    with pytest.raises(SettingError, match="minutes is 0; expected more than 0"):
        chainrule.experiment("scaling", minutes=0)
