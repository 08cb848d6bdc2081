"""Tries the wheel with the lowest versions that pyproject.toml allows, on the lowest Python: make lowest."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from build import build
from dist import report
from environments import ROOT, WITHOUT_TORCH, ReleaseError, environment, install_lowest, pythons, smoke


def main() -> int:
    try:
        wheel, _ = build(ROOT / "dist")
        version, python = next(iter(pythons().items()))
        with tempfile.TemporaryDirectory() as folder:
            for name, extras in (("without extras", ()), ("with the extras that need no PyTorch", WITHOUT_TORCH)):
                fresh = environment(python, Path(folder) / name.replace(" ", "-"))
                print(install_lowest(fresh, wheel, extras))
                print(f"Python {version}, the lowest versions, {name}:", flush=True)
                report(smoke(fresh, Path(folder) / f"{name} models").output)
    except ReleaseError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
