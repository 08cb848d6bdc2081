"""Weights in a pickle, as torch.save writes them; for files whose maker is trusted, since a pickle can run code.

torch reads tensors only, and nothing that names a function of any other module.
"""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING

import torch

from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.saving import array_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

_SAFE_SINCE = (2, 10)  # older ones could be made to run code even so: CVE-2025-32434, CVE-2026-24747


def open_pickle(path: Path) -> dict[str, ndarray]:
    """The tensors of a file by name. Raises ModelFormatError; SettingError where torch is too old to be safe."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_SINCE:
        raise SettingError(
            f"{path}: is a pickle, and torch {torch.__version__} can be made to run code by one (CVE-2026-24747); "
            f"install torch {'.'.join(map(str, _SAFE_SINCE))} or later"
        )
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelFormatError(
            f"{path}: is damaged, or holds more than tensors{_unsupported(error)}; nothing of it was opened"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ModelFormatError(f"{path}: is no pickle of torch, or damaged: {_first_line(error)}") from error
    if not isinstance(weights, dict):
        raise ModelFormatError(f"{path}: holds a {type(weights).__name__}; expected tensors by their names")
    for name, tensor in weights.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise ModelFormatError(f"{path}: {name!r} is a {type(tensor).__name__}; expected tensors by their names")
    return {name: array_of(tensor.detach()) for name, tensor in weights.items()}


def _unsupported(error: Exception) -> str:
    """What a pickle holds besides tensors, where torch names it; its advice to open the pickle anyway is left out."""
    named = re.search(r"Unsupported global: GLOBAL (\w[\w.]*)", str(error))
    return f", such as {named[1]}" if named else ""


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
