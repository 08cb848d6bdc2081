"""What a run computes with."""

from __future__ import annotations

import os

import pytest
import torch

from chainrule import jit
from chainrule.training.machine import machine_on

ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
NAMES = ("CHAINRULE_THREADS", "OMP_NUM_THREADS", "LOCAL_WORLD_SIZE")


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({}, [ALL]),
        ({"OMP_NUM_THREADS": "1"}, []),  # torch has heeded it already
        ({"OMP_NUM_THREADS": "1", "CHAINRULE_THREADS": "6"}, [6]),
        ({"OMP_NUM_THREADS": "1", "CHAINRULE_THREADS": "6", "LOCAL_WORLD_SIZE": "2"}, [3]),
        ({"OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": str(2 * ALL)}, [1]),  # torchrun says OMP_NUM_THREADS=1 itself
    ],
)
def test_threads_are_no_more_than_was_said(
    environment: dict[str, str], threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    monkeypatch.setattr(jit, "_threads", None)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine_on("cpu", "float32").device.type == "cpu"
    assert taken == threads
