"""What a device can do in bfloat16, measured by trying it, never by the processor's name; and torch's threads.

A network in bfloat16 computes its matrix products in it; layers that the device cannot run in bfloat16 use float32.
torch gets as many threads as `chainrule.base.threads` allows, or as there are free processors.
"""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

from chainrule.base.threads import free_processors, on_threads_set, requested_threads, thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

R = TypeVar("R")

SHARE = 8  # rows of a step at least that a thread computes
_SIDE = {"cpu": 512, "cuda": 4096}  # of the square matrices whose product is timed
_SMALL_SIDE = 128  # enough to notice that bfloat16 is emulated, which takes 10 to 50 times as long as float32
_EMULATED = 0.25  # a gain below this is emulation, at any size
_QUICK = 1.5
_WARM_UPS, _REPEATS, _SECONDS = 2, 4, 0.25  # products before and during timing; none begins after this many seconds


def has_quick_bfloat16(device: torch.device) -> bool:
    """Return whether matrix products are at least 1.5 times as fast in bfloat16 as in float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and bfloat16_gain(device) >= _QUICK  # for other devices, the gain is unknown


@cache
def bfloat16_gain(device: torch.device) -> float:
    """Return the speed of matrix products in bfloat16 relative to float32; a small product suffices to notice
    emulation.
    """
    small = _gain(device, _SMALL_SIDE)
    return small if small < _EMULATED else _gain(device, _side(device))


def product_speed(device: torch.device, dtype: torch.dtype) -> float:
    """Return floating-point operations per second, in products of large matrices.

    On a processor, all of torch's threads at the speed of one, by processor time: what other programs take now is no
    matter.
    """
    side = _side(device)
    if device.type != "cpu":
        return 2 * side**3 / _seconds_of_product(device, dtype, side)
    threads = torch.get_num_threads()
    with on_one_thread():
        return threads * 2 * side**3 / _seconds_of_product(device, dtype, side, time.thread_time)


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Let torch have one thread inside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def attends_in_bfloat16(device_type: str) -> bool:
    """Return whether torch's fused attention is as fast in bfloat16; on processors, it is up to seven times slower."""
    return device_type != "cpu"


def runs_lstm_in_bfloat16(device_type: str) -> bool:
    """Return whether an LSTM runs in bfloat16 at all; oneDNN has none for processors without AVX-512."""
    return _runs_lstm_in_bfloat16(device_type)


@cache
def _runs_lstm_in_bfloat16(device_type: str) -> bool:
    with torch.inference_mode(mode=False), torch.device("meta"):  # so that no random numbers are drawn
        empty = nn.LSTM(4, 4)
    with torch.inference_mode(mode=False), torch.autocast(device_type, torch.bfloat16):
        layer = empty.to_empty(device=device_type)
        for with_gradients in (True, False):
            try:
                with torch.set_grad_enabled(with_gradients):
                    layer(torch.zeros(1, 1, 4, device=device_type))
            except RuntimeError:
                return False
    return True


# A constant for torch.compile, which sees the mark of a plain function, but not of a cached one.
# torch.compiler.assume_constant_result does the same, but imports the compiler, which takes longer than importing
# torch.
runs_lstm_in_bfloat16._dynamo_marked_constant = True  # type: ignore[attr-defined]


def layers_in_float32(network: nn.Module, device: torch.device) -> list[str]:
    """Return the kinds of layers in a network that the device cannot run in bfloat16."""
    has_lstm = any(isinstance(layer, nn.LSTM) for layer in network.modules())
    return ["LSTM"] if has_lstm and not runs_lstm_in_bfloat16(device.type) else []


def bfloat16_notes(network: nn.Module, device: torch.device) -> list[str]:
    """Return notes for users before a network runs in bfloat16 on a device, a sentence each."""
    notes = []
    if device.type == "cpu" and bfloat16_gain(device) < 0.5:
        ratio = 1 / bfloat16_gain(device)
        notes.append(f"bfloat16 is slower than float32 here: matrix products take {ratio:.0f} times as long")
    if layers := layers_in_float32(network, device):
        notes.append(f"{' and '.join(layers)} layers run in float32, since they cannot run in bfloat16")
    return notes


def _side(device: torch.device) -> int:
    return _SIDE.get(device.type, 1024)


def _gain(device: torch.device, side: int) -> float:
    seconds = [_seconds_of_product(device, dtype, side) for dtype in (torch.float32, torch.bfloat16)]
    return seconds[0] / seconds[1]


@cache
def _seconds_of_product(
    device: torch.device, dtype: torch.dtype, side: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the time of the fastest of a few products."""
    matrix = torch.ones(side, side, dtype=dtype, device=device)
    first_start = time.perf_counter()
    times: list[float] = []
    while len(times) < _WARM_UPS + _REPEATS and (not times or time.perf_counter() - first_start < _SECONDS):
        _wait(device)
        start = clock()
        torch.mm(matrix, matrix)
        _wait(device)
        times.append(clock() - start)
    return min(times[_WARM_UPS:] or times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


_torch_default: int | None = None  # torch's own number of threads, before it was changed here


def use_threads() -> None:
    """Set torch's threads to the requested number, now and whenever `chainrule.set_threads` is called.

    Processes that torchrun started on this machine share the threads among them: with more threads than processors, a
    step takes eight times as long. If none were requested, what OMP_NUM_THREADS or `torch.set_num_threads` set stays.
    """
    on_threads_set(_apply)
    _apply()


def follow_load() -> None:
    """Give torch, once a second, as many threads as processors are free, if the user has not set how many.

    A product of two threads waits for the slower one: where another program has taken its processor, a step takes ten
    times as long as on one thread. For work that has no fixed number of steps, or figures that do not depend on threads
    but for the last bits: reading, scoring, generation, and training for minutes. After a pause of this program it
    begins anew: what others did meanwhile does not count.
    """
    global _followed, _chosen, _seen
    now, own = time.perf_counter(), time.process_time()
    pause = now - _seen[0]
    if pause > _PAUSE and own - _seen[1] < _IDLE * pause:
        free_processors.begin()
        _followed, _chosen = now, _all_threads
    _seen = now, own
    if now >= _followed + _SECONDS_BETWEEN:
        _followed, free = now, None if _is_fixed_number() else free_processors.measure()
        if free is not None:
            _chosen = max(1, min(_all_threads, int(free + _NEARLY)))
    if _chosen == getattr(_set_here, "threads", _all_threads):
        return
    if torch.get_num_threads() == getattr(_set_here, "threads", _all_threads):  # else the program has set its own
        torch.set_num_threads(_chosen)
    _set_here.threads = _chosen


def in_shares(function: Callable[[slice], R], count: int, least: int) -> list[R]:
    """Return what a function gives for shares of that many rows, each computed on a separate thread; as many shares as
    torch has threads, of at least `least` rows.

    Threads that share every operation wait for one another after each, and, while they wait, hold processors that
    others want: under load, two of torch's threads take seven times the time of one. Shares meet only at their end.
    """
    whole = torch.get_num_threads()
    threads = min(whole, count // least)
    if threads < 2:
        return [function(slice(0, count))]
    bounds = [count * i // threads for i in range(threads + 1)]
    inference = torch.is_inference_mode_enabled()

    def compute(share: slice) -> R:
        with torch.no_grad(), torch.inference_mode(inference):
            return function(share)

    shares = [_sharers(os.getpid()).submit(compute, slice(*pair)) for pair in pairwise(bounds)]
    wait(shares)  # even if the first one fails: they write into what the caller owns
    torch.set_num_threads(whole)  # which those that just began have set for all threads that are still to begin
    return [share.result() for share in shares]


@cache
def _sharers(process: int) -> ThreadPoolExecutor:
    """Return threads that compute shares, each with one thread of torch; those of a forked process are its own."""
    return ThreadPoolExecutor(os.cpu_count(), f"shares-{process}", _use_one_thread)


def _use_one_thread() -> None:
    """Set torch's threads of this thread of the program, which at first has the number that was set last anywhere."""
    torch.get_num_threads()  # the first call in a thread takes that number over, and would undo what came before
    torch.set_num_threads(1)


def _is_fixed_number() -> bool:
    """Return whether the number of threads has been set, by the user or by torchrun."""
    return requested_threads() is not None or not {"OMP_NUM_THREADS", "LOCAL_WORLD_SIZE"}.isdisjoint(os.environ)


_followed, _all_threads = -math.inf, torch.get_num_threads()
_seen = (
    time.perf_counter(),
    time.process_time(),
)  # when the load was followed, and the processor time of this program until then
_chosen = _all_threads
_set_here = threading.local()  # threads: the number that was set last, which OpenMP keeps for each thread of a program
_SECONDS_BETWEEN, _NEARLY = 1.0, 0.3  # 1.7 free processors are worth two threads
_PAUSE, _IDLE = 0.5, 0.1  # seconds of which a program computes in a smaller share


def _apply() -> None:
    global _torch_default
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))  # set by torchrun, which also sets OMP_NUM_THREADS=1
    if requested_threads() is not None or processes:
        _torch_default = torch.get_num_threads() if _torch_default is None else _torch_default
        torch.set_num_threads(max(1, thread_count() // max(1, processes)))
    elif _torch_default is not None:
        torch.set_num_threads(_torch_default)
        _torch_default = None
