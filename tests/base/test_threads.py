"""Calls on several threads: their order, errors, interruption, and the number of threads."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from chainrule.base import threads as base_threads
from chainrule.base.threads import map_in_order, run, run_all, set_threads, start_in_thread, thread_count
from chainrule.errors import SettingError

WAIT = 30  # seconds, for what happens at once unless something is wrong


def finish(before: list[threading.Thread]) -> None:
    """Waits for the threads that were started since."""
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(WAIT)
            assert not thread.is_alive()


@pytest.fixture
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int | None:
    monkeypatch.setattr(base_threads, "_threads", request.param)
    return request.param


@pytest.mark.parametrize("threads", [None, 1, 2, 3, 100], indirect=True)
@pytest.mark.parametrize("number", [0, 1, 7, 50])
def test_results_come_in_the_order_of_the_calls(threads: int | None, number: int) -> None:
    done: list[int] = []
    calls = [(i, 10) for i in range(number)]
    assert run_all(divmod, calls, on_done=done.append) == [divmod(i, 10) for i in range(number)]
    assert done == list(range(1, number + 1))


@pytest.mark.parametrize("threads", [1, 3], indirect=True)
@pytest.mark.parametrize("ahead", [None, 1, 2, 5])
def test_map_in_order_reads_no_further_ahead_than_allowed(threads: int, ahead: int | None) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for i in range(20):
            taken.append(i)
            yield i

    for i, square in enumerate(map_in_order(lambda item: item * item, items(), ahead=ahead)):
        assert square == i * i
        assert len(taken) <= i + (ahead or 2 * threads)
    assert taken == list(range(20))


def test_threads_that_wait_for_a_consumer_end_when_it_goes_away() -> None:
    before = threading.enumerate()
    results = map_in_order(abs, itertools.count())
    assert next(results) == 0
    results.close()
    finish(before)


def test_the_number_of_threads_is_set_or_in_the_environment_or_that_of_the_processors(monkeypatch) -> None:
    monkeypatch.setattr(base_threads, "_threads", None)
    monkeypatch.delenv("CHAINRULE_THREADS", raising=False)
    assert 1 <= thread_count() <= (os.cpu_count() or 1)
    monkeypatch.setenv("CHAINRULE_THREADS", "3")
    assert thread_count() == 3
    set_threads(5)
    assert thread_count() == 5
    set_threads(None)
    for wrong in ("0", "two", "-1", "1025"):
        monkeypatch.setenv("CHAINRULE_THREADS", wrong)
        with pytest.raises(SettingError, match=r"CHAINRULE_THREADS is .*; expected a whole number from 1 to 1,024"):
            thread_count()
    for wrong in ("two", 1.5, True):
        with pytest.raises(SettingError, match=f"threads is {wrong!r}; expected a whole number from 1 to"):
            set_threads(wrong)
    for number in (0, 1025):
        with pytest.raises(
            SettingError, match=f"threads is {number}; expected a whole number from 1 to 1,024, or None"
        ):
            set_threads(number)


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_calls_that_end_out_of_order_give_results_in_order(threads: int) -> None:
    second_ended = threading.Event()

    def compiled(i: int) -> int:
        if i == 0:
            assert second_ended.wait(WAIT)
        else:
            second_ended.set()
        return i

    assert run_all(compiled, [(0,), (1,)]) == [0, 1]


@pytest.mark.parametrize("threads", [1, 4], indirect=True)
def test_an_error_in_a_call_is_raised_and_no_further_call_starts(threads: int) -> None:
    start_in_thread: list[int] = []
    go_on = threading.Event()

    def compiled(i: int) -> None:
        start_in_thread.append(i)
        if i == 0:
            raise ZeroDivisionError("call 0")
        assert go_on.wait(WAIT)

    before = threading.enumerate()
    with pytest.raises(ZeroDivisionError, match="call 0"):
        run_all(compiled, [(i,) for i in range(100)])
    go_on.set()
    finish(before)
    assert len(start_in_thread) <= threads + 1  # one for each thread, and one for that which failed


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_an_error_on_the_calling_thread_stops_the_others(threads: int) -> None:
    start_in_thread: list[int] = []
    go_on = threading.Event()

    def compiled(i: int) -> None:
        start_in_thread.append(i)
        assert i == 0 or go_on.wait(WAIT)

    def on_done(i: int) -> None:
        raise OSError("the terminal is gone")

    before = threading.enumerate()
    with pytest.raises(OSError, match="the terminal is gone"):
        run_all(compiled, [(i,) for i in range(100)], on_done=on_done)
    go_on.set()
    finish(before)
    assert len(start_in_thread) <= 3


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread")
@pytest.mark.parametrize("threads", [1], indirect=True)
def test_ctrl_c_is_heard_while_a_call_runs_and_no_further_call_starts(threads: int) -> None:
    start_in_thread: list[int] = []
    go_on = threading.Event()

    def compiled(i: int) -> None:
        start_in_thread.append(i)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert go_on.wait(WAIT)

    before = threading.enumerate()
    with pytest.raises(KeyboardInterrupt):
        run_all(compiled, [(i,) for i in range(10)])
    assert start_in_thread == [0]  # and it is running still
    go_on.set()
    finish(before)
    assert start_in_thread == [0]


def test_a_single_call_runs_on_a_thread_of_its_own() -> None:
    assert run(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ValueError, match="invalid literal"):
        run(int, "x")


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_calls_inside_of_calls_start_no_more_threads(threads: int) -> None:
    def inner(i: int) -> str:
        return threading.current_thread().name

    def outer(i: int) -> list[str]:
        return [threading.current_thread().name, *map_in_order(inner, range(3))]

    for name, *others in map_in_order(outer, range(5)):
        assert others == [name] * 3


def test_work_goes_on_beside_the_caller_and_its_result_or_error_comes_when_asked_for() -> None:
    go_on = threading.Event()
    result = start_in_thread(lambda: go_on.wait(WAIT))
    go_on.set()
    assert result() is True
    with pytest.raises(ZeroDivisionError):
        start_in_thread(lambda: 1 // 0)()


class SlowToEnd(threading.Thread):
    def run(self) -> None:
        super().run()
        time.sleep(0.2)


def test_no_worker_outlives_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """At exit, a thread that is still inside torch's code would abort the program."""
    monkeypatch.setattr(base_threads.threading, "Thread", SlowToEnd)
    before = set(threading.enumerate())
    assert list(map_in_order(abs, range(9))) == list(range(9))
    assert set(threading.enumerate()) <= before
    assert start_in_thread(lambda: 5)() == 5
    assert set(threading.enumerate()) <= before
