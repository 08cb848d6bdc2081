"""A Hub on this machine, and a cache that is empty; the user's own is never touched."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hub_server import Hub
from huggingface_hub import constants, file_download
from tiny_models import CAUSAL, save, shaken

from chainrule.features.hub import source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(file_download.time, "sleep", lambda seconds: None)  # between attempts
    return folder


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    own = Hub()
    thread = threading.Thread(target=own.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", own.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", own.url + "/{repo_id}/resolve/{revision}/{filename}")
    source._listing.cache_clear()
    yield own
    source._listing.cache_clear()
    own.server.shutdown()
    own.server.server_close()
    thread.join()


@pytest.fixture
def again() -> Callable[[], None]:
    """Forgets what the Hub has said, as a new process would."""
    return source._listing.cache_clear


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a tiny GPT-2, beside others that a model does not need."""
    folder = save(shaken(CAUSAL["gpt2"]), tmp_path_factory.mktemp("gpt2") / "hf")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    others = {
        "README.md": b"# tiny",
        ".gitattributes": b"*",
        "pytorch_model.bin": b"pickle",
        "onnx/model.onnx": b"onnx",
    }
    return {**files, **others, "flax_model.msgpack": b"flax", "tiny-Q8_0.gguf": b"GGUF"}
