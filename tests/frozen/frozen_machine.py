"""Records of floating point: the machine that they hold for, and what of them holds anywhere."""

from __future__ import annotations

import json
import platform
import re
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE = "machine"
_BITS, _TEXT = "~", "≈"  # begin words, and whole texts, that depend on floating point


def machine() -> dict[str, str]:
    """What the last bits of sums depend on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "features of it that torch uses": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = dict(line.split("\t", 1) for line in file if "\t" in line)
    except OSError:
        return platform.processor()
    named = [lines.get(name, "").strip("\t: \n") for name in ("vendor_id", "cpu family", "model")]
    return "{}, family {}, model {}".format(*named)


def bits(word: str) -> str:
    """Marks a number or a digest that depends on floating point."""
    return _BITS + word


def text_by_bits(text: str) -> str:
    """Marks a text whose choice depends on floating point."""
    return _TEXT + text


def comparable(old: str, new: str, tell: Callable[[str], None]) -> tuple[str, str]:
    """Both records as they are, or without what depends on the machine if they were made on different ones."""
    before, now = json.loads(old)[MACHINE], json.loads(new)[MACHINE]
    if before == now:
        return old, new
    different = [f"{name} was {before.get(name)!r} and is {value!r}" for name, value in now.items()]
    different = [line for line, name in zip(different, now, strict=True) if before.get(name) != now[name]]
    tell(f"recorded on another machine, so only what holds on every machine is compared: {'; '.join(different)}")
    return _portable(old), _portable(new)


def _portable(record: str) -> str:
    return json.dumps(_without_bits(json.loads(record)), indent=1, sort_keys=True, ensure_ascii=False)


def _without_bits(value: Any) -> Any:
    """A record without the machine, and with placeholders for what depends on it."""
    if isinstance(value, dict):
        return {name: _without_bits(each) for name, each in value.items() if name != MACHINE}
    if isinstance(value, list):
        if value and all(isinstance(each, str) and each[:1] not in (_BITS, _TEXT) for each in value):
            return _without_bits(" ".join(each.strip() for each in value))  # lines, broken by the length of numbers
        return [_without_bits(each) for each in value]
    if not isinstance(value, str):
        return value
    return _TEXT if value.startswith(_TEXT) else re.sub(rf"{_BITS}[^\s,}}\]]+", _BITS, value)
