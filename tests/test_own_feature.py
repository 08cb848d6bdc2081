"""The feature that CONTRIBUTING.md builds in ten steps works, from its blocks of code alone."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_elsewhere

import chainrule

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/chainrule"
BLOCK = re.compile(r"```python\n# src/chainrule/(\S+)\n(.*?)```", re.DOTALL)
ROWS = {"registry/verbs.py": "    # Use\n", "__init__.py": "}\n"}  # what the rows of a step come before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the feature, beside a model and a text: modules that a step changes are here, and others are
    found where they are, so that nothing is compiled anew.
    """
    home = tmp_path_factory.mktemp("own")
    for name, code in BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text()):
        path, original = home / "chainrule" / name, PACKAGE / name
        if name in ROWS:
            before, found, after = original.read_text().partition(ROWS[name])
            assert found
            code = before + code + found + after
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    for folder in (home / "chainrule", *(home / "chainrule").rglob("*/")):
        original = PACKAGE / folder.relative_to(home / "chainrule")
        if original.is_dir():
            own, theirs = folder / "__init__.py", original / "__init__.py"
            code = (own if own.exists() else theirs).read_text()
            own.write_text(f"{code}\n__path__.append({str(original)!r})\n")
    (home / "text").write_text("the dog saw a cat\nthe cat saw the dog\n")
    config = chainrule.NGramConfig(order=2, smoothing="laplace")
    chainrule.train(home / "text", config, tokenizer="whitespace").save(home / "lm")
    return home


def test_the_shell_and_python_know_it(home: Path) -> None:
    """Its words are those of the whole table of surprisals, sorted."""
    surprises = ["surprises", "lm", "text", "--most"]
    found, saved, overview, refused, missing = run_elsewhere(
        [
            [*surprises, 3, "--json"],
            [*surprises, 3, "-o", "words.csv"],
            ["--help"],
            [*surprises, 0],
            ["surprises", "lm", "nowhere"],
        ],
        home,
        home,
    )
    table = chainrule.surprisal(home / "text", chainrule.load(home / "lm")).to_records()
    expected = sorted(table, key=lambda row: -row["surprisal_bits"])[:3]
    assert (found.status, found.err) == (0, "")
    assert found.json == [{name: row[name] for name in ("sentence", "word", "surprisal_bits")} for row in expected]
    assert saved.status == 0
    with (home / "words.csv").open(newline="") as file:
        assert [row["word"] for row in csv.DictReader(file)] == [row["word"] for row in expected]
    assert "List the words of a text that surprise a model most." in overview.out
    assert (refused.status, refused.error) == (1, "--most is 0; expected 1 or more")
    assert (missing.status, missing.error.count("\n")) == (1, 0)
    code = "import chainrule; print(chainrule.surprises('text', chainrule.load('lm'), most=1))"
    environment = {**os.environ, "PYTHONPATH": str(home)}
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment, capture_output=True, text=True, check=True
    )
    assert len(shown.stdout.splitlines()) == 2
