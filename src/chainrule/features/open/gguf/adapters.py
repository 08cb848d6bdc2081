"""Low-rank adapters as llama.cpp's GGUF files have them, read and written: tensors NAME.lora_a (r, K) and
NAME.lora_b (N, r) of each matrix, and adapter.lora.alpha, which is divided by the rank of each.

A file names the architecture of its base, but not where that is. The rows of B are in the order of the base's file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.bfloat16 import widen
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.open.adapters import Adapter, to_ours, to_theirs
from chainrule.features.open.exporting import architecture_for
from chainrule.features.open.gguf.changes import TRANSPOSED
from chainrule.features.open.gguf.file import is_gguf, open_gguf, read_header
from chainrule.features.open.gguf.kind import BLOCK
from chainrule.features.open.gguf.kinds import KINDS
from chainrule.features.open.gguf.reading import deinterleave_rotary
from chainrule.features.open.network.config import opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy import ndarray

    from chainrule.features.open.gguf.kind import Kind
    from chainrule.neural.config import NetworkConfig

    Json = dict[str, Any]

_ALPHA = "adapter.lora.alpha"
_NAME = re.compile(r"blk\.(\d+)\.([\w.]+)\.weight\.lora_([ab])")
_AS_LLAMA = {"mistral": "llama"}  # what llama.cpp has under another name


def is_gguf_adapter(path: Path) -> bool:
    """Return whether a file is an adapter. Raises ModelFormatError if it is a damaged GGUF file."""
    return is_gguf(path) and read_header(path).metadata.get("general.type") == "adapter"


def read_gguf_adapter(
    path: Path, config: NetworkConfig, origin: Json | None, shapes: Mapping[str, Sequence[int]]
) -> Adapter:
    """Return the adapter of a GGUF file, for a network; the arguments are those of `read_peft`.

    Raises ModelFormatError where it is damaged, or for another base; SettingError.
    """
    metadata, tensors = open_gguf(path)
    if metadata.get("adapter.type") != "lora":
        raise ModelFormatError(f"{path}: adapter.type is {metadata.get('adapter.type')!r}; expected 'lora'")
    config = opened(config)
    architecture, name = architecture_for(config, origin), metadata.get("general.architecture")
    kind = KINDS.get(str(name))
    model_type = architecture.model_type
    if kind is None or kind.model_type != _AS_LLAMA.get(model_type, model_type):
        raise ModelFormatError(f"{path}: is an adapter of a {name}, but the base is a {model_type}")
    alpha = metadata.get(_ALPHA)
    if not isinstance(alpha, float | int) or not np.isfinite(alpha) or alpha <= 0:
        raise ModelFormatError(f"{path}: {_ALPHA} is {alpha!r}; expected a number above 0")
    both: dict[str, dict[str, ndarray]] = {}
    for full in tensors:
        match = _NAME.fullmatch(full)
        stem = None if match is None else _stems(kind).get(match[2])
        if match is None or stem is None:
            raise ModelFormatError(f"{path}: has the tensor {full!r}; expected blk.N.NAME.weight.lora_a and .lora_b")
        part = widen(tensors[full]).astype(np.float32)
        if part.ndim != 2:
            raise ModelFormatError(f"{path}: the tensor {full!r} is {list(part.shape)}; expected a matrix")
        if match[3] == "b" and (heads := _heads(kind, match[2], config)):
            part = deinterleave_rotary(part, heads)
        both.setdefault(kind.layers.format(layer=match[1]) + stem, {})[match[3]] = part
    if not both:
        raise ModelFormatError(f"{path}: holds no tensors; expected .lora_a and .lora_b of matrices")
    ranks = {len(pair.get("a", ())) for pair in both.values()}
    rank, pairs = max(ranks), {}
    for own, pair in both.items():
        if pair.keys() != {"a", "b"} or not len(pair["a"]) == pair["b"].shape[1] > 0:
            raise ModelFormatError(f"{path}: the tensors .lora_a and .lora_b of {own!r} do not belong together")
        share = rank / len(pair["a"])  # alpha is divided by each one's own rank
        pairs[own] = pair["a"], pair["b"] if share == 1 else pair["b"] * np.float32(share)
    return Adapter(float(alpha) / rank, rank, None, to_ours(architecture, config, pairs, shapes, str(path)))


def export_gguf_adapter(
    config: NetworkConfig, origin: Json | None, arrays: Mapping[str, ndarray], said: Mapping[str, Any]
) -> tuple[Json, dict[str, ndarray]]:
    """Return the metadata and tensors of a file; the arguments are those of `export_peft`.

    Raises SettingError where llama.cpp has no such architecture, or a layer has no counterpart.
    """
    config = opened(config)
    architecture = architecture_for(config, origin)
    model_type = _AS_LLAMA.get(architecture.model_type, architecture.model_type)
    name = next((name for name, kind in KINDS.items() if kind.model_type == model_type), None)
    if name is None:
        raise SettingError(f"no GGUF file of a {architecture.model_type} is known here; write peft's folder")
    kind = KINDS[name]
    parts = {stem: part for part, stem in reversed(_stems(kind).items())}
    pattern = re.compile(re.escape(kind.layers).replace(r"\{layer\}", r"(\d+)") + r"(.+)")
    tensors: dict[str, ndarray] = {}
    for full, (a, b) in to_theirs(architecture, config, arrays, said["rank"]).items():
        match = pattern.fullmatch(full)
        part = None if match is None else parts.get(match[2])
        if match is None or part is None:
            raise SettingError(
                f"the adapter of {full} has no counterpart in a GGUF file of a {name}; write peft's folder"
            )
        if heads := _heads(kind, part, config):
            b = b.reshape(heads, 2, -1, b.shape[1]).swapaxes(1, 2).reshape(b.shape)
        tensors |= {f"blk.{match[1]}.{part}.weight.lora_a": a, f"blk.{match[1]}.{part}.weight.lora_b": b}
    metadata = {
        "general.architecture": name,
        "general.type": "adapter",
        "adapter.type": "lora",
        _ALPHA: float(said["alpha"]),
    }
    return metadata, {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}


def _stems(kind: Kind) -> dict[str, str]:
    """Return Hugging Face's names in a block by GGUF's, of matrices that are the same in both, but for the order of
    rows.
    """
    return {
        part: stem
        for part, stem in {**BLOCK, **kind.names}.items()
        if "{" not in stem and "#" not in stem and kind.changes.get(part, TRANSPOSED) is TRANSPOSED
    }


def _heads(kind: Kind, part: str, config: NetworkConfig) -> int:
    """Return the heads whose rows are reordered; 0 where none are."""
    of_keys = {"attn_q": "heads", "attn_k": "key_heads"}
    return int(getattr(config, of_keys[part], 0)) if kind.is_paired and part in of_keys else 0
