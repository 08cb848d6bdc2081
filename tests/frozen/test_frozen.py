"""What users meet is as it was recorded: the quick parts of `make frozen`."""

from __future__ import annotations

import pytest
from record import QUICK, differences
from samples import sampled


@pytest.mark.parametrize("name", sampled(QUICK, [name for name in QUICK if name != "imports"]))
def test_what_users_meet_is_as_recorded(name: str) -> None:
    lines = differences(name)
    shown = "\n".join(lines[:60])
    assert not lines, (
        f"{shown}\n{name} is not as recorded in tests/frozen/. A change is a decision: if it is meant, run "
        "make frozen-record, and commit the difference with what makes it."
    )
