"""Quantised weights of Hugging Face folders: those of gpt-oss (MXFP4) are unpacked, all others refused by name.

MXFP4 (Open Compute Project 2023): 32 neighbours of a row share a power of two, and each is one of 16 numbers. A tensor
X is stored as X_blocks, uint8 (experts, rows, blocks, 16), two numbers a byte, the lower half first, and X_scales,
uint8 (experts, rows, blocks), exponents plus 127; unpacked, X is (experts, 32 blocks, rows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16
from chainrule.errors import ModelFormatError
from chainrule.storage.config_json import CONFIG
from chainrule.storage.gguf import MXFP4_VALUES
from chainrule.storage.hugging_face import line_of

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.storage.hugging_face import Checkpoint

_FIELD, _BLOCKS, _SCALES = "quantization_config", "_blocks", "_scales"
_BIAS, _NAN = 127, 255  # of exponents; the one that stands for no number


def unpacked(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with weights in bfloat16, if they are in MXFP4; unchanged if they are not quantised.

    Raises ModelFormatError for any other quantisation.
    """
    said = checkpoint.config.get(_FIELD)
    if said is None:
        return checkpoint
    kind = said.get("quant_method") if isinstance(said, dict) else said
    if kind != "mxfp4":
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: {_FIELD} says that weights are quantised by {kind!r}; expected mxfp4 "
            "or none. Get the model before it was quantised, or its GGUF file"
            f"{line_of(checkpoint.location, CONFIG, _FIELD)}"
        )
    tensors = _Unpacked(checkpoint)
    config = {name: value for name, value in checkpoint.config.items() if name != _FIELD}
    files = {name: checkpoint.files.get(tensors.source(name), checkpoint.location) for name in tensors}
    return checkpoint._replace(config=config, tensors=tensors, files=files)


class _Unpacked(Mapping[str, "ndarray"]):
    """Tensors by name, unpacked on access. The last one is kept, since experts share one."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tensors, self._location = checkpoint.tensors, checkpoint.location
        packed = {name.removesuffix(_BLOCKS) for name in self._tensors if name.endswith(_BLOCKS)}
        self._packed = {name for name in packed if name + _SCALES in self._tensors}
        halves = {name + half for name in self._packed for half in (_BLOCKS, _SCALES)}
        self._names = dict.fromkeys([*(name for name in self._tensors if name not in halves), *sorted(self._packed)])
        self._last: tuple[str, ndarray] | None = None

    def source(self, name: str) -> str:
        """The name of the tensor in the file."""
        return name + _BLOCKS if name in self._packed else name

    def __getitem__(self, name: str) -> ndarray:
        if name not in self._packed:
            return self._tensors[name]
        if self._last is None or self._last[0] != name:
            self._last = None  # before the next one takes memory
            self._last = name, self._unpack(name)
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _unpack(self, name: str) -> ndarray:
        """Raises ModelFormatError."""
        blocks, scales = self._tensors[name + _BLOCKS], self._tensors[name + _SCALES]
        fits = blocks.ndim == 4 and blocks.shape[3] == 16 and blocks.shape[:3] == scales.shape
        if not fits or blocks.dtype != np.uint8 or scales.dtype != np.uint8 or (scales == _NAN).any():
            raise ModelFormatError(
                f"{self._location}: the tensors {name + _BLOCKS!r} {list(blocks.shape)} and {name + _SCALES!r} "
                f"{list(scales.shape)} are no weights in MXFP4; the file is damaged"
            )
        return unpack_mxfp4(blocks, scales)


def unpack_mxfp4(
    blocks: UInt8[ndarray, "experts rows blocks 16"], scales: UInt8[ndarray, "experts rows blocks"]
) -> ndarray:
    """The weights, in bfloat16, which holds all of them exactly: (experts, 32 blocks, rows)."""
    exponents = np.arange(_NAN + 1)[:, None] - _BIAS
    with np.errstate(over="ignore"):  # beyond float32, it is infinite
        values = np.ldexp(MXFP4_VALUES, exponents, dtype=np.float64).astype(np.float32)
    table = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)  # (exponents, 16)
    experts, rows, count, _ = blocks.shape
    weights = np.empty((experts, rows, count, 16, 2), np.uint16)
    for own, packed, scale in zip(weights, blocks, scales, strict=True):  # one by one, to save memory
        own[..., 0] = table[scale[..., None], packed & 0x0F]
        own[..., 1] = table[scale[..., None], packed >> 4]
    return weights.view(BFLOAT16).reshape(experts, rows, 32 * count).swapaxes(1, 2)
