"""The README and the guide do what they say: commands and Python run, links lead somewhere, no verb is left out."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache, reduce
from pathlib import Path
from typing import Any, get_args

import pytest
from samples import sampled
from verb_options import VERBS

from chainrule.cli.main import app, run
from chainrule.cli.verbs import EVERYWHERE
from chainrule.features.lectures.experiments import Name

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name not in ("decisions.md", "changes.md")
}
DECISIONS = [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs/decisions").glob("*.md"))]
LINKED = [*GUIDE, "docs/decisions.md", *DECISIONS, "docs/changes.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]


# In place of minutes of training and of thousands of examples.
QUICKLY = {
    r"(--width \d+ )?(--batch \d+ )?--minutes 1\b(?!\.)": "--steps 2 --batch 2 --compile no --width 16",
    r"(chainrule data (?!text)[a-z-]+ -o \S+)$": r"\1 --examples 20",
    r"--examples 300": "--examples 20",
    r"--epochs (3|5|8|10|20|30)$": "--epochs 1",
    r"--steps \d*00\b": "--steps 2",
    r"^(chainrule train recurrent (?!.*--width).* --steps) 5$": r"\1 2 --batch 2 --compile no --width 16",
    r"--minutes 0.005": "--minutes 0.001",
    r"--minutes 0\.5\b": "--steps 2 --batch 2 --compile no --width 16",
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE[page], re.DOTALL | re.MULTILINE)


def commands_of(page: str) -> list[str]:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def shortened(command: str) -> str:
    """The command with a budget for tests."""
    for long, short in QUICKLY.items():
        command = re.sub(long, short, command)
    return command


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """What every page takes for granted: three texts, a minimal pair, and labelled texts."""
    folder = tmp_path_factory.mktemp("texts")
    heldout = (fixtures / "heldout.txt").read_bytes()
    (folder / "corpus.txt").write_bytes((fixtures / "train.txt").read_bytes())
    (folder / "heldout.txt").write_bytes(heldout)
    (folder / "sentences.txt").write_bytes(b"".join(heldout.splitlines(keepends=True)[-5:]))
    (folder / "pairs.tsv").write_text("ka vi\tka\t4.5\nvi ka\tvi mo\t1\nka\tvi\t2\n" * 4)
    tree = "1\tka\t_\tPRON\t_\t_\t2\t_\t_\t_\n2\tvi\t_\tVERB\t_\t_\t0\t_\t_\t_\n\n"
    (folder / "trees.conllu").write_text(40 * tree)
    (folder / "labelled.tsv").write_text("ka vi\tfirst\nvi ka\tsecond\n" * 5)
    (folder / "examples.tsv").write_text("text\tlabel\n" + "ka vi\tfirst\nvi ka\tsecond\n" * 5)
    (folder / "queries.txt").write_text("ka vi\nvi ma\n")
    (folder / "documents.jsonl").write_text('{"id": "a", "text": "ka vi ma"}\n{"id": "b", "text": "sa vi"}\n')
    (folder / "qrels.txt").write_text("1 0 a 1\n")
    (folder / "pairs.jsonl").write_text('{"sentence_good": "ka vi", "sentence_bad": "vi ka"}\n')
    return folder


@pytest.fixture
def folder(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a page's own, with the texts in it, in which its commands run."""
    shutil.copytree(texts, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def printed_by_a_shell(command: str) -> bytes:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error"}
    shell = ["bash", "-o", "pipefail", "-c"]
    result = subprocess.run([*shell, command], env=environment, capture_output=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stderr.decode()}"
    return result.stdout


# Those of docs/index.md are README's; test_first_steps.py runs those of the first steps, and looks at what they print.
WITH_COMMANDS = [
    page
    for page in GUIDE
    if page == "README.md" or ({*commands_of(page)} - {*commands_of("README.md")} and "/first-steps-" not in page)
]
# Those of the lectures train most; make lectures runs them, too.
LONG = [
    *(f"docs/{page}.md" for page in ("lectures", "correction", "pictures", "detecting", "networks")),
    *(f"docs/{page}.md" for page in ("attention", "vectors", "gallery", "both-worlds", "classifiers")),
]


@pytest.mark.parametrize("page", sampled(WITH_COMMANDS, [page for page in WITH_COMMANDS if page not in LONG]))
def test_every_command_of_a_page_runs_in_order(
    folder: Path, page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, which are many, run in this process, and others in a shell; so do those that pipe into one of ours."""
    printed = {}
    documentation = (folder / "corpus.txt").read_text().splitlines() + 60 * [
        "The function returns the value of a list or tuple"
    ]
    monkeypatch.setattr("chainrule.features.lectures.datasets.make.sample_lines", lambda: documentation)
    for command in commands_of(page):
        source, _, last = shortened(command).rpartition(" | ")
        program, *arguments = shlex.split(last)
        if program == "chainrule":
            piped = printed_by_a_shell(source) if source else b""
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(piped))))  # type: ignore[arg-type]
            capsys.readouterr()
            status = run(arguments)
            printed[command], errors = capsys.readouterr()
            assert status == 0, f"{command}\n{errors}"
        else:
            printed[command] = printed_by_a_shell(command).decode()
    if page == "README.md":
        assert len(printed['chainrule generate lm/ "Return True if the" -n 3 --seed 1'].splitlines()) == 3
        assert len(printed['chainrule next lm/ "Return True if the" --top 3'].splitlines()) == 4
    if page == "docs/ngrams.md":
        assert json.loads(printed["chainrule evaluate lm/ heldout.txt --json"])["oov"] > 0


def test_the_commands_are_many() -> None:
    assert sum(len(commands_of(page)) for page in GUIDE) > 40


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 600


@pytest.mark.usefixtures("folder")
def test_the_python_of_the_readme_runs() -> None:
    [code] = blocks("README.md", "python")
    names: dict[str, Any] = {}
    values = {}
    for statement in code.strip().splitlines():
        if match := re.search(r"\.(evaluate|generate|next)\(", statement):
            values[match[1]] = eval(statement, names)
        else:
            exec(statement, names)
    assert values["evaluate"] > 0
    assert len(values["generate"]) == 3
    assert all(text.startswith("Return True if the") for text in values["generate"])
    assert [type(part) for part in values["next"][0]] == [str, float]


@pytest.mark.usefixtures("folder")
def test_the_python_for_those_who_come_from_kenlm_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", None)  # put back after the test
    names: dict[str, Any] = {}
    [code] = blocks("docs/ngrams.md", "python")
    exec(code, names)
    assert names["kenlm"].__name__ == "chainrule.features.kenlm.stand_in"
    assert names["after"] != names["state"]


@pytest.mark.parametrize("page", LINKED)
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


def test_the_table_of_decisions_and_the_site_name_every_page_once() -> None:
    pages = sorted(page.removeprefix("docs/") for page in DECISIONS)
    assert len(pages) > 10
    table = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((decisions/[^)]+)\)", table)) == pages
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(re.findall(r": (decisions/.+)$", navigation, re.MULTILINE)) == pages


@pytest.mark.parametrize("page", DECISIONS)
def test_a_page_of_decisions_says_what_holds_today_and_what_was_rejected(page: str) -> None:
    """In two lists that name files that exist; the last line leads to the record of the past, outside the site."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["What holds today", "Rejected"]
    for section in text.split("\n## ")[1:]:
        assert "\n- " in section
    for file in re.findall(r"`([\w/]+\.py)`", text):
        assert (ROOT / "src/chainrule" / file).is_file() or (ROOT / file).is_file(), file
    name = Path(page).name
    assert text.splitlines()[-1] == f"[How it came to that](archive/{name})"
    assert (ROOT / "docs/decisions/archive" / name).is_file()


def test_the_decisions_are_short() -> None:
    words = {page: len((ROOT / page).read_text(encoding="utf-8").split()) for page in DECISIONS}
    assert sum(words.values()) <= 25_000, words


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_guide_has_links() -> None:
    assert len(re.findall(r"\]\((?!https?:)", README)) >= 4
    assert "start-here" in anchors(ROOT / "README.md")
    for reader in ("student", "linguist", "engineer", "ml"):
        assert f"](docs/first-steps-{reader}.md)" in README
        assert f"](first-steps-{reader}.md)" in GUIDE["docs/index.md"]


def test_every_verb_is_in_the_guide() -> None:
    verbs = {name for name in app if not name.startswith("-")}
    assert len(verbs) >= 8
    for verb in verbs:
        assert re.search(rf"chainrule {verb}\b", "\n".join(GUIDE.values())), verb


def test_the_page_by_task_names_every_verb_in_its_tables() -> None:
    rows = [line for line in GUIDE["docs/contents.md"].splitlines() if line.startswith("| ")]
    assert all("](" in row for row in rows if not re.match(r"\| (task|topic) ", row))  # each leads to a page
    named = {name for row in rows for name in re.findall(r"`([a-z][a-z0-9 -]*?)(?: --[a-z-]+)?`", row)}
    verbs = {*VERBS, "train"}
    assert {name for name in verbs if name not in named} == set()
    assert named <= verbs


@cache
def is_negative(option: str) -> bool:
    """Whether it turns off another one of a verb: asked of verbs that have that one, since to ask all takes seconds."""
    return any(
        option in argument.negatives
        for verb, options in VERBS.items()
        if option.startswith("--no-") and f"--{option.removeprefix('--no-')}" in options
        for argument in reduce(lambda here, name: here[name], verb.split(), app).assemble_argument_collection()
    )


@pytest.mark.parametrize("page", GUIDE)
def test_every_option_that_is_mentioned_exists(page: str) -> None:
    ours = re.sub(r"```dockerfile\n.*?```", "", GUIDE[page], flags=re.DOTALL)
    ours = re.sub(r"`(lmplz|build_binary|query)[^`]*`", "", ours)  # KenLM's own options
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", ours))
    known = set(
        re.findall(r"--([a-z0-9-]+)", " ".join([EVERYWHERE, *(name for own in VERBS.values() for name in own)]))
    )
    known |= {"help", "install-completion"} | {name.removeprefix("--") for name in mentioned if is_negative(name)}
    known |= {"nproc-per-node", "include", "tasks"}  # torchrun's, and lm-eval's with their underscores cut off
    known |= {"num"}  # of --num_train_epochs, which is answered with ours
    known |= {"isymbols", "osymbols"}  # of fstcompile
    assert {"order", "seed", "markers"} <= known
    assert {option.removeprefix("--") for option in mentioned} <= known


def test_every_target_of_make_that_is_mentioned_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"(?:^|`)make ([a-z]+)\b", text, re.MULTILINE))
    assert {"demo", "test", "lint"} <= mentioned <= targets


def set_up(*variables: str) -> list[str]:
    """The commands that make would run to set up .venv."""
    own = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "TORCH")
    }
    command = ["make", "--dry-run", "--what-if", "pyproject.toml", ".venv/installed", *variables]
    return subprocess.run(command, cwd=ROOT, env=own, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_set_up_says_what_it_downloads_before_it_does() -> None:
    for variables, pytorch in (
        ((), "'torch'"),
        (("TORCH=torch>=2.12",), "'torch>=2.12'"),
        (("TORCH=a b.whl",), "'a b.whl'"),
    ):
        lines = set_up(*variables)
        installing = [number for number, line in enumerate(lines) if "pip install" in line]
        saying = [number for number, line in enumerate(lines) if line.startswith("echo") and " GB" in line]
        assert saying[0] < installing[0]
        waiting = [number for number, line in enumerate(lines) if "sleep" in line]  # for somebody who reads that
        assert not waiting if variables else saying[0] < waiting[0] < installing[0]
        assert lines[installing[0]].endswith(f" {pytorch}")
        assert any("https://pytorch.org/get-started/locally/" in line for line in lines) is (not variables)
        assert all("-c .venv/constraints.txt" in lines[number] for number in installing[1:])  # with what is installed


def test_nothing_is_printed_before_what_set_up_says() -> None:
    """The check of Python's version is quiet: make printed its source, as it does without the @."""
    recipe = (ROOT / "Makefile").read_text().partition("\n.venv/installed:")[2].partition("\n\n")[0]
    loud = [line for line in recipe.splitlines()[1:] if line.startswith("\t") and not line.startswith("\t@")]
    assert loud[0].startswith("\ttest -x $(BIN)/python")


def test_no_address_of_a_package_index_stands_here() -> None:
    files = [ROOT / name for name in (*LINKED, "Makefile", "constraints.txt", "pyproject.toml")]
    for file in files:
        assert not re.search(r"index-url|download\.pytorch\.org|pypi\.org/simple", file.read_text(encoding="utf-8")), (
            file
        )


def test_the_files_and_experiments_that_the_lectures_name_exist() -> None:
    text = GUIDE["docs/lectures.md"]
    files = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    assert len(files) > 20
    for file in files:
        assert (ROOT / "src" / "chainrule" / file).is_file() or (ROOT / file).is_file(), file
    mentioned = re.findall(r"`chainrule experiment ([a-z]+)`", text)
    assert len(mentioned) > 5
    assert set(mentioned) <= set(get_args(Name))


def test_a_picture_of_the_gallery_is_small_and_was_made_by_a_command_that_stands_there() -> None:
    text = GUIDE["docs/gallery.md"]
    pictures = re.findall(r"^!\[.+\]\((.+)\)\n\n(\*\*\w[^!]+)$", text, re.MULTILINE)
    assert len(pictures) == text.count("\n![") > 10
    files = [ROOT / "docs" / name for name, _ in pictures]
    sizes = [file.stat().st_size for file in files]
    dark = [other.stat().st_size for file in files if (other := file.with_stem(f"{file.stem}-dark")).exists()]
    assert max(sizes + dark) < 100_000
    assert sum(sizes) < 600_000
    commands = [command for page in GUIDE for command in commands_of(page)]
    for name, caption in pictures:
        if name.startswith("gallery/"):
            stem = Path(name).stem
            [command] = re.findall(r"`(chainrule[^`]+)`", caption)
            assert command in commands
            assert re.search(rf" {stem}\.(svg|html)\b", command)
