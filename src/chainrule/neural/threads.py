"""Gives torch as many threads as `chainrule.base.threads` allows, or leaves torch its own number."""

from __future__ import annotations

import os

import torch

from chainrule.base.threads import on_threads_set, requested_threads, thread_count

_torch_default: int | None = None  # torch's own number of threads, before it was changed here


def use_threads() -> None:
    """Sets torch's threads to the requested number, now and whenever `chainrule.set_threads` is called.

    Processes that torchrun started on this machine share the threads among them: with more threads than processors, a
    step takes eight times as long. If none were requested, what OMP_NUM_THREADS or `torch.set_num_threads` set stays.
    """
    on_threads_set(_apply)
    _apply()


def _apply() -> None:
    global _torch_default
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))  # set by torchrun, which also sets OMP_NUM_THREADS=1
    if requested_threads() is not None or processes:
        _torch_default = torch.get_num_threads() if _torch_default is None else _torch_default
        torch.set_num_threads(max(1, thread_count() // max(1, processes)))
    elif _torch_default is not None:
        torch.set_num_threads(_torch_default)
        _torch_default = None
