"""What many tests share: the files beside them, and one text that is encoded once."""

from __future__ import annotations

import gc
import os
import random
import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from assembled import assemble_once
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from samples import spread

from chainrule.text.corpus.corpus import Corpus
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

gc.disable()  # until all tests are imported, which leaves no garbage

FIXTURES = Path(__file__).parent / "fixtures"
pytest_plugins = ["shell_fixtures"]  # commands, for tests of verbs

# The same examples on every machine and in every run (`make fuzz` draws others, with the profile `fresh`). How long one
# takes says nothing: the first may compile kernels, and the machine may be busy.
settings.register_profile(
    "chainrule",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", settings.get_profile("chainrule"), max_examples=50)
settings.register_profile("fresh", settings.get_profile("thorough"), derandomize=False)
settings.load_profile("chainrule")

# A shell that starts the tests in the background makes them, and all that they start, deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Encoded(NamedTuple):
    """train.txt and heldout.txt as ids; the tokenizer has learned the former."""

    tokenizer: Tokenizer
    train: np.ndarray
    heldout: np.ndarray


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reversed", action="store_true", help="run the last test first: none may need what others left")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test draws from the common generators, and on how many threads, does not depend on those before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # libraries draw from it
    if torch := sys.modules.get("torch"):
        # torch.manual_seed notes the whole stack for a GPU that is not in use yet, which takes longer than many tests.
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)
        torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Hypothesis also draws constants from the modules of ours that are imported by then: other tests would decide. It
    would look for them once all tests are collected."""
    if settings().derandomize:
        providers._get_local_constants = lambda: providers._local_constants
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Spark's come first: one process starts it while the others work. Shared out at the end, each would start it."""
    spread(items)  # before those that are marked are left out
    yield
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
    if config.getoption("--reversed"):
        items.reverse()


def pytest_collection_finish() -> None:
    """What is there now stays, and need not be looked through again and again; by default, nor need what tests make
    (a twentieth of their time)."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out for want of a program: few look at the number of skipped tests."""
    skipped = {report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])}
    for reason in sorted(reason for reason in skipped if "NO " in reason):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), red=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def quick_disk() -> Iterator[None]:
    """A process that is killed loses nothing that it has written, synced or not: tests need not wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def seeds() -> Iterator[None]:
    """Where no seed is given, it comes from the generator that `pytest_runtest_setup` seeds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "randbits", random.getrandbits)
        patch.setattr(secrets, "randbelow", random.randrange)
        yield


@pytest.fixture(scope="session", autouse=True)
def parser() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        assemble_once(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """So that no test is the first one on this machine, which would be told that something is being compiled."""
    Tokenizer.untrained("whitespace").encode_texts([""])


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture(scope="session")
def encoded() -> Encoded:
    tokenizer = Tokenizer.untrained("whitespace")
    train, heldout = (
        np.concatenate([tokenizer.encode(block.text, grow=grow).ids for block in Corpus.of(FIXTURES / name).blocks()])
        for name, grow in (("train.txt", True), ("heldout.txt", False))
    )
    return Encoded(tokenizer, train, heldout)
