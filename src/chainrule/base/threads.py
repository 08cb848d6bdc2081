"""Work on threads: results in a fixed order, Ctrl-C heard at any time; work in slices; and the number of threads."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

R = TypeVar("R")
T = TypeVar("T")

MOST_THREADS = 1024  # more than any machine has processors; far more end torch's OpenMP with a segmentation fault
_threads: int | None = None  # see set_threads
_on_threads_set: list[Callable[[], None]] = []
_thread = threading.local()  # is_worker: set on the threads of `map_in_order`
_slices: ContextVar[Slices | None] = ContextVar("slices", default=None)  # to which the running work belongs


def set_threads(number: int | None) -> None:
    """Set how many threads kernels and networks may use. None: one per processor, and torch's own default.

    Results of kernels do not depend on it; those of networks may differ in the last bits. Raises SettingError.
    """
    global _threads
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if number is not None and not (is_whole and 1 <= number <= MOST_THREADS):
        raise SettingError(f"threads is {number!r}; expected a whole number from 1 to {MOST_THREADS:,}, or None")
    _threads = number
    for callback in _on_threads_set:
        callback()


def on_threads_set(callback: Callable[[], None]) -> None:
    """Register a callback that `set_threads` calls, for libraries that have threads."""
    if callback not in _on_threads_set:
        _on_threads_set.append(callback)


def requested_threads() -> int | None:
    """Return the number set by `set_threads`, or by the environment variable CHAINRULE_THREADS. Raises SettingError."""
    requested = os.environ.get("CHAINRULE_THREADS", "")
    if _threads is not None or not requested:
        return _threads
    if not requested.isdecimal() or not 1 <= int(requested) <= MOST_THREADS:
        raise SettingError(f"CHAINRULE_THREADS is {requested!r}; expected a whole number from 1 to {MOST_THREADS:,}")
    return int(requested)


def thread_count() -> int:
    """Return the number requested, or the number of processors that this process may use."""
    if (requested := requested_threads()) is not None:
        return requested
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class FreeProcessors:
    """How many of the processors that this process may use it has to itself, by the system's times (Linux)."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Leave out all that was before now."""
        self._before = self._times()

    def measure(self) -> float | None:
        """Return how many processors were idle, or busy with this process, since the last call or since this was made.

        None where the system does not say, and in less than a tenth of a second.
        """
        now = self._times()
        if now is None or self._before is None or now[0] - self._before[0] < 0.1:
            return None
        seconds, idle, own = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        return (idle + own) / seconds

    def _times(self) -> tuple[float, float, float] | None:
        """Return times in seconds: by the clock, idle of all processors that may be used, and of this process."""
        try:
            with open("/proc/stat", encoding="ascii") as file:
                rows = [line.split() for line in file if line.startswith("cpu")]
        except OSError:
            return None
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = sum(int(row[4]) + int(row[5]) for row in rows if row[0] in mine)  # idle, and waiting for a disk
        return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time()


free_processors = FreeProcessors()  # made when the program starts, so that the first measure has something to tell


def run_all(
    compiled: Callable[..., R], calls: Sequence[tuple[Any, ...]], *, on_done: Callable[[int], None] | None = None
) -> list[R]:
    """Call a kernel with each of several argument tuples, on threads; the results are in the order of the calls.

    on_done: a callback, called on the calling thread after every call with the number of finished calls. Ctrl-C is
    heard at any time; no further call starts after it.
    """
    results = []
    for result in map_in_order(lambda call: compiled(*call), calls, ahead=len(calls)):
        results.append(result)
        if on_done is not None:
            on_done(len(results))
    return results


def map_in_order(function: Callable[[T], R], items: Iterable[T], *, ahead: int | None = None) -> Iterator[R]:
    """Yield what the built-in `map` yields, computed on threads.

    ahead: how many items may be read before their results are consumed; by default twice the number of threads. The
    calling thread reads the items and hears Ctrl-C at any time. An error is raised as soon as it occurs, and no further
    call starts. A call inside another one starts no further threads.
    """
    if getattr(_thread, "is_worker", False):
        yield from map(function, items)
        return
    threads = thread_count()
    ahead = ahead or 2 * threads
    waiting: queue.SimpleQueue[tuple[int, T] | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    stopped = threading.Event()

    def work() -> None:
        _thread.is_worker = True
        while (job := waiting.get()) is not None and not stopped.is_set():
            i, item = job
            try:
                result = function(item)
            except BaseException as error:
                finished.put((i, None, error))
                continue
            job = item = None  # type: ignore[assignment]  # the consumer of the result may rely on the item being freed
            finished.put((i, result, None))
            result = None  # type: ignore[assignment]

    workers: list[threading.Thread] = []
    results: dict[int, R] = {}
    remaining = iter(items)
    submitted = received = yielded = 0
    try:
        while True:
            for item in itertools.islice(remaining, ahead - (submitted - yielded)):
                waiting.put((submitted, item))
                submitted += 1
                if len(workers) < threads:
                    workers.append(threading.Thread(target=copy_context().run, args=(work,), daemon=True))
                    workers[-1].start()
            if yielded == submitted:
                return
            while yielded not in results:
                i, result, error = finished.get()
                received += 1
                if error is not None:
                    raise error
                results[i] = result
            yield results.pop(yielded)
            yielded += 1
    finally:
        stopped.set()
        for _ in workers:
            waiting.put(None)
        if received == submitted:  # idle workers end at once; one still inside torch's code would abort an exit
            for worker in workers:
                worker.join()


def run(compiled: Callable[..., R], *args: Any, while_waiting: Callable[[], None] | None = None) -> R:
    """Call a long kernel on a separate thread, so that Ctrl-C stops the main thread at once.

    while_waiting: a callback, called once a second, on the calling thread.
    """
    return start_in_thread(lambda: compiled(*args), while_waiting)()


def start_in_thread(work: Callable[[], R], while_waiting: Callable[[], None] | None = None) -> Callable[[], R]:
    """Start `work` on a separate thread. Returns a function that waits for its result, or raises its error.

    while_waiting: a callback, called once a second while that function waits.
    """
    finished: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work_on_thread() -> None:
        try:
            finished.put((work(), None))
        except BaseException as error:
            finished.put((None, error))

    def result() -> R:
        while True:
            try:
                value, error = finished.get(timeout=None if while_waiting is None else 1.0)
            except queue.Empty:
                if while_waiting is not None:
                    while_waiting()
                continue
            thread.join()
            if error is not None:
                raise error
            return value

    thread = threading.Thread(target=work_on_thread, daemon=True)
    thread.start()
    return result


def pause() -> None:
    """Let `Slices` give others their turn, or end the work, at a point in long work. Elsewhere it does nothing."""
    if (slices := _slices.get()) is not None:
        slices.pause()


class Ended(BaseException):
    """Nobody waits for the work any more: what `pause` raises in it. No Exception, so that no work survives it."""


class Slices:
    """A function that runs on a separate thread, a slice at a time: never while its owner runs.

    good:  work = Slices(lambda: score(texts), 0.03)
           while not work.resume(): others_have_their_turn()
           work.result()
    """

    def __init__(self, function: Callable[[], Any], seconds: float) -> None:
        """Prepare to run the function in slices.

        seconds: how long a slice takes at least; it ends at the first `pause` after them.
        """
        self._function, self._seconds = function, seconds
        self._may_run, self._has_paused = threading.Semaphore(0), threading.Semaphore(0)
        self._began = 0.0
        self._is_unwanted = self._is_done = False
        self._outcome: tuple[Any, BaseException | None] = None, None
        self._thread: threading.Thread | None = None

    def resume(self) -> bool:
        """Run the next slice; return whether the function has ended."""
        self._began = time.perf_counter()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="slices", daemon=True)
            self._thread.start()
        else:
            self._may_run.release()
        self._has_paused.acquire()
        if self._is_done:
            self._thread.join()
        return self._is_done

    def end(self) -> None:
        """End the function where it has paused; the rest of it is not done."""
        self._is_unwanted = True
        while self._thread is not None and not self._is_done:
            self.resume()

    def result(self) -> Any:
        """Return the function's result, once it has ended. Raises what it raised."""
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def pause(self) -> None:
        """Pause the function if its slice is over; the function calls this.

        Raises Ended if nobody waits for its result.
        """
        if time.perf_counter() - self._began >= self._seconds:
            self._has_paused.release()
            self._may_run.acquire()
        if self._is_unwanted:
            raise Ended

    def _run(self) -> None:
        _slices.set(self)
        try:
            self._outcome = self._function(), None
        except BaseException as error:
            self._outcome = None, error
        self._is_done = True
        self._has_paused.release()
