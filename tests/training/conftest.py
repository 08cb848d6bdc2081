"""One thread for all: the networks are tiny, and threads that wait for one another would only be slower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import chainrule

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    chainrule.set_threads(1)
    torch.set_num_threads(1)
    yield
    chainrule.set_threads(None)
    torch.set_num_threads(before)
