"""The measured figures that README and the guide quote: `docs/figures.toml`, and which of them are older than their code.

A page writes {{ figure NAME }}, which `docs/hooks.py` replaces; `make figures` lists what should be measured again.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "figures.toml"
_MACRO = re.compile(r"\{\{ figure ([a-z0-9-]+) \}\}")


class Figure(NamedTuple):
    """A measured figure. value: as pages show it, without its unit. code: files and folders whose change makes it old."""

    value: str
    what: str
    command: str
    date: str
    machine: str
    record: str
    code: list[str]


def figures() -> dict[str, Figure]:
    """Return all figures by name. Raises TypeError where a field is missing or not known."""
    return {name: Figure(**fields) for name, fields in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}


def names_in(markdown: str) -> list[str]:
    """Return the names of the figures that a page quotes."""
    return _MACRO.findall(markdown)


def with_figures(markdown: str, known: dict[str, Figure]) -> str:
    """Return a page with the values of its figures. Raises KeyError where one is not known."""
    return _MACRO.sub(lambda macro: known[macro[1]].value, markdown)


def last_change(code: list[str]) -> str:
    """Return the date of the last commit that changed these files, not counting moves; nothing if there is none."""
    command = ["git", "log", "-1", "--format=%cs", "--diff-filter=M", "--", *code]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print the figures that are older than the code that they measure, the oldest first."""
    known = figures()
    old = [(figure.date, name, changed) for name, figure in known.items() if (changed := last_change(figure.code)) > figure.date]
    for date, name, changed in sorted(old):
        figure = known[name]
        print(f"{name}: {figure.value}, measured {date}; its code changed {changed}\n    {figure.what}\n    {figure.command}")
    print(f"{len(old)} of {len(known)} figures are older than their code")


if __name__ == "__main__":
    main()
