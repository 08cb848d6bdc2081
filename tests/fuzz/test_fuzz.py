"""A short campaign: each broken model is refused in words, or gives numbers; `make fuzz` goes on for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from campaign import Cases, Victim, is_finding
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return Cases(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as victim:
        yield victim


@pytest.mark.thorough
def test_whole_models_are_fine(cases: Cases, victim: Victim) -> None:
    for path in [
        *(*cases.models, *cases.vectors, *cases.open_models, *cases.tellers),
        cases.folder / "trigram.arpa",
    ]:
        assert victim.answer(path) == "fine"


@examples(1.2)
@given(st.integers(0, 2**40))
def test_a_broken_model_is_refused_or_gives_numbers(cases: Cases, victim: Victim, number: int) -> None:
    answer = victim.answer(cases.case(number))
    assert not is_finding(answer), answer


@pytest.mark.thorough
def test_a_case_is_reproducible_by_its_number(cases: Cases) -> None:
    def contents(number: int) -> list[bytes]:
        path = cases.case(number)
        return [file.read_bytes() for file in sorted(path.iterdir())] if path.is_dir() else [path.read_bytes()]

    assert len({tuple(contents(number)) for number in range(30)}) > 25
    for number in range(0, 30, 5):
        assert contents(number) == contents(number)


@pytest.mark.thorough
def test_a_killed_process_is_reported_and_replaced(cases: Cases, victim: Victim) -> None:
    assert victim.answer(cases.models[0]) == "fine"
    assert victim._process is not None
    victim._process.kill()
    victim._process.wait()
    assert victim.answer(cases.models[0]) == "died with status -9"
    assert victim.answer(cases.models[0]) == "fine"
