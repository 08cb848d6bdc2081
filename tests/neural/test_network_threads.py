"""torch has as many threads as were said, from the command line, the environment or Python."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

import chainrule
from chainrule.base import threads as base_threads
from chainrule.cli.main import run
from chainrule.neural import device as threads
from chainrule.neural.config import FeedforwardConfig
from chainrule.neural.packed import layouts
from chainrule.training.config import TrainingConfig
from chainrule.training.device import machine_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
NAMES = ("CHAINRULE_THREADS", "OMP_NUM_THREADS", "LOCAL_WORLD_SIZE")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    monkeypatch.setattr(base_threads, "_threads", None)
    monkeypatch.setattr(threads, "_torch_default", None)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network in a folder."""
    folder = tmp_path_factory.mktemp("network") / "lm"
    text = folder.with_name("text.txt")
    text.write_text("a b c d e f g\n" * 4)
    config = FeedforwardConfig(width=4, embedding_width=3, window=2, context=4)
    training = TrainingConfig(steps=1, batch=2, valid_share=0, compile="no")
    chainrule.train(text, config, training=training).save(folder)
    return folder


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        ({}, 5),  # torch's own stays
        ({"CHAINRULE_THREADS": "6"}, 6),
        ({"OMP_NUM_THREADS": "1", "CHAINRULE_THREADS": "6"}, 6),
        ({"CHAINRULE_THREADS": "6", "LOCAL_WORLD_SIZE": "2"}, 3),
        ({"OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": str(2 * ALL)}, 1),  # torchrun says OMP_NUM_THREADS=1 itself
    ],
)
def test_training_has_the_threads_that_were_said(
    environment: dict[str, str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    torch.set_num_threads(5)
    machine_on("cpu", "float32")
    assert torch.get_num_threads() == number


def test_so_has_a_network_that_is_opened_and_the_number_may_change_later(saved: Path) -> None:
    torch.set_num_threads(5)
    chainrule.set_threads(3)
    chainrule.load(saved)
    assert torch.get_num_threads() == 3
    chainrule.set_threads(2)
    assert torch.get_num_threads() == 2
    chainrule.set_threads(None)
    assert torch.get_num_threads() == 5


def test_where_nothing_is_said_a_callers_number_stays(saved: Path) -> None:
    torch.set_num_threads(4)
    chainrule.load(saved)
    chainrule.set_threads(None)
    assert torch.get_num_threads() == 4


def test_threads_of_a_command_are_torchs_too(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(5)
    monkeypatch.setenv("CHAINRULE_THREADS", "9")  # so that what the command leaves there is taken back
    assert run(["generate", str(saved), "a b", "--max-tokens", "1", "--threads", "3"]) == 0
    assert torch.get_num_threads() == 3


def test_loading_kernels_does_not_count_and_a_disturbed_step_counts_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread a step takes 4 s, on two 2 s; others then take the processors for one step, and for good."""
    clock, steps = SimpleNamespace(now=0.0), layouts._Steps()
    monkeypatch.setattr(layouts, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def step(on_two: float) -> int:
        threads = steps.choose(1)
        clock.now += 100  # to load kernels
        steps.begin()
        clock.now += 4 if threads == 1 else on_two
        steps.end()
        return threads

    assert [step(seconds) for seconds in (2, 2, 2, 6, 2, 40, 40)] == [1, 2, 2, 2, 2, 2, 1]
