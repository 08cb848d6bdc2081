"""chainrule noise: texts with errors, and lists of what may have been meant."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from chainrule.features.correct.channel.character_channel import channel_named

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("channel", ["keyboard", "ocr"])
def test_every_line_becomes_a_line_and_a_seed_makes_the_same_errors(
    channel: str, chainrule, process, heldout: Path, tmp_path: Path
) -> None:
    say = ["noise", heldout, "--channel", channel, "--rate", 0.1]
    assert chainrule(*say, "-o", tmp_path / "a.gz").status == 0
    out, err = process(*say).communicate()
    with gzip.open(tmp_path / "a.gz") as file:
        assert file.read() == out
    assert err == b""
    lines, given = out.decode().split("\n"), heldout.read_text().split("\n")
    assert len(lines) == len(given)
    found = channel_named(channel, 0.1).log_probs(lines, given)  # type: ignore[arg-type]
    assert (found > -1e9).all()
    assert sum(line != text for line, text in zip(lines, given, strict=True)) > 20
    assert chainrule(*say, "--seed", 1, "-o", tmp_path / "b").status == 0
    assert (tmp_path / "b").read_bytes() != out


def test_lists_can_be_rescored_and_texts_recover(chainrule, model: Path, heldout: Path, tmp_path: Path) -> None:
    lists = tmp_path / "lists.jsonl"
    say = ["noise", heldout, "--rate", 0.1, "--model", model, "--best", 20]
    assert chainrule(*say, "-o", lists).status == 0
    records = [json.loads(line) for line in lists.read_text().splitlines()]
    assert [record["reference"] for record in records] == heldout.read_text().splitlines()
    assert [record["id"] for record in records] == [str(i) for i in range(1, len(records) + 1)]
    assert max(len(record["hypotheses"]) for record in records) == 20
    first = records[0]
    scores = first["hypotheses"][0]["scores"]
    exact = channel_named("keyboard", 0.1).log_prob(first["observed"], first["hypotheses"][0]["text"])
    assert exact - 1 < scores["channel"] <= exact + 1e-3
    result = chainrule("rescore", lists, "--model", f"lm={model}", "-o", tmp_path / "best", "--json")
    rates = result.json["word_error_rate"]
    assert rates["oracle"]["value"] <= rates["after"]["value"]
    assert rates["oracle"]["value"] < rates["before"]["value"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "0"], "rate is 0.0; expected more than 0 and at most 0.5"),
        (["--best", "0", "--model", "MODEL"], "best is 0; expected 1 to"),
        (["--best", "0"], "--best needs --model."),
        (["--tokenizer", "word"], "--tokenizer needs --model."),
        (["--model", "nowhere"], "nowhere: there is no such folder or file"),
        (["-o", "TEXT"], "is one of the files to read; choose another name"),
    ],
)
def test_bad_options_are_errors_before_the_work(
    arguments: list[str], message: str, chainrule, model: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "TEXT").write_text("ka\n")
    result = chainrule("noise", "TEXT", *[word.replace("MODEL", str(model)) for word in arguments])
    assert message in result.error
    assert [path.name for path in tmp_path.iterdir()] == ["TEXT"]


def test_documents_must_be_lines(chainrule, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "a\\nb"}\n')
    result = chainrule("noise", tmp_path / "a.jsonl", "-o", tmp_path / "out")
    assert "a.jsonl, line 2: the document holds newlines; cut it with --document line" in result.error
    assert not (tmp_path / "out").exists()


def test_models_without_words_propose_nothing(chainrule, heldout: Path, tmp_path: Path) -> None:
    chainrule("train", "ngram", heldout, "-o", tmp_path / "lm", "--order", 2, "--tokenizer", "byte")
    result = chainrule("noise", heldout, "--model", tmp_path / "lm", "-o", tmp_path / "out")
    assert "the model has the byte tokenizer, whose tokens are not words" in result.error


def test_errors_of_grammar_become_pairs(chainrule, heldout: Path, tmp_path: Path) -> None:
    done = chainrule("noise", heldout, "--channel", "grammar", "--pairs", "-o", tmp_path / "pairs.tsv")
    assert done.status == 0, done.err
    rows = [line.split("\t") for line in (tmp_path / "pairs.tsv").read_text().splitlines()]
    assert [right for _, right in rows] == heldout.read_text().splitlines()
    assert sum(wrong != right for wrong, right in rows) > len(rows) / 4
    learned = tmp_path / "g.json"
    assert chainrule("train", "channel", "--grammar", tmp_path / "pairs.tsv", "-o", learned).status == 0
    again = chainrule("noise", heldout, "--channel", learned)
    assert len(again.out.splitlines()) == len(rows)
    for arguments, message in (
        (["--channel", learned, "--rate", "0.1"], "of its own"),
        (["--channel", "grammar", "--rate", "0"], "rate"),
        (["--channel", "radio"], "radio"),
        (["--inflections", heldout], "grammar"),
        (["--pairs", "--model", "lm"], "--pairs"),
    ):
        done = chainrule("noise", heldout, *arguments)
        assert done.status != 0
        assert message in done.err
