"""train seq2seq: pairs in, a seq2seq model out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tiny_pairs import QUICK, SOURCES, TARGETS, TINY

import chainrule as package

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")

TALKS = [
    {"messages": [{"role": "user", "content": f"my name is {name}"}, {"role": "assistant", "content": f"hello {name}"}]}
    for name in ("ann", "bob", "cid", "dan")
] * 5


def test_a_run_that_has_ended_is_gone_on_with_only_as_it_was(chainrule, mt: Path, pairs: list[Path]) -> None:
    again = ["train", "seq2seq", "--source", pairs[0], "--target", pairs[1], "-o", mt, "--resume", *QUICK]
    result = chainrule(*again)
    assert result.status == 0, result.err
    assert f"the run has ended, after 4 steps; {mt} is its model" in result.err
    assert "with other settings: dropout was 0.1 and is 0.5" in chainrule(*again, "--dropout", 0.5).error
    assert "with other settings: seed was 0 and is 5" in chainrule(*again, "--seed", 5).error
    pairs[0].write_text(pairs[0].read_text().replace("hund", "kater"))
    assert "with other settings: the text differs. Use --overwrite" in chainrule(*again).error


def test_separate_tokenizers_and_pairs_to_validate_on(chainrule, pairs: list[Path], tmp_path: Path) -> None:
    records = tmp_path / "pairs.jsonl"
    rows = [json.dumps({"de": s, "en": t}) for s, t in zip(SOURCES, TARGETS, strict=True)]
    records.write_text("\n".join(rows))
    arguments = ["--pairs", records, "--source-field", "de", "--target-field", "en", "--valid", *pairs]
    separate = ["--source-tokenizer", "character", "--encoder", "lstm", "--decoder", "lstm", "--score", "additive"]
    result = chainrule("train", "seq2seq", *arguments, "-o", tmp_path / "mt", *QUICK, *separate)
    assert result.status == 0, result.err
    assert "target tokens of" in result.out
    model = package.load(tmp_path / "mt", package.Seq2SeqModel)
    assert (model.source.name, model.target.name) == ("character", "whitespace")
    assert model.record["validation"]["pairs"] == 20
    model.save(tmp_path / "again")
    again = package.load(tmp_path / "again", package.Seq2SeqModel)
    assert again.write(SOURCES[:2], max_tokens=5) == model.write(SOURCES[:2], max_tokens=5)


def test_bad_pairs_and_settings_are_a_one_line_error(chainrule, mt: Path, pairs: list[Path], tmp_path: Path) -> None:
    short = tmp_path / "short.en"
    short.write_text("a dog\n")
    out = tmp_path / "new"
    both = ["--source", pairs[0], "--target", short]
    assert "short.en: ends after line 1, but" in chainrule("train", "seq2seq", *both, "-o", out, *QUICK).error
    assert not out.exists()
    missing = chainrule("train", "seq2seq", "--source", pairs[0], "-o", out)
    assert (missing.status, "--target is missing" in missing.error) == (2, True)
    assert "there is a model already" in chainrule("train", "seq2seq", *both, "-o", mt).error
    assert "writes texts given others (chainrule translate" in chainrule("score", mt, short).error
    assert "measure it with --pairs" in chainrule("evaluate", mt, short).error
    assert "heads of an even width" in chainrule("train", "seq2seq", *both, "-o", out, "--heads", 7).error
    alike = ["--source-tokenizer", "bpe", "--tokenizer", "bpe", "--vocabulary-size", 300, "--shared", "all"]
    refused = chainrule("train", "seq2seq", "--source", pairs[0], "--target", pairs[1], "-o", out, *TINY, *alike)
    assert "source and target cannot share vectors: their vocabularies" in refused.error
    marked = tmp_path / "marked.tsv"
    marked.write_text("a dog\tein hund\n\na </s> cat\teine katze\n")
    for marker in (b"a </s> cat\teine katze", b"a cat\teine <unk> katze"):
        marked.write_bytes(b"a dog\tein hund\n\n" + marker + b"\n")
        given = ["--pairs", marked, "-o", out, *QUICK, "--valid-share", 0]
        assert "marked.tsv, line 3: <" in chainrule("train", "seq2seq", *given).error
    clean = ["--source", pairs[0], "--target", pairs[1], "--valid", marked, "-o", out, *QUICK]
    assert "marked.tsv, line 3: <unk> occurs" in chainrule("train", "seq2seq", *clean).error
    assert chainrule("train", "seq2seq", *given, "--markers", "skip").status == 0


def test_long_sources_are_cut_and_that_is_said(chainrule, tmp_path: Path, pairs: list[Path], stdin) -> None:
    both = ["--source", pairs[0], "--target", pairs[1]]
    cut = ["--max-source", 3]  # two tokens and </s>
    model = tmp_path / "cut"
    result = chainrule("train", "seq2seq", *both, "-o", model, *QUICK, *cut, "--long-sources", "end")
    assert "note: 20 sources of more than 2 tokens: their ends were cut off" in result.err
    stdin(b"ein hund rennt\nein hund schl\xc3\xa4ft\n")
    written = chainrule("translate", model, "--max-tokens", 3)
    assert written.lines[0] == written.lines[1]  # only their beginnings are read
    assert "note: 2 sources longer than the model reads" in written.err
    measured = chainrule("evaluate", model, *both, "--beam", 1, "--max-tokens", 2)
    assert "note: 20 sources longer than the model reads" in measured.err
    refused = chainrule("train", "seq2seq", *both, "-o", tmp_path / "no", *QUICK, *cut)
    assert "every source is longer than 2 tokens" in refused.error


def test_a_model_of_pairs_answers_a_conversation(chainrule, tmp_path: Path, stdin) -> None:
    talks = tmp_path / "talks.jsonl"
    talks.write_text("".join(json.dumps(talk) + "\n" for talk in TALKS))
    mt = tmp_path / "mt"
    options = ["--max-source", 9, "--long-sources", "front"]
    result = chainrule("train", "seq2seq", "--pairs", talks, "-o", mt, *QUICK, *options)
    assert result.status == 0, result.err
    model = package.load(mt, package.Seq2SeqModel)
    assert model.sources(["user: my name is ann"])[0].size == 5
    stdin(b"my name is bob\nmy name is cid\n")
    talked = chainrule("chat", mt, "--temperature", 0, "--max-tokens", 3, "--json")
    assert talked.status == 0, talked.err
    answers = [json.loads(line)["content"] for line in talked.lines]
    expected = model.sample(["user: my name is bob"], 1, package.SamplingConfig(temperature=0), max_tokens=3)
    assert answers[0] == expected[0][0].text
    assert "the first 2 messages no longer fit" in talked.err  # 5 tokens, at least 1, and 5 again, of 8
    again = model.chat([{"role": "user", "content": "my name is bob"}], package.SamplingConfig(temperature=0), seed=1)
    assert again.startswith(answers[0])
    assert "template is for models" in chainrule("chat", mt, "--template", talks).err
    with pytest.raises(package.SettingError, match="the model answers a message from the user"):
        model.chat([{"role": "assistant", "content": "hello"}])
