"""Pythons that this machine has, fresh environments, and what is installed into them: never the clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
# The extras that need no PyTorch, and neither Java nor lm-evaluation-harness.
WITHOUT_TORCH = (
    "bleu",
    "form",
    "lsp",
    "maps",
    "parquet",
    "pictures",
    "report",
    "serve",
    "sound",
    "subword",
    "superpixels",
)


class ReleaseError(Exception):
    """What must be mended before a release, in a line or with the output of what failed."""


@dataclass(frozen=True)
class Ran:
    output: str  # what was printed, to both streams
    seconds: float  # of the processor


def run(command: list[str | Path], folder: Path, more: dict[str, str] | None = None) -> Ran:
    """Runs a program in a folder, without PYTHONPATH. Raises ReleaseError with what it printed where it fails.

    more: variables of the environment.
    """
    before = processor_seconds()
    hidden = ("PYTHONPATH", "PYTHONHOME", "PYENV_VERSION", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | (more or {})
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds = processor_seconds() - before
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)}\nfailed with status {done.returncode}:\n{done.stdout.rstrip()}")
    return Ran(done.stdout, seconds)


def processor_seconds() -> float:
    """Those of all programs that have been run and have ended; 0 on Windows, which does not tell."""
    try:
        import resource  # os.times counts in hundredths
    except ImportError:
        return 0.0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pythons() -> dict[str, Path]:
    """The interpreter of each supported version that runs here; pyenv's are found where it keeps them."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in SUPPORTED:
        on_path = shutil.which(f"python{version}")
        kept = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
        for candidate in [*([Path(on_path)] if on_path else []), *kept]:
            told = subprocess.run(
                [candidate, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
            )
            if told.returncode == 0:  # a shim of pyenv fails where its version is not chosen
                found[version] = Path(told.stdout.strip())
                break
    return found


def environment(python: Path, folder: Path) -> Path:
    """Makes a fresh environment in a folder, and gives its interpreter."""
    run([python, "-m", "venv", folder], folder.parent)
    return folder / SCRIPTS / "python"


def install(python: Path, requirements: list[str]) -> float:
    """Installs with pip, as users do; gives the seconds of processor time."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    return run(command, python.parent).seconds


def install_lowest(python: Path, wheel: Path, extras: tuple[str, ...]) -> str:
    """Installs the wheel with the lowest versions that pyproject.toml names; gives what uv says of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    # named here, since to uv what the wheel asks for is not direct
    requirements = [with_extras(wheel, extras), *(name for names in lists for name in names)]
    uv = Path(sys.executable).parent / "uv"
    command = [uv, "pip", "install", "--python", python, "--resolution", "lowest-direct", *requirements]
    return run(command, python.parent).output


def with_extras(wheel: Path, extras: tuple[str, ...]) -> str:
    """The wheel as a requirement."""
    return f"chainrule[{','.join(extras)}] @ {wheel.resolve().as_uri()}" if extras else str(wheel.resolve())


def smoke(python: Path, folder: Path, *, models: Path | None = None) -> Ran:
    """Runs the smoke test in an empty folder, which keeps its models, with no kernel compiled before.

    models: such a folder of an earlier run.
    """
    folder.mkdir()
    command = [python, "-P", ROOT / "release" / "smoke.py", *(["--models", models] if models else [])]
    return run(command, folder, {"XDG_CACHE_HOME": str(folder.with_name(f"{folder.name}-cache"))})
