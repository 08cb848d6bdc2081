"""N-best lists in tables: as those of JSON lines, and what is wrong with them; a row for each list."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pandas
import pytest

import chainrule as library
from chainrule.errors import ChainruleError, SettingError
from chainrule.features.rescore.lists.nbest_files import format_of, read_lists
from chainrule.features.rescore.lists.nbest_formats import ScoreFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LISTS = {
    "u1": [("a b", -1.0, 3.0), ("b a", -2.0, 1.0)],
    "u2": [('a "b"', -0.5, 2.0)],
    "u3": [("b", -3.0, 0.0), ("a", -3.5, 2.0), ("a a", -9.0, 1.0)],
}
REFERENCES = {"u1": "a b", "u2": "a b", "u3": "a"}


def frame() -> pandas.DataFrame:
    return pandas.DataFrame(
        [
            {"id": key, "text": text, "score": score, "cost": cost, "reference": REFERENCES[key], "who": "x"}
            for key, rows in LISTS.items()
            for text, score, cost in rows
        ]
    )


def as_json(path: Path) -> Path:
    path.write_text(
        "".join(
            json.dumps(
                {
                    "id": key,
                    "hypotheses": [{"text": text, "score": score} for text, score, _ in rows],
                    "reference": REFERENCES[key],
                }
            )
            + "\n"
            for key, rows in LISTS.items()
        )
    )
    return path


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.parquet", "bare.tsv", "turned.tsv", "a.txt"])
def test_tables_are_read_as_json_lines_are(name: str, tmp_path: Path) -> None:
    path, table = tmp_path / name, frame()
    if name == "a.parquet":
        table.to_parquet(path)
    elif name.startswith(("bare", "turned")):
        columns = ["id", "text", "score"] if name == "bare.tsv" else ["id", "score", "text"]
        table[columns].to_csv(path, sep="\t", header=False, index=False)
    else:
        table.to_csv(path, sep="," if name == "a.csv" else "\t", index=False)
    assert format_of(str(path)) == "table"
    expected = list(read_lists(str(as_json(tmp_path / "a.jsonl")), "json"))
    found = list(read_lists(str(path), "table"))
    assert [(own.id, own.texts, own.scores) for own in found] == [(own.id, own.texts, own.scores) for own in expected]
    if name.startswith("a"):
        assert [own.reference for own in found] == list(REFERENCES.values())


def test_other_columns_are_scores_and_costs_where_they_are_named(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "a.csv", index=False)
    [first, *_] = read_lists(str(tmp_path / "a.csv"), "table", ScoreFiles({"own": "score"}, {"price": "cost"}))
    assert first.scores == {"own": (-1.0, -2.0), "price": (-3.0, -1.0)}
    with pytest.raises(ChainruleError, match=r"line 2: there is no column 'am' of scores; there are 'id', 'text'"):
        list(read_lists(str(tmp_path / "a.csv"), "table", ScoreFiles({"own": "am"}, {})))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u1\ta b\n", "line 1: found 2 columns without the names id, text and score"),
        ("id\ttext\tscore\nu1\ta\tx\n", "line 2: the score is 'x'; expected a number"),
        ("id\ttext\tscore\nu 1\ta\t1\n", "line 2: the id is 'u 1'; expected a text without white space"),
        ("id\ttext\tscore\nu1\ta\n", "line 2: found 2 columns; expected 3: id, text, score"),
        ("id\ttext\tscore\nu1\ta\t1\nu2\ta\t1\nu1\tb\t2\n", "line 4: the list u1 occurs again after others"),
        ("id\ttext\nu1\ta\n", "line 2: there is no column 'score' of scores"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(ChainruleError) as refused:
        list(read_lists(str(tmp_path / "a.tsv"), "table"))
    assert message in str(refused.value)


def test_a_row_for_each_list_and_lists_with_new_scores(
    chainrule: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    """The errors are counted by hand; the total is the sum of the scores, with weights of 1 and 0 for words."""
    frame().to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    say = ["rescore", model, tmp_path / "a.tsv", "--weight", "score=1", "--weight", "lm=0", "--no-bleu"]
    done = chainrule(*say, "-o", tmp_path / "best.csv", "--nbest-out", tmp_path / "new.tsv")
    assert done.status == 0, done.err
    with (tmp_path / "best.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [
        (row["id"], row["text"], row["right"], row["errors"], row["errors_oracle"], row["words"]) for row in rows
    ] == [
        ("u1", "a b", "TRUE", "0", "0", "2"),
        ("u2", 'a "b"', "FALSE", "1", "1", "2"),
        ("u3", "b", "FALSE", "1", "0", "1"),
    ]
    log_probs = library.load(model).score([row["text"] for row in rows])
    for row, log_prob in zip(rows, log_probs.tolist(), strict=True):
        assert float(row["total"]) == float(row["score"])
        assert float(row["lm"]) <= log_prob + 1e-3  # which leaves the spelling of unknown words out
    written = pandas.read_csv(tmp_path / "new.tsv", sep="\t")
    assert list(written.columns) == ["id", "text", "reference", "cost", "who", "score", "lm", "total"]
    assert sorted(written["text"]) == sorted(text for own in LISTS.values() for text, _, _ in own)


def test_tuning_reads_tables_too(chainrule: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "a.csv", index=False)
    found = [
        chainrule("rescore", model, lists, "--tune", lists, "--json", "-o", tmp_path / f"{i}.txt").json["weights"]
        for i, lists in enumerate((tmp_path / "a.csv", as_json(tmp_path / "a.jsonl")))
    ]
    assert found[0] == found[1]


def test_bad_rows_are_skipped_where_asked(chainrule: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ttext\tscore\nu1\ta\t1\nu1\tb\tx\nu2\tb\t2\n")
    (tmp_path / "a.jsonl").write_text(
        '{"hypotheses": [{"text": "a", "score": 1}]}\n{}\n{"hypotheses": [{"text": "b", "score": 2}]}\n'
    )
    for name, line in (("a.tsv", "u1\tb\tx"), ("a.jsonl", "{}")):
        say = ["rescore", model, tmp_path / name, "-o", tmp_path / "best.txt", "--overwrite"]
        assert "line" in chainrule(*say).error
        done = chainrule(*say, "--bad-records", "skip", "--bad-records-out", tmp_path / "bad.jsonl")
        assert (done.status, (tmp_path / "best.txt").read_text()) == (0, "a\nb\n"), done.err
        [kept] = [json.loads(row)["record"] for row in (tmp_path / "bad.jsonl").read_text().splitlines()]
        assert kept == line
    (tmp_path / "a.moses").write_text("0 ||| a ||| x= 1 ||| 2\n")
    with pytest.raises(SettingError, match="bad_records is for lists in JSON lines and tables, not for the format"):
        library.rescore(str(tmp_path / "a.moses"), library.load(model), bad_records="skip")
