"""A feature can be deleted: its folder, its rows in the registry, its public names and its module of the root.

Then help is shown, and the core and every feature that does not use it are imported.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from samples import sampled
from test_architecture import PACKAGE, ROOT_MODULES, WITHOUT_TORCH, uses

TESTS = Path(__file__).parent
FEATURES = sorted(path.name for path in (PACKAGE / "features").iterdir() if (path / "__init__.py").exists())
IMPORT_ALL = """
import importlib, sys
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # of a package that need not be installed
        if error.name.startswith("chainrule"):
            raise
"""


def users_of(feature: str) -> set[str]:
    """The features that use a feature, or use one that does; itself among them."""
    found = {feature}
    while more := {name for name, used in uses().items() if used & found} - found:
        found |= more
    return found


def without_rows(source: str, features: set[str]) -> str:
    """A module of the registry without the rows that name a module of these features."""
    names = "|".join(sorted(features))
    tree = ast.parse(source)
    constants = {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.JoinedStr)
    }

    def names_feature(row: ast.expr) -> bool:
        text = ast.unparse(row)
        for _ in range(3):  # a name may stand for a text that has a name in it
            for name, value in constants.items():
                text = re.sub(rf"\b{name}\b", lambda _, value=value: value, text)
        return re.search(rf"features\.({names})\b", text) is not None

    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            node.value.elts = [row for row in node.value.elts if not names_feature(row)]
    return ast.unparse(tree)


def delete(package: Path, features: set[str]) -> None:
    """Delete features from a copy of the package."""
    for feature in features:
        shutil.rmtree(package / "features" / feature)
    for path in (package / "registry").glob("*.py"):
        path.write_text(without_rows(path.read_text(), features))
    for name, feature in ROOT_MODULES.items():
        if feature in features:
            (package / f"{name}.py").unlink()
    public = package / "__init__.py"
    keys = "|".join(sorted(features))
    public.write_text(
        re.sub(rf'^    "features\.({keys})\b.*?\),\n', "", public.read_text(), flags=re.MULTILINE | re.DOTALL)
    )


def works_without(feature: str, folder: Path, *, all_modules: bool) -> None:
    """Deletes a feature and its users from a copy, shows help, and imports modules: all, or those of the shell."""
    package = folder / "chainrule"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    delete(package, users_of(feature))
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    modules = [
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
        if path.stem not in ("__main__", "llm_plugin") and (all_modules or WITHOUT_TORCH.fullmatch(path.stem))
    ]
    for arguments in ([], ["train"]):
        command = [sys.executable, "-m", "chainrule", *arguments, "--help"]
        listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert "Train a model on text." in listed.stdout
    command, given = [sys.executable, "-c", IMPORT_ALL], "\n".join(modules)
    imported = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, check=False)
    assert imported.returncode == 0, imported.stderr[-1000:]


def test_each_feature_has_a_folder_of_tests() -> None:
    tests = Path(__file__).with_name("features")
    assert {path.parent.name for path in tests.glob("*/test_*.py")} == set(FEATURES)


@pytest.mark.parametrize("feature", sampled(FEATURES, ["exports", "speech", "trees"]))
def test_without_a_feature_the_shell_works(feature: str, tmp_path: Path) -> None:
    works_without(feature, tmp_path, all_modules=False)


@pytest.mark.thorough
@pytest.mark.parametrize("feature", FEATURES)
def test_without_a_feature_all_that_does_not_use_it_is_imported(feature: str, tmp_path: Path) -> None:
    works_without(feature, tmp_path, all_modules=True)


ROOMS = ("base", "storage", "text", "drawing", "ngram", "neural", "decoding", "evaluation", "training")
ASKS_FOR_FEATURES = re.compile(r"chainrule\.features|from chainrule import (?:ctc|kenlm)\b|chainrule\.(?:ctc|kenlm)\b")
OF_ALL_KINDS = {"test_older_formats", "test_jit"}  # folders that each feature has written; kernels of all features


def core_tests() -> list[Path]:
    """The modules of tests of the core's rooms that need no feature, nor a helper that does."""
    helpers = {path.stem: path for path in (*TESTS.glob("*.py"), *TESTS.glob("features/open/tiny_*.py"))}

    def asks(path: Path) -> bool:
        source = path.read_text()
        used = set(re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE)) & helpers.keys()
        return ASKS_FOR_FEATURES.search(source) is not None or any(asks(helpers[name]) for name in used)

    found = [path for name in ROOMS for path in sorted((TESTS / name).glob("test_*.py"))]
    return [path for path in found if path.stem not in OF_ALL_KINDS and not asks(path)]


@pytest.mark.thorough
def test_without_any_feature_the_core_tests_pass(tmp_path: Path) -> None:
    package = tmp_path / "chainrule"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    delete(package, set(FEATURES))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    modules = [str(path) for path in core_tests()]
    assert len(modules) > 80
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-m",
        "not thorough",
        *modules,
    ]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
