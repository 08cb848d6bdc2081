"""The measured figures that README and the guide quote, of `docs/figures.toml`; which are older than their code.

A page has the value and then <!-- figure NAME -->, so that it also reads on its own: a test compares both, and a name
that is not known fails `make docs`. `make figures` lists what should be measured again.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "figures.toml"
_MARK = re.compile(r"<!-- figure ([a-z0-9-]+) -->")


class Figure(NamedTuple):
    """A measured figure. value: as pages show it, without unit. code: files and folders whose change makes it old."""

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
    return _MARK.findall(markdown)


def wrong_figures(markdown: str, known: dict[str, Figure]) -> list[str]:
    """Return a line for each mark of a page that does not follow the value of its figure, or names none."""
    wrong = []
    for mark in _MARK.finditer(markdown):
        if mark[1] not in known:
            wrong.append(f"docs/figures.toml has no figure {mark[1]}")
        elif not re.search(rf"(?<![\w.]){re.escape(known[mark[1]].value)}$", markdown[: mark.start()]):
            wrong.append(f"the figure {mark[1]} is {known[mark[1]].value} in docs/figures.toml")
    return wrong


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


@cache
def _on_the_day(date: str) -> tuple[str, dict[str, str]]:
    """Return the last commit up to a day, and the paths that files had then, by their paths of today."""
    commit = _git("log", "-1", f"--until={date} 23:59:59", "--format=%H").strip()
    paths = {path: path for path in _git("ls-files", "src").splitlines()}
    for line in _git("diff", "-M40%", "-l0", "--name-status", commit, "HEAD", "--", "src").splitlines():
        kind, *names = line.split("\t")
        if kind[0] in "AR":
            paths[names[-1]] = names[0] if kind[0] == "R" else ""
    return commit, paths


class _Computation(ast.NodeTransformer):
    """Leaves out what changes no figure: docstrings, and imports, which change when a module moves."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None


@cache
def _computation(commit: str, path: str) -> str:
    """Return what a file of a commit computes, in a form that comments, docstrings and imports do not change."""
    return ast.dump(_Computation().visit(ast.parse(_git("show", f"{commit}:{path}"))))


def changed_since(date: str, code: list[str]) -> list[str]:
    """Return the Python files of some code whose computation has changed since the end of a day."""
    commit, paths = _on_the_day(date)
    files = [path for path in paths if path.endswith(".py") and any(f"{path}/".startswith(f"{own}/") for own in code)]
    return [
        path for path in files if not paths[path] or _computation(commit, paths[path]) != _computation("HEAD", path)
    ]


def main() -> None:
    """Print the figures that are older than the code that they measure, the oldest first."""
    known = figures()
    changed = {name: changed_since(figure.date, figure.code) for name, figure in known.items()}
    old = sorted((name for name in known if changed[name]), key=lambda name: known[name].date)
    for name in old:
        figure, (first, *others) = known[name], changed[name]
        more = f" and {len(others)} more" if others else ""
        print(f"{name}: {figure.value}, measured {figure.date}; since then {first}{more} changed")
        print(f"    {figure.what}\n    {figure.command}")
    print(f"{len(old)} of {len(known)} figures are older than their code")


if __name__ == "__main__":
    main()
