"""evaluate, compare and rescore with seq2seq models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import sacrebleu
from tiny_pairs import QUICK, SOURCES, TARGETS

import chainrule as package

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_model_of_pairs_is_measured_on_sources_and_targets(chainrule, mt: Path, pairs: list[Path]) -> None:
    result = chainrule(
        "evaluate", mt, "--source", pairs[0], "--target", pairs[1], "--beam", 1, "--max-tokens", 5, "--json"
    )
    assert result.status == 0, result.err
    figures = json.loads(result.out)
    written = chainrule("translate", mt, pairs[0], "--beam", 1, "--max-tokens", 5).out.splitlines()
    assert figures["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(written, [TARGETS]).score, abs=1e-9)
    assert figures["chrF"] == pytest.approx(sacrebleu.corpus_chrf(written, [TARGETS]).score, abs=1e-9)
    model = package.load(mt, package.Seq2SeqModel)
    nats = -sum(float(model.given(one).score([other])[0]) for one, other in zip(SOURCES, TARGETS, strict=True))
    tokens = sum(len(target.split()) + 1 for target in TARGETS)
    assert figures["tokens"] == tokens
    assert figures["perplexity"] == pytest.approx(np.exp(nats / tokens), rel=1e-4)
    assert figures["bits_per_byte"] == pytest.approx(nats / np.log(2) / pairs[1].stat().st_size, rel=1e-4)
    assert "--target is missing" in chainrule("evaluate", mt, "--source", pairs[0]).err


def test_pairs_in_one_file_are_measured_as_those_in_two(chainrule, mt: Path, pairs: list[Path], tmp_path: Path) -> None:
    both, options = tmp_path / "both.tsv", ["--beam", 1, "--max-tokens", 5, "--json"]
    both.write_text("".join(f"{one}\t{other}\n" for one, other in zip(SOURCES, TARGETS, strict=True)))
    talks = tmp_path / "talks.jsonl"
    talks.write_text(
        "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in zip(SOURCES, TARGETS, strict=True))
    )
    of_two = chainrule("evaluate", mt, "--source", pairs[0], "--target", pairs[1], *options).json
    assert chainrule("evaluate", mt, "--pairs", both, *options).json == of_two
    assert chainrule("evaluate", mt, "--pairs", talks, *options).json == of_two
    assert chainrule("compare", mt, "--pairs", both, *options).json[0]["BLEU"] == of_two["BLEU"]
    assert "--pairs has both sides" in chainrule("evaluate", mt, "--pairs", both, "--source", pairs[0]).err
    assert "none.tsv: there is no such file" in chainrule("evaluate", mt, "--pairs", tmp_path / "none.tsv").err


def test_bits_per_byte_are_not_measured_with_unknown_tokens(chainrule, mt: Path, tmp_path: Path) -> None:
    (tmp_path / "one.de").write_text("ein hund\n")
    (tmp_path / "one.en").write_text("a zebra\n")
    result = chainrule("evaluate", mt, "--source", tmp_path / "one.de", "--target", tmp_path / "one.en")
    assert result.status == 0, result.err
    assert "bits per byte  not measured; target tokens that the model does not know: 1\n" in result.out
    assert result.out.startswith("1 pair, 3 target tokens\n")


def test_models_of_pairs_are_compared_on_the_same_pairs(chainrule, mt: Path, pairs: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    arguments = ["--source", pairs[0], "--target", pairs[1]]
    assert chainrule("train", "seq2seq", *arguments, "-o", other, *QUICK, "--seed", 5).status == 0
    options = [*arguments, "--beam", 2, "--max-tokens", 5]
    rows = json.loads(chainrule("compare", mt, other, *options, "--json").out)
    for row, model in zip(rows, (mt, other), strict=True):
        alone = json.loads(chainrule("evaluate", model, *options, "--json").out)
        assert row["model"] == str(model)
        assert {name: row[name] for name in alone} == alone
    assert sorted(row["p_value"] is None for row in rows) == [False, True]
    assert all(row["p_value"] is None or 0 < row["p_value"] <= 1 for row in rows)
    table = chainrule("compare", mt, other, *options)
    assert "20 pairs; p: a paired test of BLEU against the best" in table.out
    assert "perplexity" in table.lines[0]
    assert "--target is missing" in chainrule("compare", mt, "--source", pairs[0]).err
    assert "go with seq2seq models" in chainrule("compare", mt, *options, "--order", 3).err


def test_lists_are_rescored_by_a_model_that_reads_their_sources(chainrule, mt: Path, tmp_path: Path) -> None:
    hypotheses = [["a dog runs", "two dogs", "a cat"], ["a man reads", "a"]]
    sources = ["ein hund rennt", "ein mann liest"]
    rows = [f"{i} ||| {text} ||| x ||| 0" for i, texts in enumerate(hypotheses) for text in texts]
    (tmp_path / "lists").write_text("".join(row + "\n" for row in rows))
    (tmp_path / "sources").write_text("".join(source + "\n" for source in sources))
    lists = ["rescore", tmp_path / "lists", "--model", f"mt={mt}"]
    result = chainrule(*lists, "--sources", tmp_path / "sources", "--nbest-out", tmp_path / "out.jsonl")
    assert result.status == 0, result.err
    model = package.load(mt, package.Seq2SeqModel)
    for line, source, texts, best in zip(
        (tmp_path / "out.jsonl").read_text().splitlines(), sources, hypotheses, result.lines, strict=True
    ):
        expected = {text: float(model.given(source).score([text])[0]) for text in texts}
        record = json.loads(line)
        assert record["source"] == source
        for each in record["hypotheses"]:
            assert each["scores"]["mt"] == pytest.approx(expected[each["text"]], abs=1e-3)
        assert best == max(expected, key=lambda text: expected[text])
    again = chainrule("rescore", tmp_path / "out.jsonl", "--model", f"model={mt}", "--weight", "mt=0", "total=0")
    assert again.lines == result.lines  # JSON lists have their sources themselves
    from_python = package.rescore(str(tmp_path / "lists"), model, sources=str(tmp_path / "sources"))
    assert from_python.best == result.lines
    assert "which the lists lack; name a file of sources" in chainrule(*lists).error
    (tmp_path / "sources").write_text("ein hund\n")
    assert "there are more lists" in chainrule(*lists, "--sources", tmp_path / "sources").error
