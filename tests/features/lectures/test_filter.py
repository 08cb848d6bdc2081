"""chainrule filter: the likeliest documents, in their order, to a file or to the screen."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


def ranked(model: Path, heldout: Path) -> list[tuple[float, int, str]]:
    """Every line with its score and number, best first."""
    loaded = library.load(model)
    lines = heldout.read_text().split("\n")[:-1]
    found = [loaded.evaluate(library.Lines([line])) for line in lines]
    return sorted(
        (-one.text_log_prob / one.tokens, i, line) for i, (one, line) in enumerate(zip(found, lines, strict=True))
    )


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_a_share_is_kept_in_its_order(share: float, chainrule, model: Path, heldout: Path, tmp_path: Path) -> None:
    result = chainrule("filter", heldout, "--model", model, "--keep", share, "-o", tmp_path / "kept.txt")
    assert (result.status, result.err) == (0, "")
    best = ranked(model, heldout)
    count = max(1, round(share * len(best)))
    expected = [line for _, _, line in sorted(best[:count], key=lambda row: row[1])]
    assert (tmp_path / "kept.txt").read_text() == "".join(line + "\n" for line in expected)
    assert result.lines[-1].startswith(f"kept {count} of {len(best)} documents, {count / len(best):.2%}: ")
    assert len(result.lines) == 1 + 20 + 1


def test_without_a_file_the_documents_go_to_standard_output(chainrule, model: Path, heldout: Path) -> None:
    result = chainrule("filter", heldout, "--model", model, "--keep", 0.1)
    assert "kept 10 of 102 documents" in result.err
    best = sorted(ranked(model, heldout)[:10], key=lambda row: row[1])
    assert result.out.split("\n")[:-1] == [line for _, _, line in best]


def test_below_a_score_standard_input_can_be_filtered(chainrule, stdin, model: Path, heldout: Path) -> None:
    limit = 5.0
    stdin(heldout.read_bytes())
    result = chainrule("filter", "-", "--model", model, "--below", limit)
    kept = sorted((i, line) for score, i, line in ranked(model, heldout) if score / 0.6931471805599453 <= limit)
    assert result.out.split("\n")[:-1] == [line for _, line in kept]
    assert 0 < len(kept) < 102
    assert f"kept {len(kept)} of 102 documents" in result.err


def test_the_difference_prefers_what_is_like_one_text_and_unlike_the_other(chainrule, tmp_path: Path) -> None:
    for name, text in (("in", "a b\n" * 20), ("out", "c d\n" * 20), ("mixed", "a b\nc d\na d\nc b\n" * 5)):
        (tmp_path / name).write_text(text)
    lines = library.Lines(["a b", "c d", "a d", "c b"])
    vocabulary = library.train(lines, library.NGramConfig(order=1))
    vocabulary.save(tmp_path / "all")
    for name in ("in", "out"):
        library.train(tmp_path / name, library.NGramConfig(order=2)).save(tmp_path / f"{name}.lm")
    arguments = ("--model", tmp_path / "in.lm", "--difference", tmp_path / "out.lm", "--keep", 0.25)
    result = chainrule("filter", tmp_path / "mixed", *arguments, "-o", tmp_path / "kept.jsonl.gz", "--json")
    assert result.status == 0
    assert (result.json["documents"], result.json["kept"]) == (20, 5)
    assert sum(result.json["histogram"]["counts"]) <= 20
    with gzip.open(tmp_path / "kept.jsonl.gz", "rt") as file:
        assert [json.loads(line)["text"] for line in file] == ["a b"] * 5


def test_equal_scores_are_kept_from_the_front(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("ka\nvi  \nka\n ka\nka  \n")
    assert chainrule("filter", tmp_path / "text", "--model", model, "--keep", 0.4, "-o", tmp_path / "kept").status == 0
    lines = (tmp_path / "kept").read_text().split("\n")[:-1]
    assert lines in (["ka", "ka"], ["ka", "vi  "])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "Give either --keep, a share, or --below, a score."),
        (["--keep", "0.1", "--below", "3"], 2, "Give either --keep"),
        (["--keep", "0"], 1, "--keep is 0.0; expected a share above 0 and at most 1"),
        (["--keep", "30"], 1, "--keep is 30.0"),
        (["--keep", "nan"], 1, "--keep is nan"),
        (["--below", "nan"], 1, "is not a number"),
        (["--keep", "0.1", "--json"], 2, "With --json, the documents need a file: give --output."),
        (["--keep", "0.1", "-o", "TEXT"], 1, "is one of the files to read; choose another name"),
        (["--keep", "0.1", "-o", "there"], 1, "there: exists already; use --overwrite"),
        (["--keep", "0.1", "--difference", "nowhere"], 1, "nowhere: there is no such folder or file"),
    ],
)
def test_bad_options_are_errors_before_the_work(
    arguments: list[str], status: int, message: str, chainrule, model: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "TEXT").write_text("ka\nvi\n")
    (tmp_path / "there").write_text("mine")
    result = chainrule("filter", "TEXT", "--model", model, *arguments)
    assert result.status == status
    assert message in result.error
    assert (tmp_path / "there").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["TEXT", "there"]


def test_standard_input_cannot_be_read_twice(chainrule, stdin, model: Path) -> None:
    stdin(b"ka\n")
    assert "--keep reads twice" in chainrule("filter", "-", "--model", model, "--keep", 0.5).error


def test_records_are_written_with_all_fields(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ka vi", "source": "web"}\n' * 3)
    arguments = ["--model", model, "--keep", 1, "-o", tmp_path / "kept.jsonl"]
    result = chainrule("filter", tmp_path / "a.jsonl", *arguments)
    assert result.err == ""
    kept = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [{"text": "ka vi", "source": "web"}] * 3
