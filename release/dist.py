"""Builds and checks what is released, and tries the wheel in fresh environments: make dist."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from build import build
from environments import (
    ROOT,
    SUPPORTED,
    WITHOUT_TORCH,
    ReleaseError,
    environment,
    install,
    pythons,
    run,
    smoke,
    with_extras,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--torch",
        help="what pip installs as PyTorch, where it has a build for the Python; without it, networks are not tried",
    )
    parser.add_argument("--only", nargs="*", metavar="VERSION", help="these versions of Python only")
    arguments = parser.parse_args()
    try:
        wheel, sdist = build(ROOT / "dist")
        for package in (wheel, sdist):
            print(
                f"{package.relative_to(ROOT)}: {package.stat().st_size / 1e6:.2f} MB, built twice with the same bytes"
            )
        found = {name: path for name, path in pythons().items() if not arguments.only or name in arguments.only}
        if not found:
            raise ReleaseError(f"none of the Pythons {', '.join(SUPPORTED)} is here")
        with tempfile.TemporaryDirectory() as folder:
            for version, python in found.items():
                try_wheel(wheel, version, python, Path(folder), arguments.torch)
    except ReleaseError as error:
        print(error)
        return 1
    absent = [version for version in SUPPORTED if version not in found]
    print(f"tried on Python {', '.join(found)}" + (f"; NOT TRIED: {', '.join(absent)}" if absent else ""))
    return 0


def try_wheel(wheel: Path, version: str, python: Path, folder: Path, torch: str | None) -> None:
    """Tries the wheel with extras and without, in environments of its own."""
    models = folder / f"{version}-models"
    extras = environment(python, folder / f"{version}-extras")
    torch_installed = False
    if torch:
        try:
            install(extras, [torch])
            torch_installed = True
        except ReleaseError as error:
            print(f"Python {version}: NO PyTorch, networks are not tried: {str(error).splitlines()[-1]}")
    else:
        print(f"Python {version}: no PyTorch is named (make dist TORCH=...), networks are not tried")
    tried = "all extras" if torch_installed else "the extras but neural"
    seconds = install(extras, [with_extras(wheel, ("all",) if torch_installed else WITHOUT_TORCH)])
    print(
        f"Python {version}, with {tried}, installed in {seconds:.0f} s of processor time",
        flush=True,
    )
    report(smoke(extras, models).output)
    plain = environment(python, folder / f"{version}-plain")
    seconds = install(plain, [with_extras(wheel, ())])
    print(f"Python {version}, without extras, installed in {seconds:.0f} s of processor time", flush=True)
    report(smoke(plain, folder / f"{version}-plain-models", models=models).output)
    print(f"  {start_up(plain, folder)}", flush=True)


def report(output: str) -> None:
    """The last two lines of the smoke test: what it found."""
    for line in output.splitlines()[-2:]:
        print(f"  {line}", flush=True)


def start_up(python: Path, folder: Path) -> str:
    """What starting costs, in processor time: the least of five."""

    def least(*words: str | Path) -> float:
        return min(run([python, *words], folder).seconds for _ in range(5))

    nothing, imported = least("-c", "pass"), least("-c", "import chainrule")
    if not nothing:
        return "no processor time is told here"
    shown = least(python.parent / "chainrule", "--help")
    return (
        f"import chainrule: {imported - nothing:.3f} s more than python -c pass; "
        f"chainrule --help: {shown:.3f} s, {shown / nothing:.1f} times python -c pass"
    )


if __name__ == "__main__":
    sys.exit(main())
