"""Pairs of sentences from tables, and what each pair and each item of a suite got."""

from __future__ import annotations

import csv
import json
import math
from typing import TYPE_CHECKING, Any

import pandas
import pytest

import chainrule as library
from chainrule.errors import TextError
from chainrule.features.judging.minimal_pairs import read_pairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.models.language_models import CausalModel

PAIRS = [("ka vi", "vi ka ka zz"), ("ka, vi", "zz"), ("vi vi", "vi vi"), ("vi ka", "ka vi ka")]


@pytest.fixture(scope="module")
def letters() -> CausalModel:
    lines = ["ka vi ka vi", "ka vi", "vi ka vi ka ka"] * 3
    return library.train(library.Lines(lines), library.NGramConfig(order=3), tokenizer="whitespace")


def test_every_format_has_the_same_pairs(tmp_path: Path) -> None:
    frame = pandas.DataFrame(PAIRS, columns=["sentence_good", "sentence_bad"])
    frame.to_csv(tmp_path / "named.csv", index=False)
    frame.to_csv(tmp_path / "named.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "bare.csv", index=False, header=False)
    frame.to_csv(tmp_path / "bare.tsv", index=False, header=False, sep="\t")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.rename(columns={"sentence_good": "ok", "sentence_bad": "off"}).to_csv(tmp_path / "other.csv")
    for name in ("named.csv", "named.tsv", "bare.csv", "bare.tsv", "a.jsonl", "a.parquet", "other.csv"):
        fields = ("ok", "off") if name == "other.csv" else None
        found = read_pairs([str(tmp_path / name)], fields=fields)
        assert [(pair.good, pair.bad) for pair in found] == PAIRS, name


@pytest.mark.parametrize(
    ("name", "text", "fields", "message"),
    [
        ("a.csv", "id,text\n1,ka vi\n2,vi ka\n", None, "'id' and 'text' seem to be the names of columns"),
        ("a.tsv", "x\ty\nka vi\tvi ka\nvi vi\tka ka\n", None, "'x' and 'y' seem to be the names of columns"),
        ("a.csv", "id,right,wrong\n1,ka vi,vi\n", None, "no column 'sentence_good'; there are 'id', 'right', 'wrong'"),
        ("a.csv", "id,right,wrong\n1,ka vi,vi\n", ("right", "bad"), "no column 'bad'; there are 'id', 'right'"),
        ("a.jsonl", '{"right": "ka"}\n', None, "line 1: there is no field 'sentence_good'; there are 'right'"),
        ("a.tsv", "ka vi\n", None, "line 1: there is no column 'sentence_good'; there are 'ka vi'"),
    ],
)
def test_a_table_without_the_sentences_names_what_it_has(
    name: str, text: str, fields: tuple[str, str] | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TextError) as refused:
        read_pairs([str(tmp_path / name)], fields=fields)
    assert message in str(refused.value)


def test_each_pair_has_both_log_probabilities(letters: CausalModel, tmp_path: Path) -> None:
    """Of a whitespace tokenizer, `score` without unknown words is the sum; the accuracies are means of the rows."""
    known = [(good, bad) for good, bad in PAIRS if not {"zz", "ka,"} & {*good.split(), *bad.split()}]
    lines = [
        {"sentence_good": good, "sentence_bad": bad, "UID": "u", "pair_id": i} for i, (good, bad) in enumerate(known)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = letters.judge_pairs(tmp_path / "a.jsonl")
    rows = judged.to_records()
    assert [(row["set"], row["pair_id"], row["good"], row["bad"]) for row in rows] == [
        ("u", i, good, bad) for i, (good, bad) in enumerate(known)
    ]
    for side, texts in (("good", [good for good, _ in known]), ("bad", [bad for _, bad in known])):
        assert [row[f"log_prob_{side}"] for row in rows] == pytest.approx(letters.score(texts).tolist(), rel=1e-6)
        assert [row[f"tokens_{side}"] for row in rows] == [len(text.split()) + 1 for text in texts]
    for row in rows:
        per_token = [row[f"log_prob_{side}"] / row[f"tokens_{side}"] for side in ("good", "bad")]
        assert row["tie"] == (row["good"] == row["bad"])
        assert row["right"] == (not row["tie"] and row["log_prob_good"] > row["log_prob_bad"])
        assert row["right_per_token"] == (not row["tie"] and per_token[0] > per_token[1])
    share = judged[-1].by_rule["sum"].share
    assert share == sum(row["right"] + row["tie"] / 2 for row in rows) / len(rows)


def test_each_item_of_a_suite_has_its_bits(letters: CausalModel, tmp_path: Path) -> None:
    def condition(name: str, *contents: str) -> dict[str, Any]:
        regions = [{"region_number": i, "content": content} for i, content in enumerate(contents, 1)]
        return {"condition_name": name, "regions": regions}

    items = [
        {"item_number": 7, "conditions": [condition("seen", "ka", "vi"), condition("new", "ka", "ka ka")]},
        {"item_number": 8, "conditions": [condition("seen", "ka", "vi"), condition("new", "ka", "vi")]},
    ]
    suite = {"meta": {"name": "s"}, "predictions": [{"formula": "(2;%seen%) < (2;%new%)"}], "items": items}
    (tmp_path / "s.json").write_text(json.dumps(suite))
    judged = letters.judge_suites(tmp_path / "s.json")
    rows = judged.to_records()
    assert [(row["suite"], row["item"], row["right"], row["tie"]) for row in rows] == [
        ("s", "7", True, False),
        ("s", "8", False, True),
    ]
    assert [row["predictions"] for row in rows] == [[True], [False]]
    probs = [dict(letters.next(text, letters.vocabulary_size)) for text in ("", "ka", "ka ka")]
    assert rows[0]["bits"]["seen"] == pytest.approx([-math.log2(probs[0]["ka"]), -math.log2(probs[1]["vi"])], abs=1e-4)
    [accuracy] = judged
    assert accuracy.all.correct == sum(row["right"] for row in rows)


def test_the_shell_writes_a_row_for_each_pair(chainrule: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{good}\t{bad}\n" for good, bad in PAIRS) + "one cell\n")
    done = chainrule(
        "evaluate",
        model,
        "--minimal-pairs",
        tmp_path / "a.tsv",
        "-o",
        tmp_path / "rows.csv",
        "--bad-records-out",
        tmp_path / "bad.jsonl",
    )
    assert done.status == 0, done.err
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["good"], row["bad"]) for row in rows] == PAIRS
    assert [row["tie"] for row in rows] == ["FALSE", "FALSE", "TRUE", "FALSE"]
    [bad] = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert bad == {
        "place": f"{tmp_path / 'a.tsv'}, line 5",
        "error": "found 1 column; expected 2: sentence_good, sentence_bad",
        "record": "one cell",
    }
    named = chainrule("evaluate", model, "--minimal-pairs", tmp_path / "rows.csv", "--field", "bad,good", "--json").json
    plain = chainrule("evaluate", model, "--minimal-pairs", tmp_path / "a.tsv", "--json").json
    assert named[-1]["sum"]["accuracy"] == pytest.approx(1 - plain[-1]["sum"]["accuracy"])
