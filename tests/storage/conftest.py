"""A model folder for every test."""

from pathlib import Path

import pytest
from saved_folders import save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "lm", note="first")
    return tmp_path / "lm"
