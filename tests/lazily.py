"""Packages that few tests need, and that take long to import: most workers never do."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


class Lazily:
    """A module, imported where something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(self._name), name)
