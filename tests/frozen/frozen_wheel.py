"""The files of the wheel."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


def wheel_files(tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """The files that are packaged and are no Python: hatchling takes what git does not ignore below src/chainrule.

    They are named without their rooms, which may move.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src/chainrule"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    files = [Path(name) for name in listed if name and (ROOT / name).exists()]
    tell(f"{sum(file.suffix == '.py' for file in files)} modules are packaged")
    return {"files": sorted(name_in_wheel(file) for file in files if file.suffix != ".py")}


def name_in_wheel(file: Path) -> str:
    """As templates/page.html: the folder and the name."""
    return f"{file.parent.name}/{file.name}"
