"""Folders of quantised weights: MXFP4 is unpacked as transformers does, and all else refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_tensors
from tiny_models import TEXTS, save, shaken, tiny
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import chainrule
from chainrule import ModelFormatError
from chainrule.base.bfloat16 import widen
from chainrule.open_models.quantised import unpack_mxfp4

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

_PACKED = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}


def packed(shape: tuple[int, ...], seed: int) -> tuple[ndarray, ndarray]:
    """Random blocks and scales of (experts, rows, blocks), small enough that none is infinite."""
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (*shape, 16), np.uint8), random.integers(115, 130, shape, np.uint8)


def test_blocks_are_what_transformers_makes_of_them() -> None:
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
    size = {"hidden_size": 32, "intermediate_size": 32, "num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8}
    plain = save(shaken(lambda: tiny("gpt_oss", **size)), folder / "plain")
    tensors: dict[str, Any] = load_file(plain / "model.safetensors")
    for seed, name in enumerate([name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]):
        experts, _, rows = tensors[name].shape
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = packed((experts, rows, 1), seed)
        both = (torch.from_numpy(tensors[f"{name}_{part}"]) for part in ("blocks", "scales"))
        tensors[name] = convert_moe_packed_tensors(*both, dtype=torch.float32).contiguous().numpy()
    quantised = folder / "quantised"
    quantised.mkdir()
    (quantised / "tokenizer.json").write_bytes((plain / "tokenizer.json").read_bytes())
    config = json.loads((plain / "config.json").read_text())
    (quantised / "config.json").write_text(json.dumps({**config, "quantization_config": _PACKED}))
    halves = {name.rpartition("_")[0] for name in tensors if name.endswith("_blocks")}
    save_file({n: t for n, t in tensors.items() if n not in halves}, quantised / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.endswith(("_blocks", "_scales"))}, plain / "model.safetensors")
    return quantised, plain


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
