"""Compiled kernels: Numba's decorator, where compiled code is kept, and how it runs on threads beside Ctrl-C.

Numba's own cache misses a changed callee in another file and fails at import where nothing can be written. So the cache
folder is named after a digest of every source file that kernels are made of (`*_kernels.py`, which import nothing else
of ours but this file and `protocol.py`), and lies in the first place that can be written.
"""

from __future__ import annotations

import hashlib
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = Path(__file__).parent


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function on its first call; it runs without the interpreter's lock, and divides by zero as NumPy does.

    A kernel only computes: its caller checks the arguments and allocates. Never mix uint64 with int64 in one: Numba
    makes that float64.
    """
    folder = cache_folder()
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(folder or "")  # type: ignore[attr-defined]
    try:
        compiled: Callable[P, R] = numba.njit(cache=folder is not None, nogil=True, error_model="numpy")(function)
        return compiled
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def run(compiled: Callable[..., R], *args: Any) -> R:
    """Calls a long kernel on a thread of its own, so that the main thread hears Ctrl-C at once."""
    return run_all(compiled, [args])[0]


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
        PACKAGE / "protocol.py",  # whose ids are constants in the kernels
        *sorted(PACKAGE.rglob("*_kernels.py")),
    ]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def run_all(
    compiled: Callable[..., R],
    calls: Sequence[tuple[Any, ...]],
    *,
    threads: int | None = None,
    on_done: Callable[[int], None] | None = None,
) -> list[R]:
    """Calls one kernel with each of several argument tuples on threads; the results come in the order of the calls.

    on_done(i): told on the calling thread, once for each finished call. The calling thread hears Ctrl-C all the time;
    then no further call starts. threads: as many as there are processors, unless said.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    for i in range(len(calls)):
        waiting.put(i)

    def work() -> None:
        while not stopped.is_set():
            try:
                i = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                finished.put((i, compiled(*calls[i]), None))
            except BaseException as error:
                finished.put((i, None, error))

    stopped = threading.Event()
    results: list[Any] = [None] * len(calls)
    try:
        for _ in range(min(max(threads or os.cpu_count() or 1, 1), len(calls))):
            threading.Thread(target=work, daemon=True).start()
        for _ in calls:
            i, results[i], error = finished.get()
            if error is not None:
                raise error
            if on_done is not None:
                on_done(i)
    finally:
        stopped.set()
    return results
