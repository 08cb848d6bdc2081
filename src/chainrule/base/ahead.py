"""Compiles the kernels that a first run will need, on the processors that would wait while one of them compiles.

Numba compiles one kernel at a time in a process. `ahead.txt` lists what a first run compiles, in order, under the name
of the run. Further processes compile it from the end; the first goes on from the beginning, and loads what they kept.

    python -m chainrule.base.ahead RUN PART PARTS
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.jit import cache_folder, compile_for
from chainrule.base.threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator

LIST = Path(__file__).with_suffix(".txt")
MOST = 4  # processes; after that, one of them has the kernel that takes longest


@cache
def compile_ahead(run: str) -> None:
    """Start processes that compile the kernels of a run, if it is the first on this machine; return at once."""
    helpers = min(thread_count(), MOST) - 1
    if cache_folder() is None or helpers < 1:
        return
    with suppress(OSError):  # it was begun before, or no process can be started: then one compiles all
        mark(run)
        for part in range(helpers):
            command = [sys.executable, "-P", "-m", __name__, run, str(part), str(helpers)]
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
            process.returncode = 0  # nobody waits for it, which Python would warn of


def mark(run: str) -> None:
    """Note in the cache that the kernels of a run are being compiled. Raises OSError if that was noted before."""
    folder = cache_folder()
    if folder is not None:
        (folder / f"ahead-{run}").touch(exist_ok=False)


def runs() -> list[str]:
    """Return the names of the runs."""
    return [line[1:-1] for line in LIST.read_text().splitlines() if line.startswith("[")]


def listed(run: str) -> Iterator[tuple[str, str, str]]:
    """Yield the module, the name and the types of arguments of each kernel of a run, in the order of first use."""
    _, _, lines = f"\n{LIST.read_text()}".partition(f"\n[{run}]\n")
    for line in lines.partition("\n[")[0].splitlines():
        name, _, arguments = line.partition("(")
        module, _, kernel = name.rpartition(".")
        yield module, kernel, f"({arguments}"


def _compile(run: str, part: int, parts: int) -> None:
    for module, kernel, arguments in list(listed(run))[::-1][part::parts]:
        compile_for(getattr(importlib.import_module(f"chainrule.{module}"), kernel), arguments)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        _compile(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
