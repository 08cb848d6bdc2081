"""The README does what it says: its commands and its Python run, its links lead somewhere, and no verb is left out."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chainrule
from chainrule.cli.main import app, run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """What the README takes for granted: three texts, a minimal pair, and labelled texts."""
    folder = tmp_path_factory.mktemp("readme")
    heldout = (fixtures / "heldout.txt").read_bytes()
    (folder / "corpus.txt").write_bytes((fixtures / "train.txt").read_bytes())
    (folder / "heldout.txt").write_bytes(heldout)
    (folder / "sentences.txt").write_bytes(b"".join(heldout.splitlines(keepends=True)[-5:]))
    (folder / "labelled.tsv").write_text("ka vi\tfirst\nvi ka\tsecond\n" * 5)
    (folder / "pairs.jsonl").write_text('{"sentence_good": "ka vi", "sentence_bad": "vi ka"}\n')
    return folder


def test_every_command_runs_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those with a pipe in a shell, and the others, which are many, in this process."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    commands = [line.removeprefix("$ ") for line in lines]
    assert len(commands) >= 10
    monkeypatch.chdir(folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = {}
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "chainrule" and "|" not in arguments:
            capsys.readouterr()
            status = run(arguments)
            printed[command], errors = capsys.readouterr()
        else:
            result = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                env={**os.environ, "PATH": path, "PYTHONWARNINGS": "error"},
                capture_output=True,
                text=True,
                check=False,
            )
            status, printed[command], errors = result.returncode, result.stdout, result.stderr
        assert status == 0, f"{command}\n{errors}"
    for name in ("lm/config.json", "lm-from-arpa/config.json", "model.arpa", "report/table.md", "report/table.json"):
        assert (folder / name).is_file(), name
    assert len(printed['chainrule generate lm/ "I visited San" -n 5 --seed 1'].splitlines()) == 5
    assert len(printed['chainrule next lm/ "I visited San" --top 10'].splitlines()) == 11
    assert json.loads(printed["chainrule evaluate lm/ heldout.txt --json"])["oov"] > 0


def test_the_python_runs_and_gives_what_its_comments_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    [code] = [code for code in blocks("python") if "model.perplexity(" in code]
    names: dict[str, object] = {}
    values = {}
    for statement in code.strip().splitlines():
        if statement.startswith("model.") and not statement.startswith("model.save"):
            values[re.split(r"[(.]", statement)[1]] = eval(statement, names)
        else:
            exec(statement, names)
    assert values.keys() == {"score", "perplexity", "evaluate", "next", "generate", "beam", "complete"}
    assert len(values["score"]) == 2
    assert (values["score"] < 0).all()
    assert values["perplexity"] > 1
    assert values["evaluate"] > 0
    assert [type(part) for part in values["next"][0]] == [str, float]
    assert len(values["next"]) == 3
    assert [text.score for text in values["beam"]] == sorted((text.score for text in values["beam"]), reverse=True)
    assert all(completion.text.startswith("S") for completion in values["complete"])
    assert len(values["generate"]) == 5
    assert all(text.startswith("I visited San") for text in values["generate"])


def test_the_python_for_those_who_come_from_kenlm_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "kenlm", None)  # put back after the test
    names: dict[str, Any] = {}
    [code] = [code for code in blocks("python") if "kenlm" in code]
    exec(code, names)
    assert names["kenlm"].__name__ == "chainrule.kenlm"
    assert names["after"] != names["state"]


def test_the_python_for_labels_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    config, training = chainrule.RecurrentConfig(width=16, layers=1), chainrule.TrainingConfig(steps=1)
    chainrule.train("corpus.txt", config, training=training).save("lstm/", overwrite=True)
    [code] = [code for code in blocks("python") if "finetune" in code]
    names: dict[str, Any] = {"chainrule": chainrule}
    exec(code, names)
    [(label, probability)] = names["found"].best
    assert label in {"first", "second"}
    assert 0.5 <= probability <= 1
    assert (folder / "labels" / "config.json").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_some_links_are_found() -> None:
    assert len(re.findall(r"\]\((?!https?:)", README)) >= 4
    assert "what-the-numbers-mean" in anchors(ROOT / "README.md")


def test_every_verb_and_family_is_mentioned() -> None:
    verbs = {name for name in app if not name.startswith("-")}
    assert len(verbs) >= 8
    for verb in verbs:
        assert re.search(rf"chainrule {verb}\b", README), verb


def test_every_option_that_is_mentioned_exists() -> None:
    ours = re.sub(r"`(lmplz|build_binary|query)[^`]*`", "", README)  # KenLM's own options
    ours = re.sub(r"`torchrun .*? -m chainrule", "`chainrule", ours, flags=re.DOTALL)  # and torchrun's
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours))
    script = app.generate_completion(shell="fish")
    known = set(re.findall(r"-l '?([a-z-]+)", script)) | {"debug", "threads"}
    assert {"order", "seed", "markers"} <= known
    assert {option.removeprefix("--") for option in mentioned} <= known


def test_every_target_of_make_that_is_mentioned_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"(?:^|`)make ([a-z]+)\b", text, re.MULTILINE))
    assert {"demo", "test", "lint"} <= mentioned <= targets
