"""The feature that CONTRIBUTING.md builds in ten steps works, from its blocks of code alone."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import chainrule

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n# src/chainrule/(\S+)\n(.*?)```", re.DOTALL)
ROWS = {"registry/verbs.py": "    # Use\n", "__init__.py": "}\n"}  # what the rows of a step come before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the feature, beside a model and a text."""
    home = tmp_path_factory.mktemp("own")
    shutil.copytree(ROOT / "src/chainrule", home / "chainrule", ignore=shutil.ignore_patterns("__pycache__"))
    for name, code in BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text()):
        path = home / "chainrule" / name
        if name in ROWS:
            before, found, after = path.read_text().partition(ROWS[name])
            assert found
            code = before + code + found + after
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    (home / "text").write_text("the dog saw a cat\nthe cat saw the dog\n")
    config = chainrule.NGramConfig(order=2, smoothing="laplace")
    chainrule.train(home / "text", config, tokenizer="whitespace").save(home / "lm")
    return home


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chainrule", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)


def test_it_lists_the_most_surprising_words(home: Path) -> None:
    """Compared with the whole table of surprisals, sorted."""
    table = chainrule.surprisal(home / "text", chainrule.load(home / "lm")).to_records()
    expected = sorted(table, key=lambda row: -row["surprisal_bits"])[:3]
    found = run(home, "surprises", "lm", "text", "--most", "3", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout) == [
        {name: row[name] for name in ("sentence", "word", "surprisal_bits")} for row in expected
    ]
    assert run(home, "surprises", "lm", "text", "--most", "3", "-o", "words.csv").returncode == 0
    with (home / "words.csv").open(newline="") as file:
        assert [row["word"] for row in csv.DictReader(file)] == [row["word"] for row in expected]


def test_the_shell_and_python_know_it(home: Path) -> None:
    assert "List the words of a text that surprise a model most." in run(home, "--help").stdout
    refused = run(home, "surprises", "lm", "text", "--most", "0")
    assert (refused.returncode, refused.stderr) == (1, "chainrule: --most is 0; expected 1 or more\n")
    missing = run(home, "surprises", "lm", "nowhere")
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    code = "import chainrule; print(chainrule.surprises('text', chainrule.load('lm'), most=1))"
    environment = {**os.environ, "PYTHONPATH": str(home)}
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment, capture_output=True, text=True, check=True
    )
    assert len(shown.stdout.splitlines()) == 2
