"""Imports point one way; see the table below. A room is a folder or a module directly in the package."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import chainrule

PACKAGE = Path(chainrule.__file__).parent

# What each room may import besides itself, from the ground up. The floors of the house:
GROUND = {"errors", "protocol", "base"}
ENGINES = {"uniform", "ngram", "neural", "mixture"}
COMPILED_BY = {  # what alone knows Numba
    "chainrule.base.jit",
    "chainrule.base.intrinsics",
    "chainrule.base.lanes",
    "chainrule.neural.packed.integer_lanes",
}
AGAINST_THE_WAIST = {"decoding", "evaluation"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "protocol": set(),
    "base": {"errors", "protocol"},
    "text": GROUND,
    "structures": {*GROUND, "text"},
    "pictures": {*GROUND, "text"},
    "sounds": {*GROUND, "text"},
    "datasets": {*GROUND, "text", "pictures", "sounds"},
    "drawing": {"errors", "base"},
    "storage": {"errors", "base"},
    "uniform": GROUND,
    "_moved": set(),
    "mixture": GROUND,
    "ngram": {*GROUND, "text"},
    "vectors": {*GROUND, "text"},
    "neural": {*GROUND, "text", "structures", "pictures"},
    "decoding": {*GROUND, "text"},
    "evaluation": {*GROUND, "text", "pictures", "drawing"},
    "speech": {*GROUND, "text"},
    "training": {*GROUND, "text", "structures", "pictures", "sounds", "storage", "neural", "evaluation"},
    "applications": {*GROUND, "text", "structures", "pictures", "drawing", *AGAINST_THE_WAIST},
    "report": {*GROUND, "text", "structures", "pictures", "sounds", "drawing", *AGAINST_THE_WAIST, "training"},
    "open_models": {*GROUND, "text", "storage", "neural"},
    "families": {*GROUND, *ENGINES, "drawing", "evaluation", "training"},
}
MAY_IMPORT["api"] = {*MAY_IMPORT, "text"} - {"uniform"}
MAY_IMPORT["spark"] = {*GROUND, "text", "ngram", "evaluation", "api"}
MAY_IMPORT["kenlm"] = {*GROUND, "text", "ngram", "api"}
MAY_IMPORT["llm_plugin"] = {"errors", "applications", "decoding", "api"}
MAY_IMPORT["comparison"] = {*MAY_IMPORT} - {"kenlm", "spark", "llm_plugin"}
MAY_IMPORT["experiments"] = {*MAY_IMPORT} - {"kenlm", "spark", "llm_plugin", "comparison"}
MAY_IMPORT["explorer"] = {*MAY_IMPORT} - {"kenlm", "spark", "llm_plugin", "comparison", "experiments"}
MAY_IMPORT["serving"] = {*MAY_IMPORT} - {"kenlm", "spark", "llm_plugin", "comparison", "experiments"}
ABOVE_EDITORS = {"kenlm", "spark", "llm_plugin", "comparison", "experiments", "explorer", "serving"}
MAY_IMPORT["editors"] = {*MAY_IMPORT} - ABOVE_EDITORS
MAY_IMPORT["cli"] = {*MAY_IMPORT} - {"kenlm", "llm_plugin"}
MAY_IMPORT["ctc"] = {*GROUND, "speech", "kenlm", "api"}
MAY_IMPORT["__main__"] = {"cli"}
# The same within the n-gram engine; `config` is for all of them.
NGRAM_MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "trie": set(),
    "counting": {"trie"},
    "compact": {"trie"},
    "arpa": {"trie"},
    "exports": {"trie"},
    "editing": {"trie"},
    "estimation": {"trie", "counting"},
    "models": {"trie", "counting", "compact"},
    "kenlm": {"trie", "arpa", "models"},
    "speller": {"trie", "counting", "estimation", "models"},
    "layouts": {"trie", "compact", "models", "kenlm"},
    "saving": {"trie", "compact", "models", "layouts"},
    "training": {"trie", "counting", "estimation", "layouts"},
}
# The same within `api`; what is at its root is for all of its rooms.
API_MAY_IMPORT: dict[str, set[str]] = {
    "vectors": set(),
    "models": {"vectors"},
    "seq2seq": {"models"},
    "opening": {"vectors", "models", "seq2seq", "speech"},
    "editing": {"vectors", "models", "seq2seq"},
    "training": {"vectors", "models", "seq2seq", "speech"},
    "texts": {"vectors", "models", "seq2seq", "opening", "speech"},
    "showing": {"models", "seq2seq", "opening", "speech"},
    "speech": {"models"},
}
API_ROOT = {"config", "progress_line", "run", "tokenizers"}
INNER_MAY_IMPORT = {
    "ngram": {inner: {"config", *others} for inner, others in NGRAM_MAY_IMPORT.items()},
    "api": {inner: {*API_ROOT, *others} for inner, others in API_MAY_IMPORT.items()}
    | dict.fromkeys(API_ROOT, API_ROOT),
}
MOST_MODULES, MOST_LINES = 15, 500  # of a room, of a module; more, and there is a second concept inside
MAY_PRINT = {"cli"}
MAY_TELL_CONFIGURATIONS = {"families", "neural", "open_models"}  # apart; a room may its own, too
MAY_IMPORT_TORCH = {"neural", "training", "experiments"}


def room(module: str) -> str:
    """The room of a dotted name: chainrule.ngram.trie.table is in ngram; chainrule itself (its version) in none."""
    return module.split(".")[1] if "." in module else ""


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All of a module, found once: a walk takes longer than all that is asked of it."""
    return tuple(ast.walk(tree))


def imported(tree: ast.Module, module: str, *, is_package: bool) -> set[str]:
    """The dotted names of all that a module imports, at its top or inside functions, for types or for use."""
    names: set[str] = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                home = ".".join([*above, *([home] if home else [])])
            names |= {f"{home}.{alias.name}" if home == "chainrule" else home for alias in node.names}
    return names


def violations(module: str, tree: ast.Module, *, is_package: bool = False) -> list[str]:
    """What a module may not do, in words."""
    own = room(module)
    problems = []
    for name in sorted(imported(tree, module, is_package=is_package)):
        if name.split(".")[0] == "numba" and module not in COMPILED_BY:
            problems.append(f"{module} imports numba")
        if name.split(".")[0] == "torch" and own not in MAY_IMPORT_TORCH:
            problems.append(f"{module} imports torch")
        if name.split(".")[0] != "chainrule" or name == "chainrule.__version__":
            continue
        other = room(name)
        if module.endswith("_kernels") and not (
            name.endswith("_kernels") or name in {*COMPILED_BY, "chainrule.protocol"}
        ):
            problems.append(f"{module} imports {name}, which the digest of compiled code does not cover")
        elif other != own and other not in MAY_IMPORT[own]:
            problems.append(f"{module} imports {name}")
        elif own == other and own in INNER_MAY_IMPORT:
            inner, target = module.split(".")[2], name.split(".")[2] if name.count(".") > 1 else ""
            if target not in {inner, *INNER_MAY_IMPORT[own][inner]}:
                problems.append(f"{module} imports {name}")
    prints = any(isinstance(node, ast.Name) and node.id == "print" for node in nodes(tree))
    if prints and own not in MAY_PRINT:
        problems.append(f"{module} prints")
    return problems


def told_apart(tree: ast.Module) -> set[str]:
    """The classes of configurations that a module compares something with, by isinstance, type or match."""
    names: set[str] = set()
    for node in nodes(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            compared = node.args[1:]
        elif isinstance(node, ast.Compare) and any(isinstance(kind, ast.Is | ast.IsNot | ast.Eq) for kind in node.ops):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            compared = [node.cls]
        else:
            continue
        parts = [part for expression in compared for part in _alternatives(expression)]
        names |= {part.id if isinstance(part, ast.Name) else part.attr for part in parts}
    return {name for name in names if name.endswith("Config")}


def _alternatives(expression: ast.expr) -> list[ast.Name | ast.Attribute]:
    """The names in `A`, `(A, B)` and `A | B`."""
    match expression:
        case ast.Name() | ast.Attribute():
            return [expression]
        case ast.Tuple(elts=parts):
            return [name for part in parts for name in _alternatives(part)]
        case ast.BinOp(left=left, right=right):
            return _alternatives(left) + _alternatives(right)
    return []


def branches_on_families(module: str, tree: ast.Module, defined: dict[str, set[str]]) -> list[str]:
    """What a module may not do, in words. defined: the rooms of each class of configurations."""
    own = room(module)
    if own in MAY_TELL_CONFIGURATIONS:
        return []
    foreign = sorted(name for name in told_apart(tree) if own not in defined.get(name, set()))
    return [f"{module} asks whether something is a {name}" for name in foreign]


class Module(NamedTuple):
    """name: dotted; that of a package ends with __init__."""

    name: str
    path: Path
    tree: ast.Module


@cache
def modules() -> list[Module]:
    """All that the package has, beside the one that holds its version."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
    return [
        Module(
            ".".join(["chainrule", *path.relative_to(PACKAGE).with_suffix("").parts]),
            path,
            ast.parse(path.read_text()),
        )
        for path in paths
    ]


def test_imports_point_one_way_and_only_the_command_line_prints() -> None:
    problems = []
    for module, path, tree in modules():
        is_package = path.name == "__init__.py"
        problems += violations(module.removesuffix(".__init__"), tree, is_package=is_package)
    assert not problems


def test_families_differ_in_families_only() -> None:
    """Elsewhere, a Family or the configuration itself says what makes it differ: see `Family` and `NetworkConfig`."""
    defined: dict[str, set[str]] = {}
    for module, _, tree in modules():
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, set()).add(room(module))
    assert defined["NGramConfig"] == {"ngram"}
    assert [problem for module, _, tree in modules() for problem in branches_on_families(module, tree, defined)] == []


@pytest.mark.parametrize(
    "source",
    [
        "if isinstance(config, NGramConfig): pass",
        "is_counted = not isinstance(request.config, (UniformConfig, NGramConfig))",
        "isinstance(config, NGramConfig | None)",
        "isinstance(config, ngram.config.NGramConfig)",
        "if type(config) is NGramConfig: pass",
        "chosen = [kind for kind in kinds if kind == NGramConfig]",
        "match config:\n    case NGramConfig(order=order): pass",
        "issubclass(kind, NGramConfig)",
    ],
)
def test_a_planted_branch_on_a_family_is_found(source: str) -> None:
    defined = {"NGramConfig": {"ngram"}}
    problems = branches_on_families("chainrule.api.x", ast.parse(source), defined)
    assert "chainrule.api.x asks whether something is a NGramConfig" in problems
    assert branches_on_families("chainrule.families.x", ast.parse(source), defined) == []
    if "Uniform" not in source:
        assert branches_on_families("chainrule.ngram.x", ast.parse(source), defined) == []


@pytest.mark.parametrize(
    "source", ["config = NGramConfig()", "isinstance(model, Model)", "def f(config: NGramConfig) -> NGramConfig: ..."]
)
def test_a_configuration_that_is_made_or_handed_on_is_no_branch(source: str) -> None:
    assert branches_on_families("chainrule.api.x", ast.parse(source), {"NGramConfig": {"ngram"}}) == []


def test_the_tables_name_the_rooms_that_there_are_and_no_others() -> None:
    names = [module.removesuffix(".__init__") for module, _, _ in modules()]
    assert {room(name) for name in names} == set(MAY_IMPORT)
    for outer, table in INNER_MAY_IMPORT.items():
        assert {name.split(".")[2] for name in names if name.startswith(f"chainrule.{outer}.")} == set(table)


def test_no_room_is_too_wide_and_no_module_too_long() -> None:
    sources = [path for _, path, _ in modules() if path.name != "__init__.py"]
    widths = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in sources)
    assert {room: width for room, width in widths.items() if width > MOST_MODULES} == {}
    lengths = {path.relative_to(PACKAGE).as_posix(): len(path.read_text().splitlines()) for path in sources}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach one another (Tarjan's strongly connected components of more than one node)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in imports.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                components.append(sorted(component))

    for node in sorted(imports):
        if node not in order:
            visit(node)
    return components


def test_no_files_import_one_another_in_a_circle() -> None:
    names = {module.removesuffix(".__init__") for module, _, _ in modules()}
    graph = {}
    for module, path, tree in modules():
        name = module.removesuffix(".__init__")
        targets = imported(tree, name, is_package=path.name == "__init__.py")
        # `from chainrule.ngram import config` names the package; its module is meant
        targets |= {
            f"{node.module}.{alias.name}"
            for node in nodes(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        graph[name] = (targets & names) - {name}
    assert circles(graph) == []
    assert len(graph) > 100
    assert sum(map(len, graph.values())) > 500


def test_a_planted_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}) == [["b", "c"]]


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        (
            "chainrule.ngram.trie.table",
            "from chainrule.neural.layers.basic import Norm",
            "imports chainrule.neural.layers.basic",
        ),
        ("chainrule.neural.layers.basic", "import chainrule.ngram.trie.table", "imports chainrule.ngram.trie.table"),
        ("chainrule.text.corpus.corpus", "def f():\n    from chainrule.ngram import table", "imports chainrule.ngram"),
        ("chainrule.text.vector_files", "from ..ngram import table", "imports chainrule.ngram"),
        ("chainrule.text.vector_files", "from .. import ngram", "imports chainrule.ngram"),
        (
            "chainrule.ngram.trie.table",
            "from chainrule.ngram.counting import count",
            "imports chainrule.ngram.counting",
        ),
        (
            "chainrule.applications.x",
            "from chainrule.neural.classification.classifier import C",
            "imports chainrule.neural.classification.classifier",
        ),
        ("chainrule.decoding.beam", "from chainrule import uniform", "imports chainrule.uniform"),
        (
            "chainrule.decoding.beam",
            "if TYPE_CHECKING:\n    from chainrule.ngram.models.table_models import M",
            "chainrule.ngram.models.table_models",
        ),
        ("chainrule.evaluation.x", "from chainrule.families.table import FAMILIES", "imports chainrule.families"),
        ("chainrule.evaluation.x", "from chainrule.decoding.sampling import sample", "chainrule.decoding.sampling"),
        (
            "chainrule.protocol",
            "from chainrule.text.corpus.corpus import Lines",
            "imports chainrule.text.corpus.corpus",
        ),
        ("chainrule.errors", "import chainrule.base.progress as p", "imports chainrule.base.progress"),
        ("chainrule.families", "from chainrule.api.models.model import Model", "imports chainrule.api.models.model"),
        ("chainrule.api.models.model", "from chainrule.cli.main import main", "imports chainrule.cli.main"),
        (
            "chainrule.api.models.model",
            "from chainrule.api.training.train import train",
            "imports chainrule.api.training.train",
        ),
        ("chainrule.api.tokenizers", "from chainrule.api.models.model import Model", "chainrule.api.models.model"),
        ("chainrule.ngram.trie.table", "import numba as nb", "imports numba"),
        ("chainrule.ngram.trie.table", "from numba.core import types", "imports numba"),
        ("chainrule.api.models.model", "def f():\n    import torch.nn", "imports torch"),
        (
            "chainrule.ngram.trie.query_kernels",
            "from chainrule.ngram.trie.table import ROOT",
            "imports chainrule.ngram.trie.table",
        ),
        ("chainrule.api.models.model", "def f():\n    print(1)", "prints"),
        ("chainrule.report.model_card", "show = print", "prints"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str, expected: str) -> None:
    [found] = violations(module, ast.parse(source))
    assert found.startswith(module)
    assert expected in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("chainrule.ngram.trie.table", "from chainrule.errors import ModelFormatError"),
        (
            "chainrule.ngram.counting.count",
            "from chainrule.ngram.trie import table\nfrom . import counts\nimport numpy",
        ),
        ("chainrule.evaluation.likelihood", "from chainrule import __version__"),
        ("chainrule.api.models.model", "from chainrule.ngram.config import NGramConfig"),
        ("chainrule.cli.train.ngram", "from chainrule.api.models.model import train\nprint(1)"),
        ("chainrule.base.jit", "import numba"),
        ("chainrule.base.lanes", "from numba import types"),
        ("chainrule.api.models.model", "sprint = 1\nmodel.print(2)"),
    ],
)
def test_what_is_allowed_is_no_violation(module: str, source: str) -> None:
    assert violations(module, ast.parse(source)) == []
