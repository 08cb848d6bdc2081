"""Imports point one way; see the table below. A room is a folder or a module directly in the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import chainrule

PACKAGE = Path(chainrule.__file__).parent

FLOOR = {"errors", "progress", "protocol"}
# What each room may import besides itself. Rooms that are not here stand above all of these and see everything.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "progress": set(),
    "files": {"errors"},
    "jit": {"errors", "progress"},
    "protocol": {"errors"},
    "plain_tables": set(),
    "text": {*FLOOR, "files", "jit"},
    "tensors": {"errors", "progress"},
    "uniform": FLOOR,
    "ngram": {*FLOOR, "files", "jit", "text"},
    "neural": {*FLOOR, "jit", "text"},
    "training": {*FLOOR, "files", "jit", "neural", "store", "tensors", "text"},
    "mixture": {*FLOOR, "text"},
    "decoding": {*FLOOR, "text"},
    "evaluation": {*FLOOR, "jit", "plain_tables", "text"},
    "applications": {*FLOOR, "files", "jit", "plain_tables", "text", "mixture", "decoding", "evaluation"},
    "families": {*FLOOR, "text", "uniform", "ngram", "neural", "training", "mixture", "evaluation"},
}
TOP = {"cli", "serving", "__main__"}  # imported by nothing but one another
MAY_PRINT = {"cli"}


def room(module: str) -> str:
    """The room of a dotted name: chainrule.ngram.trie.table is in ngram; chainrule itself (its version) in none."""
    return module.split(".")[1] if "." in module else ""


def imported(tree: ast.Module, module: str, *, is_package: bool) -> set[str]:
    """The dotted names of all that a module imports, at its top or inside functions, for types or for use."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                home = ".".join([*above, *([home] if home else [])])
            names |= {f"{home}.{alias.name}" if home == "chainrule" else home for alias in node.names}
    return names


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What a module may not do, in words."""
    tree = ast.parse(source)
    own = room(module)
    found = []
    for name in sorted(imported(tree, module, is_package=is_package)):
        if name.split(".")[0] == "numba" and own != "jit":
            found.append(f"{module} imports numba")
        if name.split(".")[0] == "torch" and own not in ("neural", "training", "experiments"):
            found.append(f"{module} imports torch")
        other = room(name) if name.split(".")[0] == "chainrule" else ""
        if module.endswith("_kernels") and other and not (name.endswith("_kernels") or other in ("jit", "protocol")):
            found.append(f"{module} imports {name}, which the digest of compiled code does not cover")
        if not other or other == own or other.startswith("__version"):
            continue
        if (own in MAY_IMPORT and other not in MAY_IMPORT[own]) or (other in TOP and own not in TOP):
            found.append(f"{module} imports {name}")
    prints = any(isinstance(node, ast.Name) and node.id == "print" for node in ast.walk(tree))
    if prints and own not in MAY_PRINT:
        found.append(f"{module} prints")
    return found


def modules() -> list[tuple[str, Path]]:
    paths = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
    return [(".".join(["chainrule", *path.relative_to(PACKAGE).with_suffix("").parts]), path) for path in paths]


def test_imports_point_one_way_and_only_the_command_line_prints() -> None:
    found = []
    for module, path in modules():
        is_package = path.name == "__init__.py"
        found += violations(module.removesuffix(".__init__"), path.read_text(), is_package=is_package)
    assert not found


def test_the_walk_reaches_every_room_that_there_is() -> None:
    rooms = {room(module) for module, _ in modules()}
    assert {"errors", "protocol", "text", "ngram", "decoding", "evaluation", "families", "model", "cli"} <= rooms
    assert len(modules()) > 30


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("chainrule.ngram.trie.table", "from chainrule.neural.layers import Norm", "imports chainrule.neural.layers"),
        ("chainrule.neural.layers", "import chainrule.ngram.trie.table", "imports chainrule.ngram.trie.table"),
        ("chainrule.text.corpus", "def f():\n    from chainrule.ngram import table", "imports chainrule.ngram"),
        ("chainrule.text.corpus", "from ..ngram import table", "imports chainrule.ngram"),
        ("chainrule.text.corpus", "from .. import ngram", "imports chainrule.ngram"),
        ("chainrule.decoding.beam", "from chainrule import uniform", "imports chainrule.uniform"),
        (
            "chainrule.decoding.beam",
            "if TYPE_CHECKING:\n    from chainrule.ngram.models.ngram_model import M",
            "chainrule.ngram.models.ngram_model",
        ),
        ("chainrule.evaluation.x", "from chainrule.families import FAMILIES", "imports chainrule.families"),
        ("chainrule.evaluation.x", "from chainrule.decoding.sampling import sample", "chainrule.decoding.sampling"),
        ("chainrule.protocol", "from chainrule.text.corpus import Lines", "imports chainrule.text.corpus"),
        ("chainrule.errors", "import chainrule.base.progress as p", "imports chainrule.base.progress"),
        ("chainrule.families", "from chainrule.api.model import Model", "imports chainrule.api.model"),
        ("chainrule.api.model", "from chainrule.cli.main import main", "imports chainrule.cli.main"),
        ("chainrule.ngram.trie.table", "import numba as nb", "imports numba"),
        ("chainrule.ngram.trie.table", "from numba.core import types", "imports numba"),
        ("chainrule.api.model", "def f():\n    import torch.nn", "imports torch"),
        (
            "chainrule.ngram.trie.query_kernels",
            "from chainrule.ngram.trie.table import ROOT",
            "imports chainrule.ngram.trie.table",
        ),
        ("chainrule.api.model", "def f():\n    print(1)", "prints"),
        ("chainrule.report.card", "show = print", "prints"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str, expected: str) -> None:
    [found] = violations(module, source)
    assert found.startswith(module)
    assert expected in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("chainrule.ngram.trie.table", "from chainrule.errors import ModelFormatError"),
        ("chainrule.ngram.trie.table", "from chainrule.ngram import counting\nfrom . import config\nimport numpy"),
        ("chainrule.evaluation.likelihood", "from chainrule import __version__"),
        ("chainrule.api.model", "from chainrule.ngram.config import NGramConfig"),
        ("chainrule.cli.train", "from chainrule.api.model import train\nprint(1)"),
        ("chainrule.base.jit", "import numba"),
        ("chainrule.api.model", "sprint = 1\nmodel.print(2)"),
    ],
)
def test_what_is_allowed_is_no_violation(module: str, source: str) -> None:
    assert violations(module, source) == []
