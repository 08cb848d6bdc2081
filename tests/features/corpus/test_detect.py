"""chainrule detect: ranks, a page, a quiz, and how well machines are told from people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_line import strict_json

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "people.txt"
    path.write_text("ka vi sa\n\nman to ka\nvi ma\n")
    return path


def test_every_token_has_a_line_with_its_rank(chainrule, model: Path, texts: Path, tmp_path: Path) -> None:
    page = tmp_path / "ranks.html"
    result = chainrule("detect", model, texts, "-o", page)
    assert result.status == 0
    found = library.detect(library.load(model), ["ka vi sa", "man to ka", "vi ma"])
    ranks = [row["rank"] for each in found for row in each.to_records()]
    assert [int(line.split("\t")[0]) for line in result.lines if "\t" in line] == ranks
    assert result.out.count("mean log-rank") == 3
    assert page.read_text().count('title="rank ') == len(ranks)
    assert "--overwrite" in chainrule("detect", model, texts, "-o", page).error
    rows = [strict_json(line) for line in chainrule("detect", model, texts, "--json").lines]
    assert [row["rank"] for each in rows for row in each["ranked"]] == ranks


def test_texts_of_machines_are_told_from_those_of_people(chainrule, model: Path, texts: Path, tmp_path: Path) -> None:
    machine, quiz, plot = (tmp_path / name for name in ("machine.txt", "quiz.html", "roc.svg"))
    written = [text or "ka" for text in library.load(model).generate(n=3, seed=1)]
    machine.write_text("".join(text + "\n" for text in written))
    result = chainrule("detect", model, texts, "--machine", machine, "--plot", plot, "--quiz", quiz, "-n", 2)
    assert result.status == 0
    assert "log-rank" in result.out
    assert "3 texts by people, 3 by a machine" in result.out
    assert quiz.read_text().count("<fieldset>") == 4
    assert plot.read_text().startswith("<svg")
    rows = [strict_json(line) for line in chainrule("detect", model, texts, "--machine", machine, "--json").lines]
    expected = library.measure_detection(library.load(model), ["ka vi sa", "man to ka", "vi ma"], written).to_records()
    assert [row["area"] for row in rows] == [row["area"] for row in expected]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--quiz", "q.html"], 2, "--quiz needs --machine"),
        (["--plot", "q.svg"], 2, "--plot needs --machine"),
        (["--machine", "{texts}", "-o", "p.html"], 2, "--output writes a table with --machine"),
        (["-o", "page.pdf"], 2, "its name must end in .html, .csv, .tsv, .jsonl or .parquet."),
        (["-o", ".csv"], 2, "its name must end in .html, .csv"),
        (["--overwrite"], 2, "--overwrite needs --output."),
        (["--machine", "{texts}", "--quiz", "q.html", "-n", 9], 1, "--number is 9, but there are 3 texts by people"),
        (["--masked", "{model}"], 1, "fills gaps in texts"),
        (["--machine", "none.txt"], 1, "none.txt"),
    ],
)
def test_what_cannot_be_done_is_an_error(
    arguments: list, status: int, message: str, chainrule, model: Path, texts: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(each).format(texts=texts, model=model) for each in arguments]
    result = chainrule("detect", model, texts, *given)
    assert result.status == status
    assert message in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.txt"]
