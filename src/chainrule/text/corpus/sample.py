"""The built-in sample text: Python's own documentation, which needs no download.

About 2 MB: the help topics of the language reference and the docstrings of the standard library, one document a line.
It differs between versions and builds of Python, since distributions omit parts of the library; so figures measured on
it are comparable only within one build.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXCLUDED = {"antigravity", "idlelib", "lib2to3", "test", "this", "turtledemo"}  # tests, jokes and applications


def sample_lines(progress: Progress = silent) -> list[str]:
    """The lines of the sample text, without empty ones.

    Raises TextError if this Python was installed without its documentation and the sources of its library.
    """
    paths = list(_library_sources())
    lines = list(_topic_lines())
    for i, path in enumerate(paths):
        for docstring in _docstrings(path):
            lines.extend(docstring.splitlines())
        progress("collecting Python's documentation", i + 1, len(paths))
    lines = [" ".join(line.split()) for line in lines if line.strip()]
    if not lines:
        raise TextError(
            "this Python was installed without its documentation, so there is no sample text; give a file of your own"
        )
    return lines


def sample_docstrings() -> list[tuple[str, str]]:
    """The docstrings of the sample text, each with the name of its top-level package or module."""
    library = Path(sysconfig.get_path("stdlib"))
    return [
        (path.relative_to(library).parts[0].removesuffix(".py"), docstring)
        for path in _library_sources()
        for docstring in _docstrings(path)
    ]


def _topic_lines() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions leave them out
        return
    for topic in sorted(topics):
        yield from topics[topic].splitlines()


def _library_sources() -> Iterator[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    for name in sorted(sys.stdlib_module_names - _EXCLUDED):
        package, module = library / name, library / f"{name}.py"
        if package.is_dir():
            paths = sorted(package.rglob("*.py"))
            yield from (path for path in paths if not {"test", "tests"} & {*path.relative_to(library).parts})
        elif module.is_file():
            yield module


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield text


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """As `ast.walk`, but without expressions, which are most of a tree and have no docstrings."""
    waiting = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for block in ("body", "cases", "handlers", "orelse", "finalbody"):
            waiting.extend(getattr(node, block, ()))
