"""The wheel and the sdist: built twice, from here and from a copy elsewhere, equal byte for byte, and checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from environments import ROOT, ReleaseError, run

TOOLS = Path(sys.executable).parent


def build(folder: Path) -> tuple[Path, Path]:
    """Builds into a folder, and gives the wheel and the sdist.

    Raises ReleaseError where the second build differs, or a check fails.
    """
    # The time of the last commit, so that whoever builds this commit gets these bytes.
    os.environ["SOURCE_DATE_EPOCH"] = run(["git", "log", "-1", "--format=%ct"], ROOT).output.strip()
    shutil.rmtree(folder, ignore_errors=True)
    packages = _built(ROOT, folder)
    with tempfile.TemporaryDirectory() as elsewhere:
        copy = _copied(Path(elsewhere) / "copy")
        for first, second in zip(packages, _built(copy, Path(elsewhere) / "dist"), strict=True):
            if first.read_bytes() != second.read_bytes():
                raise ReleaseError(f"{first.name} has other bytes when it is built a second time, in another folder")
    wheel, sdist = packages
    run([TOOLS / "twine", "check", "--strict", *packages], ROOT)
    run([TOOLS / "check-wheel-contents", wheel], ROOT)
    return wheel, sdist


def _built(source: Path, folder: Path) -> tuple[Path, Path]:
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source], source)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def _copied(folder: Path) -> Path:
    """What git knows or would take, in another folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder
