"""The weights of features, given or tuned, and their small JSON file."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.applications.rescoring.features import WORDS
from chainrule.base.files import read_file, replace_file
from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jaxtyping import Float64
    from numpy import ndarray

_KIND = "chainrule rescoring weights"
_LARGEST = 1 << 20  # bytes of a file


@dataclass(frozen=True)
class Weights:
    """Weights by the name of the feature. record: how they were tuned, if they were."""

    values: Mapping[str, float]
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            if not math.isfinite(value):
                raise SettingError(f"the weight of {name} is {value}; expected a finite number")

    def vector(self, names: Sequence[str]) -> Float64[ndarray, " features"]:
        """The weights of some features, in order. Raises SettingError if one has no weight, or a weight no feature."""
        missing = [name for name in names if name not in self.values]
        if missing:
            raise SettingError(f"{missing[0]} has no weight; the weights given are for {', '.join(self.values)}")
        self.check(names)
        return np.array([self.values[name] for name in names], np.float64)

    def check(self, names: Sequence[str]) -> None:
        """Raises SettingError if a weight has no feature."""
        others = [name for name in self.values if name not in names]
        if others:
            raise SettingError(
                f"there is a weight for {others[0]}, but no such score; expected some of {', '.join(names)}"
            )

    def with_defaults(self, names: Sequence[str], replaced: Sequence[str] = ()) -> Weights:
        """The weights with 1 for all others, but 0 for the number of words and for scores that models replace.

        Raises as `check`.
        """
        self.check(names)
        zero = (WORDS, *replaced)
        return Weights({name: self.values.get(name, 0.0 if name in zero else 1.0) for name in names}, self.record)

    def save(self, path: Path) -> None:
        """Raises OutputError."""
        content = {"kind": _KIND, "chainrule": __version__, "weights": dict(self.values), "tuned": dict(self.record)}
        with replace_file(path) as file:
            file.write((json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def load_weights(path: Path) -> Weights:
    """Reads what `save` wrote. Raises TextError."""
    try:
        content: Any = json.loads(read_file(path, _LARGEST))
        values = content["weights"] if content["kind"] == _KIND else None
        if not isinstance(values, dict) or not all(type(value) in (int, float) for value in values.values()):
            raise ValueError("no weights")
        return Weights({name: float(value) for name, value in values.items()}, content.get("tuned", {}))
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise TextError(f"{path}: has no weights; expected a file that rescoring wrote after tuning") from error
