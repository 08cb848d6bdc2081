"""Low-rank adapters as peft's folders have them, by the tables of an architecture, in both directions.

    adapter_config.json         rank, alpha, the modules, and the name of the base
    adapter_model.safetensors   base_model.model.NAME.lora_A.weight (r, K) and .lora_B.weight (N, r) of each module

The rows of B are those of the matrix beside which it stands, so what changes the rows of a matrix changes them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import widen
from chainrule.base.files import read_file
from chainrule.errors import ModelFormatError, SettingError, os_errors_as
from chainrule.features.open.architecture import TRANSPOSED
from chainrule.features.open.exporting import architecture_for
from chainrule.features.open.mapping import layers_of
from chainrule.features.open.network.config import opened
from chainrule.storage.safetensors import open_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from jaxtyping import Float
    from numpy import ndarray

    from chainrule.features.open.architecture import Architecture, Tensor
    from chainrule.neural.config import NetworkConfig

    Json = dict[str, Any]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_NAME = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight")
# Fields that are computed with, or change no number of an adapter that was trained.
_KNOWN = {
    *("peft_type", "r", "lora_alpha", "use_rslora", "alpha_pattern", "rank_pattern", "base_model_name_or_path"),
    *("auto_mapping", "peft_version", "revision", "task_type", "inference_mode", "target_modules", "exclude_modules"),
    *("lora_dropout", "fan_in_fan_out", "layers_to_transform", "layers_pattern", "megatron_core", "megatron_config"),
    *("loftq_config", "eva_config", "qalora_group_size", "runtime_config", "ensure_weight_tying", "corda_config"),
    *("lora_ga_config",),  # of ways to begin, which init_lora_weights names
}
# Fields that change numbers, with the values with which a network is computed here. peft adds and subtracts other
# beginnings of A and B from the base when it opens an adapter, which its folder does not have.
_SUPPORTED: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("use_dora", "lora_bias", "use_qalora"), (False,)),
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal"),
}


class Adapter(NamedTuple):
    """An adapter in our terms. scale: the factor of B A. base: what it says that its base is called. arrays: A and B by
    our names, less `.adapter.a` and `.adapter.b`.
    """

    scale: float
    rank: int
    base: str | None
    arrays: dict[str, tuple[ndarray, ndarray]]

    def named(self) -> dict[str, ndarray]:
        """Return the arrays by their names in the network."""
        pairs = self.arrays.items()
        return {f"{name}.adapter.{each}": pair[i] for name, pair in pairs for i, each in enumerate("ab")}


def is_peft(folder: Path) -> bool:
    """Return whether a folder is one of peft's."""
    return (folder / CONFIG).is_file()


def read_config(folder: Path) -> Json:
    """Return adapter_config.json. Raises ModelFormatError where it is no LoRA that is computed here."""
    path = folder / CONFIG
    with os_errors_as(ModelFormatError, path, "read"):
        data = read_file(path)
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: is no valid JSON: {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else config
        raise ModelFormatError(f"{path}: peft_type is {kind!r:.80}; expected 'LORA'")
    for name, value in config.items():
        if name in _KNOWN or value is None or (isinstance(value, list | dict) and not value):
            continue
        supported = _SUPPORTED.get(name, ())
        if not any(type(value) is type(each) and value == each for each in supported):
            expected = " or ".join(map(repr, supported)) or "it to be missing or null"
            raise ModelFormatError(f"{path}: {name} is {value!r:.80}, which is not supported; expected {expected}")
    for name in ("r", "lora_alpha"):
        number = config.get(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1 << 24:
            raise ModelFormatError(f"{path}: {name} is {number!r:.80}; expected a number above 0")
    return config


def read_peft(folder: Path, config: NetworkConfig, origin: Json | None, shapes: Mapping[str, Sequence[int]]) -> Adapter:
    """Return the adapter of a peft folder, for a network.

    origin: the record of Hugging Face's files that the network came with. shapes: of the network's arrays. Raises
    ModelFormatError where it is damaged, or for another base; SettingError.
    """
    said, config = read_config(folder), opened(config)
    path = folder / WEIGHTS
    with os_errors_as(ModelFormatError, path, "read", "write adapters with safetensors"):
        tensors = {name: widen(array) for name, array in open_tensors(path).items()}
    pairs: dict[str, dict[str, ndarray]] = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None or tensor.ndim != 2 or tensor.dtype.kind != "f":
            raise ModelFormatError(f"{path}: has the tensor {name!r}; expected matrices lora_A and lora_B of modules")
        pairs.setdefault(match[1], {})[match[2]] = tensor
    if not pairs:
        raise ModelFormatError(f"{path}: holds no tensors; expected matrices lora_A and lora_B")
    ready = {name: _scaled(name, pair, said, path) for name, pair in pairs.items()}
    return Adapter(
        _scale(said, said["lora_alpha"], said["r"]),
        int(said["r"]),
        said.get("base_model_name_or_path"),
        to_ours(architecture_for(config, origin), config, ready, shapes, str(path)),
    )


def _scale(config: Json, alpha: float, rank: int) -> float:
    return float(alpha / (rank**0.5 if config.get("use_rslora") else rank))


def _scaled(name: str, pair: Mapping[str, ndarray], config: Json, path: Path) -> tuple[ndarray, ndarray]:
    """Return A and B of a module; B times what its scale differs from the others'. Raises ModelFormatError."""
    if pair.keys() != {"A", "B"} or pair["A"].shape[0] != pair["B"].shape[1]:
        raise ModelFormatError(f"{path}: the matrices lora_A and lora_B of {name!r} do not belong together")
    a, b = pair["A"].astype(np.float32), pair["B"].astype(np.float32)
    patterns = config.get("alpha_pattern") or {}
    alphas = [value for pattern, value in patterns.items() if re.fullmatch(rf"(.*\.)?({pattern})", name)]
    own = _scale(config, alphas[0] if alphas else config["lora_alpha"], len(a))
    usual = _scale(config, config["lora_alpha"], config["r"])
    return a, b if own == usual else b * np.float32(own / usual)


def to_ours(
    architecture: Architecture,
    config: NetworkConfig,
    pairs: Mapping[str, tuple[ndarray, ndarray]],
    shapes: Mapping[str, Sequence[int]],
    location: str,
) -> dict[str, tuple[ndarray, ndarray]]:
    """Return A and B by our names. pairs: by the names of theirs, less .weight. location: for messages.

    Raises ModelFormatError where one is for another base.
    """
    left, arrays = set(pairs), {}
    for row, ours, theirs in _matrices(architecture, config):
        present = [name for name in theirs if name in pairs]
        if not present or f"{ours}.weight" not in shapes:
            continue
        left -= set(present)
        rows, columns = shapes[f"{ours}.weight"]
        rank = max(len(pairs[name][0]) for name in present)
        sizes = [len(part) for part in _to_theirs(row, np.zeros((rows, 1), np.float32), config)]
        both = []
        for name, size in zip(theirs, sizes, strict=True):
            a, b = pairs.get(name, (np.zeros((0, columns), np.float32), np.zeros((size, 0), np.float32)))
            if a.shape[1] != columns or len(b) != size:
                raise ModelFormatError(
                    f"{location}: {name!r} has lora_A {list(a.shape)} and lora_B {list(b.shape)}, but the matrix of "
                    f"the base is {[size, columns]}; the adapter is for another base"
                )
            missing = rank - len(a)
            both.append((np.pad(a, ((0, missing), (0, 0))), np.pad(b, ((0, 0), (0, missing)))))
        b_parts = [b for _, b in both]
        if len(theirs) > 1 and getattr(config, "gated_attention", False):  # whose parts are others in ours
            b_parts = [_placed(b, i, len(both)) for i, b in enumerate(b_parts)]
        arrays[ours] = np.concatenate([a for a, _ in both]), _to_ours(row, b_parts, config)
    if left:
        raise ModelFormatError(
            f"{location}: has an adapter of {sorted(left)[0]!r}, which is no linear layer in the blocks of a "
            f"{architecture.model_type} with the settings of this base; it is for another base"
        )
    return arrays


def to_theirs(
    architecture: Architecture, config: NetworkConfig, arrays: Mapping[str, ndarray], usual: int
) -> dict[str, tuple[ndarray, ndarray]]:
    """Return A and B by the names of theirs, less .weight.

    arrays: by their names in the network. usual: the rank by which alpha is divided here. Where theirs are other parts
    than ours, their rank is the sum. Others divide alpha by the rank of each, so B of a higher rank is multiplied.
    Raises SettingError where a layer has no counterpart.
    """
    pairs: dict[str, tuple[ndarray, ndarray]] = {}
    left = {name.rpartition(".adapter.")[0] for name in arrays}
    for row, ours, theirs in _matrices(architecture, config):
        if ours not in left:
            continue
        left.remove(ours)
        a, b = arrays[f"{ours}.adapter.a"], arrays[f"{ours}.adapter.b"]
        rank = b.shape[1]
        parts = len(a) // rank
        if len(theirs) == parts or parts == 1:
            of_parts = _to_theirs(row, b, config)
            own = np.split(a, parts) if parts > 1 else [a] * len(theirs)
            pairs |= dict(zip(theirs, zip(own, of_parts, strict=True), strict=True))
            continue
        borders = np.cumsum(_part_sizes(b, parts, config))[:-1]
        spread = np.concatenate([_placed(own, i, parts) for i, own in enumerate(np.split(b, borders))])
        pairs |= {name: (a, own) for name, own in zip(theirs, _to_theirs(row, spread, config), strict=True)}
    if left:
        raise SettingError(f"the adapter of {sorted(left)[0]} has no counterpart in a {architecture.model_type}")
    return {name: (a, b if len(a) == usual else b * np.float32(len(a) / usual)) for name, (a, b) in pairs.items()}


def _part_sizes(b: Float[ndarray, "N r"], parts: int, config: NetworkConfig) -> list[int]:
    """Return the rows of queries, keys, values and perhaps gates of heads; or of a gate and what it multiplies."""
    if parts == 2:
        return [len(b) // 2] * 2
    keys = getattr(config, "key_heads", 0) * getattr(config, "width_of_heads", 0)
    rest = len(b) - 2 * keys
    return [rest, keys, keys] if parts == 3 else [rest // 2, keys, keys, rest // 2]


def _placed(b: Float[ndarray, "n r"], part: int, parts: int) -> Float[ndarray, "n parts*r"]:
    """Return B of a part, with zeros for the A of the others."""
    rank = b.shape[1]
    return np.pad(b, ((0, 0), (part * rank, (parts - part - 1) * rank)))


def _matrices(architecture: Architecture, config: NetworkConfig) -> Iterator[tuple[Tensor, str, tuple[str, ...]]]:
    """Yield rows for matrices in blocks, with our name and theirs, less .weight."""
    for row in architecture.tensors:
        is_matrix = row.ours.endswith(".weight") and not (row.by_token or row.of_experts)
        if not is_matrix or (row.when is not None and not row.when(config)):
            continue
        for layer, expert in row.places(layers_of(row, config), getattr(config, "experts", 0)):
            if row.in_layer is None or row.in_layer(config, layer):
                theirs = tuple(name.removesuffix(".weight") for name in row.names(layer, expert))
                yield row, row.ours.format(layer=layer, expert=expert).removesuffix(".weight"), theirs


def _to_theirs(row: Tensor, b: ndarray, config: NetworkConfig) -> list[ndarray]:
    return [b] if row.change is TRANSPOSED else row.change.to_theirs(b, config)


def _to_ours(row: Tensor, parts: list[ndarray], config: NetworkConfig) -> ndarray:
    return parts[0] if row.change is TRANSPOSED else row.change.to_ours(parts, config)


def export_peft(
    config: NetworkConfig, origin: Json | None, arrays: Mapping[str, ndarray], said: Mapping[str, Any]
) -> tuple[dict[str, bytes], dict[str, ndarray]]:
    """Return the files of a peft folder, and its tensors. origin: as for `read_peft`. said: the record of the adapter.

    Raises SettingError where the network has no counterpart in transformers.
    """
    config = opened(config)
    architecture = architecture_for(config, origin)
    pairs = to_theirs(architecture, config, arrays, said["rank"])
    ranks = {name: len(a) for name, (a, _) in pairs.items() if len(a) != said["rank"]}
    every = {name for _, _, theirs in _matrices(architecture, config) for name in theirs}
    short = sorted({name.rpartition(".")[2] for name in pairs})
    is_all = {name for name in every if name.rpartition(".")[2] in short} == pairs.keys()
    written = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": said["base"],
        "r": said["rank"],
        "lora_alpha": said["alpha"],
        "rank_pattern": {f"^{re.escape(name)}$": rank for name, rank in ranks.items()},
        "alpha_pattern": {},
        "target_modules": short if is_all else sorted(pairs),
        "lora_dropout": 0.0,
        "bias": "none",
        "use_rslora": False,
        "fan_in_fan_out": any(row.change is TRANSPOSED for row, _, _ in _matrices(architecture, config)),
        "inference_mode": True,
    }
    tensors = {
        f"{_PREFIX}{name}.lora_{each}.weight": np.ascontiguousarray(pair[i], np.float32)
        for name, pair in pairs.items()
        for i, each in enumerate("AB")
    }
    return {CONFIG: (json.dumps(written, indent=2) + "\n").encode()}, tensors
