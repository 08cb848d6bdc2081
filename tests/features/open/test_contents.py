"""`info` of a folder or a file that cannot be opened says what is in it, which line is the reason, and what is near."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tiny_files import write_gguf
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import byte_level

import chainrule
from chainrule.cli.main import run
from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path


def changed(folder: Path, **changes: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}, indent=1))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(shaken(CAUSAL["llama"]), tmp_path / "hf")


def contents(path: Path) -> tuple[dict[str, str], str]:
    with pytest.raises(ModelFormatError) as raised:
        chainrule.info(path)
    return dict(raised.value.contents), str(raised.value)


def test_an_unknown_architecture_is_described(folder: Path) -> None:
    rows, message = contents(changed(folder, model_type="odd", architectures=["OddForCausalLM"]))
    assert "model_type is 'odd', which is not supported (config.json, line" in message
    assert rows["is"] == "a Hugging Face folder, model_type odd (OddForCausalLM)"
    assert (rows["layers"], rows["width"], rows["heads"], rows["heads of keys"]) == ("2", "16", "4", "2")
    assert (rows["context"], rows["vocabulary"]) == ("64", "285")
    assert rows["tokenizer"] == "BPE of 280 tokens"
    assert rows["tensors"].startswith("21 of float32: 13,040 numbers")
    assert rows["nearest"].endswith(", which has 12 of its 12 kinds of tensors")


def test_a_setting_that_is_refused_is_named_with_its_line(folder: Path) -> None:
    rows, message = contents(changed(folder, hidden_act="odd"))
    assert "hidden_act: 'odd' is not supported" in message
    assert "(config.json, line " in message
    assert rows["nearest"].startswith("llama, ")


def test_what_can_be_read_of_a_damaged_folder_is_told(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"nothing")
    (folder / "tokenizer.json").write_text("{}")
    rows, message = contents(folder)
    assert "model.safetensors" in message
    assert rows["is"] == "a Hugging Face folder, model_type llama (LlamaForCausalLM)"
    assert rows["tokenizer"] == "a tokenizer.json that cannot be read"
    assert "tensors" not in rows


def test_quantised_weights_are_named(folder: Path) -> None:
    rows, message = contents(changed(folder, quantization_config={"quant_method": "awq"}))
    assert "quantised by 'awq'" in message
    assert rows["quantised by"] == "awq"


def test_a_file_is_described(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "odd.gguf", shaken(CAUSAL["llama"]), byte_level(), architecture="mpt")
    rows, message = contents(path)
    assert "general.architecture is 'mpt', which is not supported; the nearest is" in message
    assert rows["is"] == "a GGUF file, architecture mpt"
    assert (rows["layers"], rows["context"]) == ("2", "64")
    assert rows["tokenizer"] == "gpt2 of 285 tokens, cut into words by the rule gpt-2"
    assert rows["tensors"].startswith("21 of F32: 13,040 numbers")
    assert "kinds of tensors" in rows["nearest"]


def test_a_file_with_tensors_of_an_unknown_type_is_described(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "odd.gguf", shaken(CAUSAL["llama"]), byte_level())
    data = bytearray(path.read_bytes())
    name = b"output_norm.weight"
    place = data.index(name) + len(name) + 4 + 8  # after the number of dimensions, and one dimension
    data[place : place + 4] = (23).to_bytes(4, "little")
    path.write_bytes(data)
    rows, message = contents(path)
    assert "has ggml's type 23, which is not supported" in message
    assert "1 of ggml's type 23" in rows["tensors"]
    assert rows["nearest"].startswith("llama, ")


def test_what_is_no_model_of_others_has_no_contents(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert contents(tmp_path)[0] == {}


def test_the_command_prints_it_before_the_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(folder, model_type="odd")
    assert run(["info", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "is             a Hugging Face folder, model_type odd (LlamaForCausalLM)"
    assert err.count("\n") == 1
    assert "which is not supported" in err
    assert run(["info", str(folder), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["contents"]["layers"] == "2"
    assert "which is not supported" in record["refused"]
