"""Weights in pickles: refused, but where somebody says that they are to be opened; nothing in them ever runs."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_models import CAUSAL, save, shaken

import chainrule
from chainrule.cli.main import run
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(shaken(CAUSAL["gpt2"]), tmp_path / "hf")


def pickled(folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """The weights that were in the folder, which are in a pickle there now."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", **options)
    return tensors


@pytest.mark.parametrize("is_new", [True, False])
def test_a_pickle_is_opened_where_that_is_said(folder: Path, is_new: bool) -> None:
    expected = chainrule.load(folder).score(["the cat sat"])
    pickled(folder, _use_new_zipfile_serialization=is_new)
    with pytest.raises(
        ModelFormatError, match=r"is a pickle, .* so it was not opened\. If you trust .* with allow_pickle=True"
    ):
        chainrule.load(folder)
    np.testing.assert_array_equal(chainrule.load(folder, allow_pickle=True).score(["the cat sat"]), expected)


def test_shards_that_are_pickles(folder: Path) -> None:
    expected = chainrule.load(folder).score(["the cat sat"])
    tensors = pickled(folder)
    (folder / "pytorch_model.bin").unlink()
    places = {name: f"pytorch_model-{1 + number % 2}.bin" for number, name in enumerate(tensors)}
    for shard in set(places.values()):
        torch.save({name: tensors[name] for name in tensors if places[name] == shard}, folder / shard)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ModelFormatError, match=r"pytorch_model\.bin\.index\.json: is a pickle"):
        chainrule.load(folder)
    np.testing.assert_array_equal(chainrule.load(folder, allow_pickle=True).score(["the cat sat"]), expected)


def test_convert_makes_a_folder_that_needs_no_switch(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pickled(folder)
    assert run(["convert", str(folder), str(tmp_path / "lm")]) == 1
    assert "convert it with --allow-pickle; or save" in capsys.readouterr().err
    (tmp_path / "text.txt").write_text("the cat sat\n")
    assert run(["evaluate", str(folder), str(tmp_path / "text.txt")]) == 1
    assert "convert it with --allow-pickle; or save" in capsys.readouterr().err
    assert not (tmp_path / "lm").exists()
    assert run(["convert", str(folder), str(tmp_path / "lm"), "--allow-pickle"]) == 0
    assert run(["convert", str(folder), str(tmp_path / "out"), "--to", "hugging-face", "--allow-pickle"]) == 0
    rows = [chainrule.load(tmp_path / name).score(["the cat sat"]) for name in ("lm", "out")]
    np.testing.assert_array_equal(*rows)


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return exec, (f"open({str(self.trace)!r}, 'w').close()",)


def as_zip(payload: bytes) -> bytes:
    """As torch.save writes it today."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return file.getvalue()


def as_legacy(payload: bytes) -> bytes:
    """As torch.save wrote it before: magic number, version, machine, and then the object."""
    begin = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "protocol_version": 1001, "type_sizes": {}}]
    return b"".join(pickle.dumps(part, 2) for part in begin) + payload + pickle.dumps([], 2)


@pytest.mark.parametrize("wrapped", [as_zip, as_legacy, bytes])
def test_a_malicious_pickle_does_not_run(wrapped: Any, folder: Path, tmp_path: Path) -> None:
    trace, weights = tmp_path / "trace", pickled(folder)
    payload = pickle.dumps({**dict.fromkeys(weights), "evil": Malicious(trace)}, 2)
    (folder / "pytorch_model.bin").write_bytes(wrapped(payload))
    with pytest.raises(ModelFormatError, match=r"bin: is damaged, or holds more than tensors.*; nothing") as error:
        chainrule.load(folder, allow_pickle=True)
    assert "weights_only" not in str(error.value)
    assert not trace.exists()
    pickle.loads(payload)
    assert trace.exists()  # it would have


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.ones(2)], "holds a list"),
        ({"weight": {"a": torch.ones(2)}}, "'weight' is a dict"),
        ({1: 2}, "1 is a int"),
    ],
)
def test_what_holds_no_tensors_by_name(content: Any, message: str, folder: Path) -> None:
    pickled(folder)
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(ModelFormatError, match=rf"{message}; expected tensors by their names"):
        chainrule.load(folder, allow_pickle=True)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_pickle_that_is_cut_off(is_new: bool, folder: Path) -> None:
    pickled(folder, _use_new_zipfile_serialization=is_new)
    whole = (folder / "pytorch_model.bin").read_bytes()
    for content in (b"garbage" * 9, *(whole[:size] for size in (0, 10, 300, len(whole) // 2, len(whole) - 1))):
        (folder / "pytorch_model.bin").write_bytes(content)
        with pytest.raises(ModelFormatError, match=r"pytorch_model\.bin: .*damaged") as error:
            chainrule.load(folder, allow_pickle=True)
        assert "weights_only" not in str(error.value)


def test_a_torch_that_pickles_can_make_run_code_opens_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled(folder)
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(
        SettingError, match=r"torch 2\.9\.1\+cpu can be made to run code .* install torch 2\.10 or later"
    ):
        chainrule.load(folder, allow_pickle=True)
