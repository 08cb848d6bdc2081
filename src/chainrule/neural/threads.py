"""torch's threads. Their number is that of `chainrule.base.jit`; where none was said, torch keeps its own."""

from __future__ import annotations

import os

import torch

from chainrule.base.jit import on_threads_set, requested_threads, thread_count

_own: int | None = None  # torch's number before ours took its place


def use_threads() -> None:
    """Gives torch the number of threads that was said, now and whenever `chainrule.set_threads` is called.

    Threads that are more than the processors wait for one another, and a step takes eight times as long: each process
    that torchrun started here has its part of them. Where nothing was said, what torch took from OMP_NUM_THREADS or
    `torch.set_num_threads` stays.
    """
    on_threads_set(_apply)
    _apply()


def _apply() -> None:
    global _own
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))  # torchrun's, which says OMP_NUM_THREADS=1 by itself
    if requested_threads() is not None or processes:
        _own = torch.get_num_threads() if _own is None else _own
        torch.set_num_threads(max(1, thread_count() // max(1, processes)))
    elif _own is not None:
        torch.set_num_threads(_own)
        _own = None
