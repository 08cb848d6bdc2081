"""chainrule verify: a whole model and damaged ones."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "copy")


def arrays_of(folder: Path) -> Path:
    (path,) = folder.glob("*.safetensors")
    return path


def test_a_whole_model_is_whole(chainrule, model: Path) -> None:
    size = arrays_of(model).stat().st_size
    assert chainrule("verify", model) == (
        0,
        f"{model}: intact; config.json, README.md and {size:,} bytes of data match their checksums\n",
        "",
    )


def test_verify_finds_one_changed_bit(chainrule, copy: Path) -> None:
    path = arrays_of(copy)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = chainrule("verify", copy)
    assert result.status == 1
    assert result.error.startswith(f"{path}: its SHA-256 is ")
    assert result.error.endswith("the file has changed since it was written")


@pytest.mark.parametrize("verb", ["verify", "evaluate", "score", "next", "generate", "convert"])
def test_every_verb_notices_truncated_arrays(verb: str, chainrule, copy: Path, heldout: Path) -> None:
    path = arrays_of(copy)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    further = {"evaluate": [heldout], "score": [heldout], "convert": [copy.parent / "target"]}
    result = chainrule(verb, copy, *further.get(verb, []))
    assert result.status == 1
    assert result.error == f"{path}: has {size // 2:,} bytes, expected {size:,}; it was cut off or changed"
    assert not (copy.parent / "target").exists()


def test_verify_notices_missing_arrays(chainrule, copy: Path) -> None:
    arrays_of(copy).unlink()
    result = chainrule("verify", copy)
    assert result.status == 1
    assert "the model is incomplete" in result.error


def test_a_file_has_no_checksums(chainrule, fixtures: Path) -> None:
    result = chainrule("verify", fixtures / "order1.arpa.gz")
    assert result.status == 1
    assert "order1.arpa.gz: is a file; expected a model folder, which has checksums" in result.error


def test_a_model_without_its_card_is_whole_and_said_to_be_without_it(chainrule, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lm"
    shutil.copytree(model, copy)
    (copy / "README.md").unlink()
    assert "config.json (without its README.md) and" in chainrule("verify", copy).out
