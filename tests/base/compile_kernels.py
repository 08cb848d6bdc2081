"""Compiles kernels for the types that tests call them with, in two processes, so that no test waits for it.

    python tests/base/compile_kernels.py            compiles what kernels.txt lists, as make test does once
    python tests/base/compile_kernels.py --record   writes kernels.txt anew, from what is compiled: after make test

What it does not list, or lists in vain, costs tests time and nothing else.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from chainrule.base.ahead import mark, runs
from chainrule.base.jit import PACKAGE, compile_for
from chainrule.neural.packed.block_kernels import multiplication
from chainrule.neural.packed.layouts import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = Path(__file__).with_name("kernels.txt")
PRODUCTS = "neural.packed.block_kernels.multiplication"


def recorded() -> dict[str, list[str]]:
    """The types of arguments, as Numba writes them, by the kernel's name."""
    found = defaultdict(list)
    for line in RECORD.read_text().splitlines():
        name, _, arguments = line.partition("(")
        found[name].append(f"({arguments}")
    return found


@cache
def kernels() -> dict[str, Any]:
    """All kernels of the package, by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*_kernels.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        module = importlib.import_module(f"chainrule.{name}")
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        found |= {f"{name}.{value.__qualname__}": value for value in own if isinstance(value, Dispatcher)}
    return found


def named(name: str) -> list[Any]:
    """The kernels of a name: one, or those for all forms of packed products, on one thread as in most tests."""
    return [multiplication(form, parallel=False) for form in FORMS.values()] if name == PRODUCTS else [kernels()[name]]


def compile_all(name: str, signatures: list[str]) -> None:
    for kernel in named(name) if name in (*kernels(), PRODUCTS) else []:
        for signature in signatures:
            with suppress(NumbaError, TypeError):  # of a kernel that takes something else by now
                compile_for(kernel, signature)


def written(kind: types.Type) -> str:
    """A type as `types_of` reads it."""
    if isinstance(kind, types.Array) and kind.mutable and kind.layout in "AC":
        dimensions = [":"] * kind.ndim
        dimensions[-1] = "::1" if kind.layout == "C" else ":"
        return f"{kind.dtype}[{', '.join(dimensions)}]"
    if isinstance(kind, types.UniTuple):
        return f"UniTuple({written(kind.dtype)}, {kind.count})"
    if isinstance(kind, types.Tuple):
        return f"Tuple(({', '.join(map(written, kind))},))"
    return "Bytes(uint8, 1, 'C')" if isinstance(kind, types.Bytes) else repr(kind)


def compiled() -> Iterator[str]:
    """What the cache has, as lines of the record."""
    for name in (*kernels(), PRODUCTS):
        for arguments, *_ in named(name)[0]._cache._cache_file._load_index():
            if not any(isinstance(kind, types.BaseNamedTuple) for kind in arguments):  # which `types_of` cannot read
                yield f"{name}({', '.join(map(written, arguments))},)"


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        RECORD.write_text("".join(f"{line}\n" for line in sorted(set(compiled()))))
    else:
        for run in runs():  # no test starts processes that compile
            with suppress(OSError):
                mark(run)
        longest_first = sorted(recorded().items(), key=lambda entry: (entry[0] != PRODUCTS, -len(entry[1])))
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(compile_all, *zip(*longest_first, strict=True)))
