"""Modules that the guide named by paths that are no longer theirs: importing one gives the module that holds its names.

New code imports public names from `chainrule`; these paths work for programs that were written by the guide of 0.1.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

# Without the name of the package.
MOVED = {
    "neural.attention_scores": "neural.layers.attention",
    "neural.cells": "neural.layers.cells",
    "neural.config.labelling": "neural.config.classifiers",
    "neural.config.pictures": "neural.config.vision",
    "neural.labelling": "neural.vision",
    "neural.labelling.pictures": "neural.vision.body",
    "neural.positions": "neural.layers.positions",
    "structures.brackets": "structures.tree_files",
    "experiments.agreement": "experiments.context",
    "experiments.balance": "experiments.data",
    "experiments.bottleneck": "experiments.attention",
    "experiments.extrapolation": "experiments.positions",
    "experiments.gradients": "experiments.recurrence",
    "experiments.heads": "experiments.attention",
    "experiments.memory": "experiments.recurrence",
    "experiments.order": "experiments.positions",
    "experiments.paths": "experiments.cost",
    "experiments.radius": "experiments.recurrence",
    "experiments.retrieval": "experiments.data",
    "experiments.saturation": "experiments.recurrence",
    "experiments.scaling": "experiments.data",
    "experiments.shots": "experiments.context",
}


class Finder:
    """Finds the moved modules; the last of `sys.meta_path`, so that it is asked for what nothing else finds."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        loader: Any = self  # as the machinery asks for it: `create_module` and `exec_module`
        return ModuleSpec(name, loader) if package == "chainrule" and rest in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: the usual empty module, which is put aside when it is executed."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        new = f"chainrule.{MOVED[name.removeprefix('chainrule.')]}"
        warn(f"{name} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[name] = import_module(new)


def install() -> None:
    sys.meta_path.append(Finder())
