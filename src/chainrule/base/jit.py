"""Compiled kernels: Numba's decorators, the cache of compiled code, and threads that leave Ctrl-C alive.

Numba's own cache misses a changed callee in another file, and fails at import if nothing can be written. Here, the name
of the cache folder holds a digest of every source file of kernels (`*_kernels.py`, which import nothing of ours but
this file and `protocol.py`), and the folder lies in the first location that can be written.
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
_configuring = threading.Lock()  # all threads share Numba's settings, and several threads may import kernels
_thread = threading.local()  # is_worker: set on the threads of `map_in_order`; parallel: see `use_parallel_threads`


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function on its first call; it runs without the interpreter's lock, and divides by zero as NumPy does.

    A kernel only computes: its caller checks the arguments and allocates. Never mix uint64 and int64 in a kernel: Numba
    turns them into float64. Since a kernel allocates nothing, it counts no references: that would be a locked
    instruction per array and call that is not inlined, on which threads that share the array wait for each other.
    """
    return _compiled(function, nogil=True, counted=False)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, for functions that also make arrays: they allocate them, or view memory with `array_at`."""
    return _compiled(function, nogil=True, counted=True)


def tiny_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `allocating_kernel`, for functions that take less time than releasing the interpreter's lock would."""
    return _compiled(function, nogil=False, counted=True)


# In a parallel kernel, a range whose parts are done on several threads.
prange: Callable[[int], Iterable[int]] = numba.prange


def parallel_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `allocating_kernel`, for functions that use `prange`: on the threads that `use_parallel_threads` says.

    Two must not run at once, unless one is known to have threads that may (Numba's workqueue has not).
    """
    return _compiled(function, nogil=True, counted=True, parallel=True)


def use_parallel_threads(number: int) -> None:
    """Sets how many threads the parallel kernels of the calling thread run on; at most one for each processor."""
    if getattr(_thread, "parallel", 0) != number:
        numba.set_num_threads(max(1, min(number, numba.config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
        _thread.parallel = number


def _compiled(function: Callable[P, R], *, nogil: bool, counted: bool, **options: Any) -> Callable[P, R]:
    folder = cache_folder()
    with _configuring:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = str(folder or "")  # type: ignore[attr-defined]
        try:
            compiled: Callable[P, R] = numba.njit(  # type: ignore[call-overload] # the wrapper for C is never called
                cache=folder is not None,
                nogil=nogil,
                error_model="numpy",
                _nrt=counted,
                no_cfunc_wrapper=True,
                **options,
            )(function)
            _without_literals(compiled)
            return compiled
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


class _WithoutCollection(event.Listener):
    """Turns off garbage collection while Numba compiles: it takes a tenth of the time, and nearly all objects stay."""

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
    """Makes Numba compile a kernel that others call once for all integers, not again for each literal argument.

    LLVM still sees the literals wherever it inlines the kernel.
    """
    template_for = getattr(compiled, "get_call_template", None)
    if template_for is None:  # with NUMBA_DISABLE_JIT, kernels stay functions
        return

    def plain(kind: Any) -> Any:
        return types.unliteral(kind)  # type: ignore[no-untyped-call]

    def get_call_template(args: Any, kws: Any) -> Any:
        return template_for(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    compiled.get_call_template = get_call_template


def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Generates the code of `prefetch`: LLVM's instruction of that name."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])  # type: ignore[no-untyped-call]
        pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        read, keep_in_cache, data = int32(0), int32(3), int32(1)
        builder.call(function, [builder.bitcast(element, pointer), read, keep_in_cache, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# In a kernel, prefetch(array, index) starts to load array[index] into the cache, and does not wait for it.
# array: of one dimension. An index out of range does no harm.
prefetch: Callable[..., None] = intrinsic(_prefetch)


def _eight_bytes(_: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])  # type: ignore[no-untyped-call]
        return builder.load(builder.bitcast(element, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, types.intp), generate


# In a kernel, eight_bytes(text, index) is text[index:index + 8] as a uint64, little-endian on all processors that we
# support. text: contiguous bytes; nothing checks that there are eight.
eight_bytes: Callable[..., Any] = intrinsic(_eight_bytes)


def _trailing_zeros(_: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


# In a kernel, trailing_zeros(number) is how many of the lowest bits of a uint64 are 0; 64 for the number 0.
trailing_zeros: Callable[..., Any] = intrinsic(_trailing_zeros)


def _pointer_of(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


_pointer: Callable[..., Any] = intrinsic(_pointer_of)


@register_jitable
def array_at(address: int, size: int, dtype: Any) -> Any:
    """In a kernel: the array of `size` elements at an address. The caller guarantees that they are there."""
    return numba.carray(_pointer(address), size, dtype)  # type: ignore[attr-defined]


def specialise(compiled: Callable[..., R], *examples: Any) -> Callable[..., R]:
    """The kernel for arguments of the examples' types only; a call costs half as much: 0.1 microseconds.

    It takes positional arguments. Those that cannot be converted to these types raise TypeError.
    """
    signature = tuple(map(numba.typeof, examples))
    compiled.compile(signature)  # type: ignore[attr-defined]
    entry: Callable[..., R] = compiled.overloads[signature].entry_point  # type: ignore[attr-defined]
    return entry


def run(compiled: Callable[..., R], *args: Any, while_waiting: Callable[[], None] | None = None) -> R:
    """Calls a long kernel on a thread of its own, so that Ctrl-C stops the main thread at once.

    while_waiting: called once a second, on the calling thread.
    """
    return start_in_thread(lambda: compiled(*args), while_waiting)()


def start_in_thread(work: Callable[[], R], while_waiting: Callable[[], None] | None = None) -> Callable[[], R]:
    """Starts `work` on a thread of its own. Returns a function that waits for its result, or raises its error.

    while_waiting: called once a second while that function waits.
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
            if error is not None:
                raise error
            return value

    threading.Thread(target=work_on_thread, daemon=True).start()
    return result


def is_first_run() -> bool:
    """Whether this machine has not compiled any kernel of this version yet."""
    folder = cache_folder()
    return folder is None or next(folder.rglob("*.nbi"), None) is None


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None if none can be written: then every process compiles its own."""
    for base in _cache_bases():
        folder = base / f"kernels-{_sources_digest()}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Code is loaded from here, so the folder must be our own, and nobody else may be able to replace it.
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
    """Whether a folder belongs to us, and the one that contains it to us or the system."""
    if not hasattr(os, "getuid"):
        return True
    return folder.stat().st_uid == os.getuid() and base.stat().st_uid in (os.getuid(), 0)


@cache
def _sources_digest() -> str:
    digest = hashlib.sha256(f"{sys.version} numba {numba.__version__}".encode())
    for path in [
        Path(__file__),
        Path(__file__).with_name("lanes.py"),
        PACKAGE / "protocol.py",  # its token ids are constants in the kernels
        *sorted(PACKAGE.rglob("*_kernels.py")),
    ]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def set_threads(number: int | None) -> None:
    """Sets how many threads kernels and networks may use. None: one per processor, and torch's own default.

    Results of kernels do not depend on it; those of networks may differ in the last bits. Raises SettingError.
    """
    global _threads
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        raise SettingError(f"threads is {number!r}; expected a whole number from 1 on, or None")
    _threads = number
    for callback in _on_threads_set:
        callback()


def on_threads_set(callback: Callable[[], None]) -> None:
    """Registers a callback that `set_threads` calls, for libraries with threads of their own."""
    if callback not in _on_threads_set:
        _on_threads_set.append(callback)


def requested_threads() -> int | None:
    """The number set by `set_threads`, or by the environment variable CHAINRULE_THREADS. Raises SettingError."""
    requested = os.environ.get("CHAINRULE_THREADS", "")
    if _threads is not None or not requested:
        return _threads
    if not requested.isdecimal() or int(requested) < 1:
        raise SettingError(f"CHAINRULE_THREADS is {requested!r}; expected a whole number, 1 or more")
    return int(requested)


def thread_count() -> int:
    """The number requested, or the number of processors that this process may use."""
    if (requested := requested_threads()) is not None:
        return requested
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    compiled: Callable[..., R], calls: Sequence[tuple[Any, ...]], *, on_done: Callable[[int], None] | None = None
) -> list[R]:
    """Calls a kernel with each of several argument tuples, on threads; the results are in the order of the calls.

    on_done: called on the calling thread after every call, with the number of finished calls. Ctrl-C is heard at any
    time; no further call starts after it.
    """
    results = []
    for result in map_in_order(lambda call: compiled(*call), calls, ahead=len(calls)):
        results.append(result)
        if on_done is not None:
            on_done(len(results))
    return results


def map_in_order(function: Callable[[T], R], items: Iterable[T], *, ahead: int | None = None) -> Iterator[R]:
    """The built-in `map`, computed on threads.

    ahead: how many items may be read before their results are consumed; by default twice the number of threads. The
    calling thread reads the items and hears Ctrl-C at any time. An error is raised as soon as it occurs, and no further
    call starts. A call inside another one starts no threads of its own.
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
    submitted = yielded = 0
    try:
        while True:
            for item in itertools.islice(remaining, ahead - (submitted - yielded)):
                waiting.put((submitted, item))
                submitted += 1
                if len(workers) < threads:
                    workers.append(threading.Thread(target=work, daemon=True))
                    workers[-1].start()
            if yielded == submitted:
                return
            while yielded not in results:
                i, result, error = finished.get()
                if error is not None:
                    raise error
                results[i] = result
            yield results.pop(yielded)
            yielded += 1
    finally:
        stopped.set()
        for _ in workers:
            waiting.put(None)
