"""Compiled kernels: Numba's decorator, where compiled code is kept, and how it runs on threads beside Ctrl-C.

Numba's own cache misses a changed callee in another file and fails at import where nothing can be written. So the cache
folder is named after a digest of every source file that kernels are made of (`*_kernels.py`, which import nothing else
of ours but this file, `lanes.py` and `protocol.py`), and lies in the first place that can be written.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import queue
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.extending import intrinsic, register_jitable

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

PACKAGE = Path(__file__).parents[1]
_threads: int | None = None  # see set_threads
_on_threads_set: list[Callable[[], None]] = []
_configuring = threading.Lock()  # Numba's settings are one for all threads, and several may import kernels
_worker = threading.local()  # is_one: on the threads of `in_order`


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function on its first call; it runs without the interpreter's lock, and divides by zero as NumPy does.

    A kernel only computes: its caller checks the arguments and allocates. Never mix uint64 with int64 in one: Numba
    makes that float64. Since it allocates nothing, no references are counted: that would be a locked instruction for
    each array of a call that is not inlined, on which threads that share the array wait for each other.
    """
    return _compiled(function, nogil=True, counted=False)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, for what makes arrays, too: it allocates them, or sees memory as one by `array_at`."""
    return _compiled(function, nogil=True, counted=True)


def tiny_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `allocating_kernel`, for what takes less time than to give the interpreter's lock away and take it back."""
    return _compiled(function, nogil=False, counted=True)


def _compiled(function: Callable[P, R], *, nogil: bool, counted: bool) -> Callable[P, R]:
    folder = cache_folder()
    with _configuring:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = str(folder or "")  # type: ignore[attr-defined]
        try:
            compiled: Callable[P, R] = numba.njit(  # type: ignore[call-overload] # the wrapper for C is never called
                cache=folder is not None, nogil=nogil, error_model="numpy", _nrt=counted, no_cfunc_wrapper=True
            )(function)
            _without_literals(compiled)
            return compiled
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


class _WithoutCollection(event.Listener):
    """No search for garbage while Numba compiles, which takes a tenth of the time: nearly all that it makes stays."""

    def __init__(self) -> None:
        self._compiling = 0
        self._was_enabled = False

    def on_start(self, event: Any) -> None:
        if self._compiling == 0:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._compiling += 1

    def on_end(self, event: Any) -> None:
        self._compiling -= 1
        if self._compiling == 0 and self._was_enabled:
            gc.enable()


event.register("numba:compile", _WithoutCollection())  # type: ignore[no-untyped-call]


def _without_literals(compiled: Any) -> None:
    """Has a kernel that others call compiled once for all integers, and not again for each that is written as a number.

    LLVM sees the numbers all the same, where it inlines the kernel.
    """
    template_for = getattr(compiled, "get_call_template", None)
    if template_for is None:  # with NUMBA_DISABLE_JIT, kernels stay functions
        return

    def plain(kind: Any) -> Any:
        return types.unliteral(kind)  # type: ignore[no-untyped-call]

    def get_call_template(args: Any, kws: Any) -> Any:
        return template_for(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    compiled.get_call_template = get_call_template


def _prefetch(_: Any, array: Any, place: Any) -> Any:
    """What Numba makes of `prefetch`: LLVM's instruction of that name."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])  # type: ignore[no-untyped-call]
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        to_read, to_be_kept, data = number(0), number(3), number(1)
        builder.call(function, [builder.bitcast(element, pointer), to_read, to_be_kept, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# In a kernel, prefetch(array, place) asks the memory for array[place], which is to be read soon, and does not wait for
# it. array: of one dimension. A place outside of it does no harm.
prefetch: Callable[..., None] = intrinsic(_prefetch)


def _eight_bytes(_: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])  # type: ignore[no-untyped-call]
        return builder.load(builder.bitcast(element, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, types.intp), generate


# In a kernel, eight_bytes(text, place) is text[place:place + 8] as one number, the first byte the lowest, as the
# processors that we know have it. text: bytes side by side; nobody checks that there are eight.
eight_bytes: Callable[..., Any] = intrinsic(_eight_bytes)


def _trailing_zeros(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


# In a kernel, trailing_zeros(number) is how many of the lowest bits of a uint64 are 0; 64 for none at all.
trailing_zeros: Callable[..., Any] = intrinsic(_trailing_zeros)


def _pointer_of(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


_pointer: Callable[..., Any] = intrinsic(_pointer_of)


@register_jitable
def array_at(address: int, size: int, dtype: Any) -> Any:
    """In a kernel: the array of `size` elements at an address, which the caller answers for."""
    return numba.carray(_pointer(address), size, dtype)  # type: ignore[attr-defined]


def direct(compiled: Callable[..., R], *examples: Any) -> Callable[..., R]:
    """A kernel for arguments of the examples' types alone, which it is called with at half the cost: 0.1 microseconds.

    Positional arguments only; those that cannot become such types raise TypeError.
    """
    signature = tuple(map(numba.typeof, examples))
    compiled.compile(signature)  # type: ignore[attr-defined]
    entry: Callable[..., R] = compiled.overloads[signature].entry_point  # type: ignore[attr-defined]
    return entry


def run(compiled: Callable[..., R], *args: Any, while_waiting: Callable[[], None] | None = None) -> R:
    """Calls a long kernel on a thread of its own, so that the main thread hears Ctrl-C at once.

    while_waiting: called on the calling thread once a second.
    """
    return started(lambda: compiled(*args), while_waiting)()


def started(work: Callable[[], R], while_waiting: Callable[[], None] | None = None) -> Callable[[], R]:
    """Begins some work on a thread of its own; what is returned waits for its result, or raises its error."""
    finished: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run_and_tell() -> None:
        try:
            finished.put((work(), None))
        except BaseException as error:
            finished.put((None, error))

    def result() -> R:
        while True:
            try:
                found, error = finished.get(timeout=None if while_waiting is None else 1.0)
            except queue.Empty:
                if while_waiting is not None:
                    while_waiting()
                continue
            if error is not None:
                raise error
            return found

    threading.Thread(target=run_and_tell, daemon=True).start()
    return result


def is_first_run() -> bool:
    """Whether no kernel of this version has been compiled on this machine yet."""
    folder = cache_folder()
    return folder is None or next(folder.rglob("*.nbi"), None) is None


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept, or None where nothing can be written: then each process compiles its own."""
    for base in _cache_bases():
        folder = base / f"kernels-{_sources_digest()}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Compiled code is loaded from here, so the folder must be our own, and nobody may put another in its place.
            if os.access(folder, os.W_OK) and _is_owned_by_us(folder, base):
                return folder
        except OSError:
            continue
    return None


def _cache_bases() -> list[Path]:
    chosen = os.environ.get("CHAINRULE_CACHE")
    if chosen:
        return [Path(chosen)]
    bases = []
    if home := os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA"):
        bases.append(Path(home) / "chainrule")
    elif (home := os.path.expanduser("~")) not in ("~", "/"):  # "~" where the user has none
        bases.append(Path(home) / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "chainrule")
    with suppress(OSError):  # no folder for temporary files
        user = f"chainrule-{os.getuid()}" if hasattr(os, "getuid") else "chainrule"
        bases.append(Path(tempfile.gettempdir()) / user)
    return bases


def _is_owned_by_us(folder: Path, base: Path) -> bool:
    """Whether a folder is our own, and the one that it lies in at least nobody's but the system's."""
    if not hasattr(os, "getuid"):
        return True
    return folder.stat().st_uid == os.getuid() and base.stat().st_uid in (os.getuid(), 0)


@cache
def _sources_digest() -> str:
    digest = hashlib.sha256(f"{sys.version} numba {numba.__version__}".encode())
    for path in [
        Path(__file__),
        Path(__file__).with_name("lanes.py"),
        PACKAGE / "protocol.py",  # whose ids are constants in the kernels
        *sorted(PACKAGE.rglob("*_kernels.py")),
    ]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def set_threads(number: int | None) -> None:
    """How many threads kernels and networks may run on; None: one for each processor, and as many as torch takes.

    No result of a kernel depends on it; a network's may differ in the last bits. Raises SettingError.
    """
    global _threads
    if number is not None and number < 1:
        raise SettingError(f"threads is {number}; expected 1 or more")
    _threads = number
    for follow in _on_threads_set:
        follow()


def on_threads_set(follow: Callable[[], None]) -> None:
    """Has a function called whenever `set_threads` is: other libraries' threads follow the number here."""
    if follow not in _on_threads_set:
        _on_threads_set.append(follow)


def threads_said() -> int | None:
    """What was set, or is in the environment as CHAINRULE_THREADS. Raises SettingError where that is no number."""
    said = os.environ.get("CHAINRULE_THREADS", "")
    if _threads is not None or not said:
        return _threads
    if not said.isdecimal() or int(said) < 1:
        raise SettingError(f"CHAINRULE_THREADS is {said!r}; expected a whole number from 1 on")
    return int(said)


def threads_in_use() -> int:
    """What was said, or one for each processor that this process may use."""
    if (said := threads_said()) is not None:
        return said
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    compiled: Callable[..., R], calls: Sequence[tuple[Any, ...]], *, on_done: Callable[[int], None] | None = None
) -> list[R]:
    """Calls one kernel with each of several argument tuples on threads; the results come in the order of the calls.

    on_done: told on the calling thread how many calls are done, after each. The calling thread hears Ctrl-C all the
    time; then no further call starts.
    """
    results = []
    for result in in_order(lambda call: compiled(*call), calls, ahead=len(calls)):
        results.append(result)
        if on_done is not None:
            on_done(len(results))
    return results


def in_order(function: Callable[[T], R], items: Iterable[T], *, ahead: int | None = None) -> Iterator[R]:
    """A function's results for some items, in their order, computed on threads.

    ahead: how many items may have been taken and not been given back; by default twice as many as there are threads.
    The items are taken on the calling thread, which hears Ctrl-C all the time. An error is raised as soon as it
    happens, and no further call starts. Inside such a call no more threads start: each item is done as it is taken.
    """
    if getattr(_worker, "is_one", False):
        yield from map(function, items)
        return
    threads = threads_in_use()
    ahead = ahead or 2 * threads
    waiting: queue.SimpleQueue[tuple[int, T] | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    stopped = threading.Event()

    def work() -> None:
        _worker.is_one = True
        while (job := waiting.get()) is not None and not stopped.is_set():
            i, item = job
            try:
                result = function(item)
            except BaseException as error:
                finished.put((i, None, error))
                continue
            job = item = None  # type: ignore[assignment]  # whoever gets the result may rely on their being freed
            finished.put((i, result, None))
            result = None  # type: ignore[assignment]

    workers: list[threading.Thread] = []
    results: dict[int, R] = {}
    rest = iter(items)
    taken = given = 0
    try:
        while True:
            for item in itertools.islice(rest, ahead - (taken - given)):
                waiting.put((taken, item))
                taken += 1
                if len(workers) < threads:
                    workers.append(threading.Thread(target=work, daemon=True))
                    workers[-1].start()
            if given == taken:
                return
            while given not in results:
                i, result, error = finished.get()
                if error is not None:
                    raise error
                results[i] = result
            yield results.pop(given)
            given += 1
    finally:
        stopped.set()
        for _ in workers:
            waiting.put(None)
