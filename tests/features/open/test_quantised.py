"""Folders of quantised weights: MXFP4 is unpacked as transformers does, and all else refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_tensors
from tiny_files import packed, save_mxfp4
from tiny_tokenizers import TEXTS

import chainrule
from chainrule import ModelFormatError
from chainrule.base.bfloat16 import widen
from chainrule.features.open.quantised import unpack_mxfp4

if TYPE_CHECKING:
    from pathlib import Path


def test_blocks_are_what_transformers_makes_of_them() -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    blocks, scales = packed((3, 4, 2), 0)
    scales.reshape(-1)[:3] = 0, 1, 254  # the smallest, which are no normal numbers, and the largest
    expected = convert_moe_packed_tensors(torch.from_numpy(blocks), torch.from_numpy(scales), dtype=torch.float32)
    unpacked = unpack_mxfp4(blocks, scales)
    assert unpacked.dtype.itemsize == 2
    np.testing.assert_array_equal(widen(unpacked), expected.numpy())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny gpt-oss with weights in MXFP4, and the same one with the weights that transformers unpacks."""
    folder = tmp_path_factory.mktemp("models")
    return save_mxfp4(folder / "quantised", folder / "plain"), folder / "plain"


def test_a_folder_in_mxfp4_opens_as_its_unpacked_weights(folders: tuple[Path, Path], tmp_path: Path) -> None:
    quantised, plain = map(chainrule.load, folders)
    assert quantised.score(TEXTS).tolist() == plain.score(TEXTS).tolist()
    assert "quantization_config" not in quantised.record["hugging_face"]["config"]
    chainrule.convert(folders[0], tmp_path / "out", to="hugging-face")
    written, expected = (load_tensors(folder / "model.safetensors") for folder in (tmp_path / "out", folders[1]))
    assert written.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(written[name].float(), tensor), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"quant_method": "gptq", "bits": 4},
            r"quantised by 'gptq'; expected mxfp4 or none.* \(config.json, line \d+\)",
        ),
        ("fp8", "quantised by 'fp8'"),
    ],
)
def test_other_quantisations_are_refused_by_name(
    change: object, message: str, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / name).symlink_to(folders[1] / name)
    config = json.loads((folders[1] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": change}, indent=1))
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(tmp_path)


@pytest.mark.parametrize("damage", ["shape", "number"])
def test_damaged_blocks_are_refused(damage: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).symlink_to(folders[0] / name)
    tensors = load_file(folders[0] / "model.safetensors")
    name = "model.layers.1.mlp.experts.down_proj_scales"
    tensors[name] = tensors[name][:1] if damage == "shape" else np.full_like(tensors[name], 255)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelFormatError, match=r"down_proj_blocks' .* are no weights in MXFP4; the file is damaged"):
        chainrule.load(tmp_path)
