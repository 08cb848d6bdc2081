"""What the machine offers: the device, whether bfloat16 gains, how fast matrices are multiplied, whether to compile."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from chainrule.errors import SettingError
from chainrule.jit import threads_in_use, threads_said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from chainrule.training.config import Precision, TrainingConfig

_SIDE = {"cpu": 512, "cuda": 4096}  # of the matrices that are multiplied to find the peak
_COMPILING_SECONDS = {"cpu": 90.0, "cuda": 60.0}  # about what torch.compile takes for one network
_COMPILED_GAIN = 0.15  # the share of the time that it saves, at least
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)


@dataclass(frozen=True)
class Machine:
    """What one run computes with; settled at its start, and kept when it is resumed."""

    device: torch.device
    bfloat16: bool  # matrix products of the network
    quick_bfloat16: bool  # whether it is there for what needs few digits
    compiled: bool

    def precision(self) -> AbstractContextManager[Any]:
        """What the network runs in."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def wait(self) -> None:
        """Until the device has done all that was asked of it, so that the clock tells the truth."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device.type,
            "bfloat16": self.bfloat16,
            "quick_bfloat16": self.quick_bfloat16,
            "compiled": self.compiled,
        }


def machine_for(config: TrainingConfig) -> Machine:
    """Raises SettingError where there is no such device, or nothing to compile with."""
    machine = machine_on(config.device, config.precision)
    device = machine.device
    can_compile = device.type == "cuda" or shutil.which("g++") is not None or shutil.which("c++") is not None
    if config.compile == "yes" and not can_compile:
        raise SettingError("compile is yes, but there is no C++ compiler (g++) here; leave it out, or install one")
    seconds = 60 * config.minutes if config.minutes is not None else 0.0
    pays = seconds * _COMPILED_GAIN > _COMPILING_SECONDS.get(device.type, float("inf"))
    compiled = config.compile == "yes" or (config.compile == "auto" and can_compile and pays)
    return replace(machine, compiled=compiled)


def machine_on(device_name: str, precision: Precision) -> Machine:
    """One that compiles nothing. Raises SettingError where there is no such device."""
    device = device_named(device_name)
    if device.type == "cpu":
        _share_processors()
        _keep_memory()
    quick = precision != "float32" and has_quick_bfloat16(device)
    return Machine(device, quick or precision == "bfloat16", quick, compiled=False)


def _share_processors() -> None:
    """Threads that are more than the processors wait for one another, and a step takes eight times as long.

    So each process that torchrun started here has its part of them, and OMP_NUM_THREADS is heeded where no number was
    said to us; torchrun sets that itself.
    """
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    if threads_said() is None and not here and "OMP_NUM_THREADS" in os.environ:
        return
    torch.set_num_threads(max(1, threads_in_use() // max(1, here)))


def _keep_memory() -> None:
    """Tells glibc to keep what is freed, up to 1 GiB, for the next step, whose tensors are as large as this one's.

    Otherwise each large tensor is asked of the system anew, which clears its pages; a step takes up to a tenth longer.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for parameter, size in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 1 << 30)):
            libc.mallopt(parameter, size)


def device_named(name: str) -> torch.device:
    """Raises SettingError where there is no such device."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return device


@cache
def has_quick_bfloat16(device: torch.device) -> bool:
    """Whether matrices are multiplied at least 1.5 times as fast in bfloat16; measured where it is not known."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or "AVX512" not in torch.backends.cpu.get_cpu_capability():
        return False  # elsewhere it is emulated, or its gain unknown
    return _seconds_of_product(device, torch.bfloat16) * 1.5 < _seconds_of_product(device, torch.float32)


def peak(machine: Machine) -> float:
    """Floating-point operations a second: products of large matrices in the precision that the network runs in."""
    dtype = torch.bfloat16 if machine.bfloat16 else torch.float32
    return 2 * _SIDE.get(machine.device.type, 1024) ** 3 / _seconds_of_product(machine.device, dtype)


@cache
def _seconds_of_product(device: torch.device, dtype: torch.dtype) -> float:
    """Of the quickest of a few; the first ones are not counted."""
    side = _SIDE.get(device.type, 1024)
    one = torch.ones(side, side, dtype=dtype, device=device)
    times = []
    for _ in range(6):
        _wait(device)
        began = time.perf_counter()
        torch.mm(one, one)
        _wait(device)
        times.append(time.perf_counter() - began)
    return min(times[2:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def held_in_memory(does_not_fit: Callable[[str], str]) -> Iterator[None]:
    """Raises SettingError, with what `does_not_fit` says of where, if what is done inside needs more than there is."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise SettingError(does_not_fit("the GPU")) from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        raise SettingError(does_not_fit("the processor")) from error


def memory_in_use(device: torch.device) -> int | None:
    """The most bytes held so far, of the GPU or of this process; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
        import sys
    except ImportError:
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024
