"""What every training record begins with: family, settings, time, versions, command."""

from __future__ import annotations

import datetime
import platform
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def circumstances(family: str, config: DataclassInstance) -> dict[str, Any]:
    """What a record begins with."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    versions = {"chainrule": __version__, "python": platform.python_version(), "numpy": np.__version__}
    return {"family": family, "settings": asdict(config), "trained": now, "versions": versions, "command": sys.argv}
