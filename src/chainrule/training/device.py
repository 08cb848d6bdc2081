"""What a run computes with: device, precision, threads, torch.compile (or the plain network), activation checkpointing.

With activation checkpointing, only the inputs of blocks stay in memory, and the backward pass computes their
activations again: about a third more operations. Dropout draws the same numbers again, so results do not change (Chen
et al., Training deep nets with sublinear memory cost, 2016).
"""

from __future__ import annotations

import ctypes
import platform
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import checkpoint

from chainrule.base.memory import peak_memory
from chainrule.errors import SettingError
from chainrule.neural.device import bfloat16_notes, has_quick_bfloat16, layers_in_float32, product_speed, use_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from torch import nn

    from chainrule.training.config import Precision, TrainingConfig

_COMPILING_SECONDS = {"cpu": 90.0, "cuda": 60.0}  # about what torch.compile takes for one network
_COMPILED_GAIN = 0.15  # the share of the time that it saves, at least
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)


@dataclass(frozen=True)
class Machine:
    """What a run computes with; chosen when it starts, and kept when it resumes."""

    device: torch.device
    bfloat16: bool  # matrix products of the network
    quick_bfloat16: bool  # whether it is fast here, for work that needs few digits
    compiled: bool

    def precision(self) -> AbstractContextManager[Any]:
        """Return the precision of the network, as a context."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def wait(self) -> None:
        """Wait until the device is idle, so that timings are right."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def notes(self, network: nn.Module) -> list[str]:
        """Return what users should know of this network's precision before the first step."""
        return bfloat16_notes(network, self.device) if self.bfloat16 else []

    def layers_in_float32(self, network: nn.Module) -> list[str]:
        """Return the kinds of layers that stay in float32 while matrix products are in bfloat16."""
        return layers_in_float32(network, self.device) if self.bfloat16 else []

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device.type,
            "bfloat16": self.bfloat16,
            "quick_bfloat16": self.quick_bfloat16,
            "compiled": self.compiled,
        }


def machine_for(config: TrainingConfig) -> Machine:
    """Return the machine that a configuration asks for. Raises SettingError if it has no such device or no compiler."""
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
    """Return a machine that does not compile. Raises SettingError if there is no such device."""
    device = select_device(device_name)
    use_threads()
    if device.type == "cpu":
        keep_memory()
    quick = precision != "float32" and has_quick_bfloat16(device)
    return Machine(device, quick or precision == "bfloat16", quick, compiled=False)


def keep_memory() -> None:
    """Tell glibc to keep freed memory, up to 1 GiB, for the next step, whose tensors have the same sizes.

    Otherwise the system maps and clears the pages of every large tensor anew; a step takes up to a tenth longer.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for parameter, size in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 1 << 30)):
            libc.mallopt(parameter, size)


def select_device(name: str) -> torch.device:
    """Return the device of that name. Raises SettingError if there is none."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return device


def peak_speed(machine: Machine) -> float:
    """Return floating-point operations per second in products of large matrices, in the precision of the network."""
    return product_speed(machine.device, torch.bfloat16 if machine.bfloat16 else torch.float32)


@contextmanager
def explain_out_of_memory(message: Callable[[str], str]) -> Iterator[None]:
    """Turn running out of memory into a SettingError.

    message: a function from "the GPU" or "the processor" to the message.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise SettingError(message("the GPU")) from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        raise SettingError(message("the processor")) from error


def memory_in_use(device: torch.device) -> int | None:
    """Return peak memory of the GPU or of this process so far, in bytes; None if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_memory()


def compile_or_fall_back(network: nn.Module, on_failure: Callable[[str], None]) -> Callable[..., Any]:
    """Return the network, compiled when it is first called; after a failure of the compiler, the plain network.

    on_failure: a callback, called once, with the reason.
    """
    compiled: Callable[..., Any] | None = torch.compile(network)

    def forward(*inputs: Any) -> Any:
        nonlocal compiled
        if compiled is not None:
            try:
                return compiled(*inputs)
            except (RuntimeError, ImportError, OSError) as error:
                compiled = None
                on_failure(str(error).splitlines()[0][:200])
        return network(*inputs)

    return forward


def recompute_activations(blocks: Iterable[nn.Module]) -> None:
    """Make blocks keep only their inputs for the backward pass, from now on."""
    for block in blocks:
        forward: Any = partial(checkpoint, block.forward, use_reentrant=False)
        block.forward = forward


def keep_activations(blocks: Iterable[nn.Module]) -> None:
    """Undo `recompute_activations`."""
    for block in blocks:
        del block.forward
