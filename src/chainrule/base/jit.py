"""Compiled kernels: Numba's decorators, and the cache of compiled code.

Numba's own cache misses a changed callee in another file, and fails at import if nothing can be written. Here, the name
of the cache folder holds a digest of every source file of kernels: `*_kernels.py`, and all that these may import here
(`intrinsics.py`, `*lanes.py`, `protocol.py` and this file). The folder lies in the first location that can be written.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import tempfile
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numba
from numba import types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = Path(__file__).parents[1]
PATIENCE = 60  # seconds for which a process waits while another compiles the kernel that it needs
_configuring = threading.Lock()  # all threads share Numba's settings, and several threads may import kernels
_thread = threading.local()  # parallel: see `use_parallel_threads`


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first call; it runs without the interpreter's lock, and divide by zero as NumPy does.

    A kernel only computes: its caller checks the arguments and allocates. Never mix uint64 and int64 in a kernel: Numba
    turns them into float64. Since a kernel allocates nothing, it counts no references: that would be a locked
    instruction per array and call that is not inlined, on which threads that share the array wait for each other.
    """
    return _compiled(function, nogil=True, counted=False)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as `kernel` does, for functions that also make arrays: they allocate them, or view memory with
    `array_at`.
    """
    return _compiled(function, nogil=True, counted=True)


def tiny_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as `allocating_kernel` does, for functions that take less time than releasing the interpreter's lock
    would.
    """
    return _compiled(function, nogil=False, counted=True)


# In a parallel kernel, a range whose parts are done on several threads.
prange: Callable[[int], Iterable[int]] = numba.prange


def parallel_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as `allocating_kernel` does, for functions that use `prange`: they run on the threads set by
    `use_parallel_threads`.

    Two must not run at once, unless Numba's threading layer is known to allow it (its workqueue does not).
    """
    return _compiled(function, nogil=True, counted=True, parallel=True)


def alone(parallel: Callable[P, R]) -> Callable[P, R]:
    """Return an allocating kernel that does what a parallel one does, on the calling thread, as `NAME_alone`."""
    function: FunctionType = parallel.py_func  # type: ignore[attr-defined]
    name = f"{function.__name__}_alone"
    code = function.__code__.replace(co_name=name, co_qualname=name)
    return allocating_kernel(cast("Callable[P, R]", FunctionType(code, function.__globals__, name)))


def c_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as `tiny_kernel` does, for functions that C calls at their `address_of`."""
    return _compiled(function, nogil=False, counted=True, no_cfunc_wrapper=False)


def address_of(compiled: Callable[..., Any], *examples: Any) -> int:
    """Return where C finds a `c_kernel`, for arguments of the examples' types."""
    own = _for_types_of(compiled, examples)
    address: int = own.library.get_pointer_to_function(own.fndesc.llvm_cfunc_wrapper_name)
    return address


def address_in_kernels(compiled: Callable[..., Any], *examples: Any) -> int:
    """Return where `call_at` finds a kernel that returns nothing, for arguments of the examples' types."""
    own = _for_types_of(compiled, examples)
    address: int = own.library.get_pointer_to_function(own.fndesc.llvm_func_name)
    return address


def _for_types_of(compiled: Any, examples: tuple[Any, ...]) -> Any:
    signature = tuple(map(numba.typeof, examples))
    compiled.compile(signature)
    return compiled.overloads[signature]


def use_parallel_threads(number: int) -> None:
    """Set how many threads the parallel kernels of the calling thread run on; at most one for each processor."""
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
                **{"no_cfunc_wrapper": True, **options},
            )(function)
            _with_one_integer(compiled)
            if folder is not None:
                _loaded_alone(compiled)
                _compiled_by_one_process(compiled, folder, f"{function.__module__}.{function.__qualname__}")
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


def _with_one_integer(compiled: Any) -> None:
    """Make Numba compile a kernel that others call once for all integers, not again for literals and for int32.

    LLVM still sees the literals wherever it inlines the kernel, and Numba computes with int64 whatever it is given.
    """
    template_for = getattr(compiled, "get_call_template", None)
    if template_for is None:  # with NUMBA_DISABLE_JIT, kernels stay functions
        return

    def plain(kind: Any) -> Any:
        kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
        return types.int64 if kind == types.int32 else kind

    def get_call_template(args: Any, kws: Any) -> Any:
        return template_for(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    compiled.get_call_template = get_call_template


def _loaded_alone(compiled: Any) -> None:
    """Make Numba load a kernel from its cache without all that it knows of NumPy, which only compiling needs.

    Those modules take 0.3 seconds to import, more than all else that a verb on a small model does.
    """
    kept = getattr(compiled, "_cache", None)
    if kept is None:  # with NUMBA_DISABLE_JIT, kernels stay functions
        return

    def load_overload(signature: Any, target: Any) -> Any:
        rtsys.initialize(target)  # memory of arrays, which loaded code allocates
        with kept._guard_against_spurious_io_errors():
            return kept._load_overload(signature, target)

    kept.load_overload = load_overload


def _compiled_by_one_process(compiled: Any, folder: Path, name: str) -> None:
    """Make processes that start side by side wait for the one that compiles a kernel, and load what it has kept.

    So two never add to a kernel's index at once, either, which would lose what one of them added.
    """
    compile_or_load = getattr(compiled, "compile", None)
    if compile_or_load is None:  # with NUMBA_DISABLE_JIT, kernels stay functions
        return

    def compile_alone(signature: Any) -> Any:
        # Threads take Numba's lock first, as Numba itself does: then no two of them wait for each other.
        with global_compiler_lock, _alone(folder, zlib.crc32(name.encode())):
            return compile_or_load(signature)

    compiled.compile = compile_alone


@contextmanager
def _alone(folder: Path, byte: int) -> Iterator[None]:
    """Lock a byte of the folder's file of locks against other processes.

    After PATIENCE, or where files cannot be locked, it goes on without: then a kernel is compiled twice.
    """
    try:
        import fcntl

        descriptor = _file_of_locks(folder)
    except (ImportError, OSError):
        yield
        return
    deadline = time.monotonic() + PATIENCE
    locked = False
    with suppress(OSError):  # a file system without locks
        while not locked and time.monotonic() < deadline:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
                locked = True
            except (BlockingIOError, PermissionError):  # another process has it
                time.sleep(0.005)
    try:
        yield
    finally:
        if locked:
            with suppress(OSError):
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)


@cache
def _file_of_locks(folder: Path) -> int:
    """Return a descriptor that stays open: to close any of a file's would let go of all locks of this process on it."""
    return os.open(folder / "locks", os.O_RDWR | os.O_CREAT, 0o600)


def specialise(compiled: Callable[..., R], *examples: Any) -> Callable[..., R]:
    """Return the kernel for arguments of the examples' types only; a call costs half as much: 0.1 microseconds.

    It takes positional arguments. Those that cannot be converted to these types raise TypeError.
    """
    entry: Callable[..., R] = _for_types_of(compiled, examples).entry_point
    return entry


def compile_for(compiled: Callable[..., Any], arguments: str) -> None:
    """Compile a kernel for types of arguments, as a list of our own writes them: `(int32[::1], int64,)`."""
    compiled.compile(types_of(arguments))  # type: ignore[attr-defined]


def types_of(arguments: str) -> tuple[types.Type, ...]:
    """Return the types that a list of our own names."""
    return eval(arguments, {**vars(types), "bool": types.boolean})


def is_first_run() -> bool:
    """Return whether this machine has not compiled any kernel of this version yet."""
    folder = cache_folder()
    return folder is None or next(folder.rglob("*.nbi"), None) is None


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, or None if none can be written: then every process compiles its own."""
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
    """Return whether a folder belongs to us, and the one that contains it to us or the system."""
    if not hasattr(os, "getuid"):
        return True
    return folder.stat().st_uid == os.getuid() and base.stat().st_uid in (os.getuid(), 0)


@cache
def _sources_digest() -> str:
    digest = hashlib.sha256(f"{sys.version} numba {numba.__version__}".encode())
    for path in [
        Path(__file__),
        Path(__file__).with_name("intrinsics.py"),
        PACKAGE / "protocol.py",  # its token ids are constants in the kernels
        *sorted(PACKAGE.rglob("*lanes.py")),
        *sorted(PACKAGE.rglob("*_kernels.py")),
    ]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
