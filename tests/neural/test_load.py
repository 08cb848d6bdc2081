"""Torch's threads follow the load of the machine, unless somebody has set how many."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from chainrule.base.threads import FreeProcessors, set_threads
from chainrule.neural import device

if TYPE_CHECKING:
    from collections.abc import Iterator


class Measured:
    """Free processors that are measured as the test says."""

    def __init__(self) -> None:
        self.free: float | None = None
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def measure(self) -> float | None:
        return self.free


@pytest.fixture
def processors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    """Of a machine with four, whose load is measured at every call."""
    for name in ("OMP_NUM_THREADS", "CHAINRULE_THREADS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    set_threads(None)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    own: dict[str, Any] = {"_all_threads": 4, "_chosen": 4, "_SECONDS_BETWEEN": 0, "_set_here": threading.local()}
    for name, value in {**own, "_seen": (time.perf_counter(), 0.0)}.items():
        monkeypatch.setattr(device, name, value)
    measured = Measured()
    monkeypatch.setattr(device, "free_processors", measured)
    yield measured
    torch.set_num_threads(before)


def test_threads_are_as_many_as_free_processors(processors: Measured) -> None:
    for free, threads in ((4.0, 4), (2.1, 2), (1.75, 2), (0.3, 1), (None, 1), (64.0, 4)):
        processors.free = free
        device.follow_load()
        assert torch.get_num_threads() == threads


def test_what_others_did_in_a_pause_does_not_count(processors: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_SECONDS_BETWEEN", 1)
    monkeypatch.setattr(device, "_seen", (99.0, 5.0))
    monkeypatch.setattr(device, "_followed", 99.0)
    seen = []
    # By the clock, of this program, and free processors: others left before the pause, and a step of 2 s is none.
    for now, own, free in (
        (100.0, 7.0, 1.0),
        (100.9, 7.8, 4.0),
        (103.0, 7.9, 1.0),
        (103.9, 9.7, 4.0),
        (105.9, 11.7, 2.0),
    ):
        monkeypatch.setattr(time, "perf_counter", lambda now=now: now)
        monkeypatch.setattr(time, "process_time", lambda own=own: own)
        processors.free = free
        device.follow_load()
        seen.append((torch.get_num_threads(), processors.begun))
    assert seen == [(1, 0), (1, 0), (4, 1), (4, 1), (2, 1)]


def test_every_thread_of_a_program_follows(processors: Measured) -> None:
    processors.free = 2.0
    device.follow_load()
    numbers = []
    other = threading.Thread(target=lambda: (device.follow_load(), numbers.append(torch.get_num_threads())))
    other.start()
    other.join()
    assert numbers == [2]


@pytest.mark.parametrize("setter", ["set_threads", "OMP_NUM_THREADS", "LOCAL_WORLD_SIZE", "torch"])
def test_a_number_that_was_set_stays(processors: Measured, setter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    processors.free = 1.0
    if setter == "set_threads":
        set_threads(3)
    elif setter == "torch":
        torch.set_num_threads(3)
    else:
        monkeypatch.setenv(setter, "4")
    try:
        before = torch.get_num_threads()
        device.follow_load()
        assert torch.get_num_threads() == before != 1
    finally:
        set_threads(None)


def test_free_is_what_is_idle_and_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors in two seconds, one of them idle for 1.5; this process has used 1.25 seconds."""
    times = iter([(10.0, 100.0, 3.0), (10.05, 100.0, 3.0), (12.0, 101.5, 4.25), (13.0, 102.5, 4.25)])
    monkeypatch.setattr(FreeProcessors, "_times", lambda self: next(times))
    processors = FreeProcessors()
    assert processors.measure() is None
    assert processors.measure() == pytest.approx((1.5 + 1.25) / 2)
    assert processors.measure() == pytest.approx(1.0)


def test_the_system_tells_the_times() -> None:
    processors = FreeProcessors()
    time.sleep(0.11)
    free = processors.measure()
    assert free is None or free >= 0
