"""Small blocks of text, so that borders between them are tested."""

from __future__ import annotations

import pytest

from chainrule.text.corpus import plain_text


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_text, "BLOCK_BYTES", 16)
