"""Imports point one way: features import the core, never the other way.

A room is a folder or module of the package, or a folder of `features`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import chainrule

PACKAGE = Path(chainrule.__file__).parent

# The rooms of the core, from the ground up: each may import those before it. `ngram` and `neural` stand side by side.
CORE = (
    "errors",
    "protocol",
    "kinds",
    "registry",
    "base",
    "storage",
    "text",
    "drawing",
    "ngram neural",
    "mixture",
    "decoding",
    "evaluation",
)
CORE += ("training", "models", "verbs", "cli", "__main__")
FLOOR = {room: floor for floor, rooms in enumerate(CORE) for room in rooms.split()}
# Modules of the root that hand on their feature's module.
ROOT_MODULES = {"ctc": "speech", "kenlm": "kenlm", "llm_plugin": "serve", "spark": "spark"}
COMPILED_BY = {  # what alone knows Numba
    "chainrule.base.jit",
    "chainrule.base.intrinsics",
    "chainrule.base.lanes",
    "chainrule.neural.packed.integer_lanes",
}
# Within the n-gram engine; `config` is for all of them.
NGRAM_MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "trie": set(),
    "counting": {"trie"},
    "compact": {"trie"},
    "arpa": {"trie"},
    "editing": {"trie"},
    "estimation": {"trie", "counting"},
    "models": {"trie", "counting", "compact"},
    "speller": {"trie", "counting", "estimation", "models"},
    "layouts": {"trie", "compact", "models"},
    "saving": {"trie", "compact", "models", "layouts"},
    "training": {"trie", "counting", "estimation", "layouts"},
}
INNER_MAY_IMPORT = {"ngram": {inner: {"config", *others} for inner, others in NGRAM_MAY_IMPORT.items()}}
MOST_MODULES, MOST_LINES = 15, 500  # of a room, of a module; more, and there is a second concept inside
MAY_TELL_CONFIGURATIONS = ("chainrule.models.families.", "chainrule.neural.", "chainrule.features.open.")
MAY_TELL_CONFIGURATIONS += ("chainrule.features.classify.network.",)
# Files that still have docstrings that begin with a parameter; none may join them.
BEGIN_WITH_PARAMETERS = {
    "cli/shared/options.py",
    "cli/train/run_output.py",
    "cli/use/generate.py",
    "features/chat/shell_chat.py",
    "features/kenlm/files/probing.py",
    "features/open/gguf/file.py",
    "features/preferences/objective.py",
}
WITHOUT_TORCH = re.compile(r"shell\w*|options|config|files")  # modules of features that are imported to show help


def room(module: str) -> str:
    """The room of a dotted name: that of chainrule.ngram.trie.table is ngram, of chainrule.features.speech.ctc
    features.speech.

    chainrule itself (its version) is in none.
    """
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if parts[:1] == ["features"] else "".join(parts[:1])


def may_import_torch(module: str) -> bool:
    """Whether a module is of networks or of their training."""
    own = room(module)
    return own in ("neural", "training") or (
        own.startswith("features.") and not WITHOUT_TORCH.fullmatch(module.rpartition(".")[2])
    )


def may_print(module: str) -> bool:
    """Whether a module is of the shell."""
    return room(module) == "cli" or (
        room(module).startswith("features.") and module.rpartition(".")[2].startswith("shell")
    )


def is_upwards(own: str, other: str) -> bool:
    """Whether an import from a room of the core leads to a feature, or to a room that is not below it."""
    if own in ROOT_MODULES:
        return other != f"features.{ROOT_MODULES[own]}"
    return other not in FLOOR or FLOOR[other] >= FLOOR[own]


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


@cache
def uses() -> dict[str, set[str]]:
    """The features that each feature says it imports: USES in its __init__."""
    return {
        path.parent.name: set(ast.literal_eval(node.value))
        for path in (PACKAGE / "features").glob("*/__init__.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["USES"]
    }


def violations(module: str, tree: ast.Module, *, is_package: bool = False) -> list[str]:
    """What a module may not do, in words."""
    own = room(module)
    problems = []
    for name in sorted(imported(tree, module, is_package=is_package)):
        if name.split(".")[0] == "numba" and module not in COMPILED_BY:
            problems.append(f"{module} imports numba")
        if name.split(".")[0] == "torch" and not may_import_torch(module):
            problems.append(f"{module} imports torch")
        if name.split(".")[0] != "chainrule" or name == "chainrule.__version__":
            continue
        other = room(name)
        if module.endswith("_kernels") and not (
            name.endswith("_kernels") or name in {*COMPILED_BY, "chainrule.protocol"}
        ):
            problems.append(f"{module} imports {name}, which the digest of compiled code does not cover")
        elif own.startswith("features.") and other != own:
            used = other.removeprefix("features.")
            allowed = uses().get(own.removeprefix("features."), set())
            if name == "chainrule.cli.main" or (used != other and used not in allowed):
                problems.append(f"{module} imports {name}")
        elif other != own and is_upwards(own, other):
            problems.append(f"{module} imports {name}")
        elif own == other and own in INNER_MAY_IMPORT:
            inner, target = module.split(".")[2], name.split(".")[2] if name.count(".") > 1 else ""
            if target not in {inner, *INNER_MAY_IMPORT[own][inner]}:
                problems.append(f"{module} imports {name}")
    prints = any(isinstance(node, ast.Name) and node.id == "print" for node in nodes(tree))
    if prints and not may_print(module):
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
    if module.startswith(MAY_TELL_CONFIGURATIONS):
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


def test_imports_point_one_way_and_only_the_shell_prints() -> None:
    problems = []
    for name, path, tree in modules():
        module = name.removesuffix(".__init__")
        if module != "chainrule":
            problems += violations(module, tree, is_package=path.name == "__init__.py")
    assert not problems


def test_features_say_what_features_they_import_and_form_no_circle() -> None:
    imports: dict[str, set[str]] = {}
    for name, path, tree in modules():
        own = room(name)
        if own.startswith("features.") and own != "features.__init__":
            module = name.removesuffix(".__init__")
            targets = {room(target) for target in imported(tree, module, is_package=path.name == "__init__.py")}
            others = {other.removeprefix("features.") for other in targets - {own} if other.startswith("features.")}
            imports.setdefault(own.removeprefix("features."), set()).update(others)
    assert uses() == imports
    assert circles(uses()) == []


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
    problems = branches_on_families("chainrule.verbs.x", ast.parse(source), defined)
    assert "chainrule.verbs.x asks whether something is a NGramConfig" in problems
    assert branches_on_families("chainrule.models.families.x", ast.parse(source), defined) == []
    if "Uniform" not in source:
        assert branches_on_families("chainrule.ngram.x", ast.parse(source), defined) == []


@pytest.mark.parametrize(
    "source", ["config = NGramConfig()", "isinstance(model, Model)", "def f(config: NGramConfig) -> NGramConfig: ..."]
)
def test_a_configuration_that_is_made_or_handed_on_is_no_branch(source: str) -> None:
    assert branches_on_families("chainrule.verbs.x", ast.parse(source), {"NGramConfig": {"ngram"}}) == []


def test_the_tables_name_the_rooms_that_there_are_and_no_others() -> None:
    names = [module.removesuffix(".__init__") for module, _, _ in modules()]
    features = {f"features.{path.name}" for path in (PACKAGE / "features").iterdir() if path.is_dir()} - {
        "features.__pycache__"
    }
    assert {room(name) for name in names} - {"", "features"} == {*FLOOR, *ROOT_MODULES, *features}
    assert {f"features.{name}" for name in uses()} == features
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
        ("chainrule.ngram.trie.table", "from chainrule.ngram.counting import count", "chainrule.ngram.counting"),
        ("chainrule.decoding.beam", "from chainrule.evaluation.x import y", "imports chainrule.evaluation.x"),
        (
            "chainrule.decoding.beam",
            "if TYPE_CHECKING:\n    from chainrule.features.speech.ctc import M",
            "chainrule.features.speech.ctc",
        ),
        ("chainrule.protocol", "from chainrule.text.corpus.corpus import Lines", "chainrule.text.corpus.corpus"),
        ("chainrule.errors", "import chainrule.base.progress as p", "imports chainrule.base.progress"),
        ("chainrule.models.model", "from chainrule.cli.main import main", "imports chainrule.cli.main"),
        ("chainrule.models.model", "from chainrule.verbs.prune import f", "imports chainrule.verbs.prune"),
        ("chainrule.features.corpus.rank", "from chainrule.cli.main import run", "imports chainrule.cli.main"),
        ("chainrule.features.corpus.rank", "from chainrule.features.speech.ctc import f", "features.speech"),
        ("chainrule.kenlm", "from chainrule.features.speech import stand_in", "imports chainrule.features.speech"),
        ("chainrule.ngram.trie.table", "import numba as nb", "imports numba"),
        ("chainrule.ngram.trie.table", "from numba.core import types", "imports numba"),
        ("chainrule.models.model", "def f():\n    import torch.nn", "imports torch"),
        ("chainrule.features.speech.shell_train", "import torch", "imports torch"),
        (
            "chainrule.ngram.trie.query_kernels",
            "from chainrule.ngram.trie.table import ROOT",
            "imports chainrule.ngram.trie.table",
        ),
        ("chainrule.models.model", "def f():\n    print(1)", "prints"),
        ("chainrule.features.speech.model", "show = print", "prints"),
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
        ("chainrule.models.model", "from chainrule.ngram.config import NGramConfig"),
        ("chainrule.cli.train.ngram", "from chainrule.models.model import train\nprint(1)"),
        ("chainrule.features.speech.shell", "from chainrule.cli.shared.screen import note\nprint(1)"),
        ("chainrule.features.speech.network", "import torch"),
        ("chainrule.kenlm", "from chainrule.features.kenlm import stand_in"),
        ("chainrule.base.jit", "import numba"),
        ("chainrule.base.lanes", "from numba import types"),
        ("chainrule.models.model", "sprint = 1\nmodel.print(2)"),
    ],
)
def test_what_is_allowed_is_no_violation(module: str, source: str) -> None:
    assert violations(module, ast.parse(source)) == []


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """Return the names of a function's parameters, or of a class's fields and those of its `__init__`."""
    if isinstance(node, ast.ClassDef):
        fields = {
            own.target.id for own in node.body if isinstance(own, ast.AnnAssign) and isinstance(own.target, ast.Name)
        }
        inits = [own for own in node.body if isinstance(own, ast.FunctionDef) and own.name == "__init__"]
        return fields.union(*map(parameters_of, inits))
    own = node.args
    variable = [argument for argument in (own.vararg, own.kwarg) if argument is not None]
    return {argument.arg for argument in (*own.posonlyargs, *own.args, *own.kwonlyargs, *variable)}


def begin_with_parameters(tree: ast.Module) -> list[str]:
    """Return the functions and classes whose docstring begins with the name of a parameter and a colon."""
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [
        node.name
        for node in nodes(tree)
        if isinstance(node, documented)
        and (begun := re.match(r"`?(\w+)`?(, `?\w+`?)*:", ast.get_docstring(node) or "")) is not None
        and begun[1] in parameters_of(node)
    ]


def test_docstrings_say_first_what_functions_do() -> None:
    problems = {}
    for _, path, tree in modules():
        if names := begin_with_parameters(tree):
            problems[path.relative_to(PACKAGE).as_posix()] = names
    assert {path: names for path, names in problems.items() if path not in BEGIN_WITH_PARAMETERS} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def f(width: int) -> int:\n    """width: of a head."""', ["f"]),
        ('def f(first, *rest):\n    """first, rest: the names."""', ["f"]),
        ('class C:\n    rows: int\n    """rows: how many."""', []),
        ('class C:\n    """rows: how many."""\n    rows: int', ["C"]),
        ('class C:\n    """A table. rows: how many."""\n    rows: int', []),
        ('class C:\n    """size: its own."""\n    def __init__(self, size: int) -> None: ...', ["C"]),
        ('def f(width: int) -> int:\n    """Return the width. width: of a head."""', []),
        ('def f(width: int) -> int:\n    """Note: nothing is read."""', []),
    ],
)
def test_a_planted_docstring_that_begins_with_a_parameter_is_found(source: str, expected: list[str]) -> None:
    assert begin_with_parameters(ast.parse(source)) == expected
