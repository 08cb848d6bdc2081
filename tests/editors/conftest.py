"""A language server as editors start it, one process for all tests of a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

import chainrule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LINES = [
    "the cat sat on the mat",
    "the cat sat on the map",
    "the dog ran to the cat",
    "she said the cat sat down",
    "two 𝒳 and one 𝒳 make three 𝒳",
] * 5


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("editors") / "lm"
    chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3)).save(path)
    return path


@pytest.fixture(scope="session")
def kept(model: Path) -> Path:
    return model.parent / "kept.txt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(model: Path, kept: Path) -> AsyncIterator[LanguageClient]:
    command = [sys.executable, "-m", "chainrule", "lsp", str(model), "--keep", str(kept)]
    client = await ClientServerConfig(command, server_env=dict(os.environ)).start()
    assert isinstance(client, LanguageClient)
    capabilities = client_capabilities("visual_studio_code")
    capabilities.general = None  # positions in UTF-16, as long as nobody asks for others
    await client.initialize_session(types.InitializeParams(capabilities))
    yield client
    await client.shutdown_session()
    await client.stop()
