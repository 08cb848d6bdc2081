"""chainrule train: the summary, its JSON, and every option's way to the model."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from typing import TYPE_CHECKING

import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


def test_the_summary_names_the_model_its_sizes_and_its_discounts(chainrule, corpus: Path, tmp_path: Path) -> None:
    result = chainrule("train", "ngram", corpus, "-o", tmp_path / "lm", "--order", 3, "--tokenizer", "whitespace")
    assert (result.status, result.err) == (0, "")
    first, header, *rows, last = result.lines
    words = corpus.read_text().split()
    assert first == (
        f"{tmp_path / 'lm'}: ngram model of {len(words):,} tokens in 1,200 documents, vocabulary {len(set(words)) + 3} "
        f"(V = {len(set(words)) + 2} without <s>)"
    )
    assert header.split() == ["order", "n-grams", "D1", "D2", "D3+"]
    assert [row.split()[:2] for row in rows] == [["1", "338"], ["2", "4,259"], ["3", "9,628"]]  # as lmplz counts
    assert " kB, " in last


def test_the_json_summary_holds_the_record_and_the_files(chainrule, corpus: Path, tmp_path: Path) -> None:
    result = chainrule("train", "ngram", corpus, "--output", tmp_path / "lm", "--order=2", "--json")
    assert (result.status, result.err) == (0, "")
    summary = result.json
    text = corpus.read_bytes()
    assert summary["model"] == str(tmp_path / "lm")
    assert summary["data"] == {str(corpus): hashlib.sha256(text).hexdigest()}
    assert summary["documents"] == text.count(b"\n")
    assert summary["tokens"] == len(text.split())
    assert summary["settings"]["order"] == 2
    assert summary["bytes"] == sum(path.stat().st_size for path in (tmp_path / "lm").iterdir())
    assert summary["total_seconds"] >= summary["seconds"] > 0
    assert json.loads((tmp_path / "lm/config.json").read_text())["record"]["data"] == summary["data"]


def test_every_setting_reaches_the_model(chainrule, corpus: Path, tmp_path: Path) -> None:
    options = ["--order", "4", "--prune", "0", "1", "2", "--no-interpolate-unigrams", "--kenlm-compatible"]
    options += ["--tokenizer", "character", "--markers", "keep"]
    assert chainrule("train", "ngram", corpus, *options, "-o", tmp_path / "lm").status == 0
    model = library.load(tmp_path / "lm")
    assert model.record["settings"] == {
        "order": 4,
        "smoothing": "modified-kneser-ney",
        "prune": [0, 1, 2],
        "discount": [],
        "pseudocount": 0.5,
        "weights": [],
        "weights_by": "count",
        "backoff_weight": 0.4,
        "open_vocabulary": True,
        "begins": "one",
        "interpolate_unigrams": False,
        "strict_discounts": False,
        "kenlm_compatible": True,
    }
    assert (model.tokenizer.name, model.tokenizer.markers) == ("character", "keep")


def test_every_setting_of_the_tokenizer_reaches_the_model(chainrule, corpus: Path, tmp_path: Path) -> None:
    train = ("train", "uniform", corpus, "-o")
    (tmp_path / "words.txt").write_text("ka\nvi\n")
    options = ["--tokenizer", "whitespace", "--normalise", "nfkc,lower", "--vocabulary-min-count", 2]
    counted = chainrule(*train, tmp_path / "counted", *options, "--vocabulary-size", 5)
    assert counted.status == 0
    assert re.search(r"vocabulary 5 \(V = 4 without <s>\), [1-9]\d\.\d\d% of the tokens unknown\n", counted.out)
    assert chainrule(*train, tmp_path / "listed", "--vocabulary", tmp_path / "words.txt").status == 0
    assert chainrule(*train, tmp_path / "bpe", "--tokenizer", "bpe", "--vocabulary-size", 270).status == 0
    assert chainrule(*train, tmp_path / "reused", "--tokenizer", tmp_path / "bpe").status == 0
    models = {name: library.load(tmp_path / name) for name in ("counted", "listed", "bpe", "reused")}
    assert {name: model.vocabulary_size for name, model in models.items()} == {
        "counted": 5,
        "listed": 5,
        "bpe": 270,
        "reused": 270,
    }
    assert models["counted"].tokenizer.loses == "spaces,nfkc,lower"
    assert models["counted"].record["tokenizer"] == {
        "kind": "whitespace",
        "normalise": ["nfkc", "lower"],
        "vocabulary_size": 5,
        "min_count": 2,
    }
    assert models["bpe"].tokenizer.vocabulary.tokens() == models["reused"].tokenizer.vocabulary.tokens()
    result = chainrule(*train, tmp_path / "none", "--tokenizer", "words")
    assert (result.status, "no tokenizer called 'words'" in result.error) == (1, True)


def test_fallback_discounts_are_noted_once_and_marked_in_the_table(chainrule, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("hello\n")
    result = chainrule("train", "ngram", tmp_path / "one.txt", "-o", tmp_path / "lm", "--order", 24)
    assert result.status == 0
    assert sum(line.endswith("fallback") for line in result.lines) == 24
    assert result.err.startswith("note: order 1: no 1-gram has an adjusted count of 2")
    assert result.err.endswith("likewise orders " + ", ".join(map(str, range(2, 25))) + "\n")
    assert "so no discount can be estimated; used 0.5, 1, 1.5 instead; likewise" in result.err
    assert result.err.count("\n") == 1
    single = chainrule("train", "ngram", tmp_path / "one.txt", "-o", tmp_path / "single", "--smoothing", "absolute")
    assert "; used 0.75 instead; likewise" in single.err
    none = chainrule("train", "ngram", tmp_path / "one.txt", "-o", tmp_path / "none", "--smoothing", "good-turing")
    assert "from which no discount can be estimated, so no count is discounted; likewise" in none.err


def test_strict_discounts_fail_and_leave_nothing(chainrule, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("hello\n")
    result = chainrule("train", "ngram", tmp_path / "one.txt", "-o", tmp_path / "lm", "--strict-discounts")
    assert result.status == 1
    assert "order 1" in result.error
    assert not (tmp_path / "lm").exists()


def test_several_texts_and_standard_input_are_one_corpus(chainrule, stdin, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\n")
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(b"c\nd e f\n")
    stdin(b"g\n")
    target = tmp_path / "lm"
    result = chainrule("train", "uniform", tmp_path / "a.txt", tmp_path / "b.txt.gz", "-", "-o", target, "--json")
    assert result.status == 0
    assert (result.json["documents"], result.json["tokens"], result.json["vocabulary"]) == (4, 7, 10)


def test_an_arpa_name_gives_an_arpa_file(chainrule, corpus: Path, heldout: Path, tmp_path: Path) -> None:
    folder, file = tmp_path / "lm", tmp_path / "lm.arpa.gz"
    for target in (folder, file):
        options = ["--order", 2, "--tokenizer", "whitespace", "--json"]
        result = chainrule("train", "ngram", corpus, "-o", target, *options)
        assert (result.status, result.err) == (0, "")
    assert result.json["bytes"] == file.stat().st_size
    in_file, in_folder = (chainrule("evaluate", path, heldout, "--json").json for path in (file, folder))
    assert in_file["log_prob"] == pytest.approx(in_folder["log_prob"], rel=1e-6)


@pytest.mark.parametrize("name", ["lm/", "a folder/with spaces/ünï 語", "new\nline"])
def test_a_model_folder_may_be_called_anything(name: str, chainrule, heldout: Path, tmp_path: Path) -> None:
    text = tmp_path / "naïve | text\n`語`.txt"
    text.write_text("a b\n" * 10)
    assert chainrule("train", "ngram", text, "-o", f"{tmp_path}/{name}").status == 0
    assert chainrule("evaluate", f"{tmp_path}/{name}", text).status == 0


def test_a_link_to_a_model_folder_is_one(chainrule, model: Path, heldout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    assert chainrule("evaluate", tmp_path / "link", heldout).status == 0


def test_overwriting_replaces_the_model_and_only_when_asked(chainrule, corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "lm"
    assert chainrule("train", "ngram", corpus, "-o", target, "--order", 2).status == 0
    assert "--overwrite" in chainrule("train", "ngram", corpus, "-o", target, "--order", 1).error
    assert library.load(target).record["settings"]["order"] == 2
    assert chainrule("train", "ngram", corpus, "-o", target, "--order", 1, "--overwrite").status == 0
    assert library.load(target).record["settings"]["order"] == 1
    assert len(list(target.iterdir())) == 3  # the old arrays are gone


def test_a_text_of_empty_lines_is_refused_and_one_with_carriage_returns_trains(chainrule, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"\n\n\n")
    empty = chainrule("train", "ngram", tmp_path / "empty.txt", "-o", tmp_path / "empty")
    assert "all of its documents, 3, are empty; at least one token is needed" in empty.error
    assert not (tmp_path / "empty").exists()
    (tmp_path / "windows.txt").write_bytes(b"\xef\xbb\xbfa b\r\nb a\r\n")
    windows = chainrule("train", "ngram", tmp_path / "windows.txt", "-o", tmp_path / "windows", "--json").json
    assert (windows["documents"], windows["tokens"], windows["vocabulary"]) == (2, 4, 5)


def test_texts_can_be_mixed(chainrule, corpus: Path, heldout: Path, tmp_path: Path) -> None:
    mixed = ["--mix", f"{corpus}=0.5", f"{heldout}=0.5"]
    result = chainrule("train", "uniform", "-o", tmp_path / "lm", "--json", *mixed)
    assert result.status == 0
    taken = [text["documents"] for text in result.json["mix"]["texts"]]
    assert result.json["documents"] == sum(taken)
    assert f"note: {heldout}: {taken[1]} of 102 documents" in result.err
    size = 3 * heldout.stat().st_size
    repeated = chainrule("train", "uniform", "-o", tmp_path / "more", "--mix-bytes", size, *mixed)
    assert "read 1.5 times" in repeated.err
    assert (
        "--mix-bytes needs --mix" in chainrule("train", "uniform", corpus, "-o", tmp_path / "x", "--mix-bytes", 3).err
    )
    again = chainrule("train", "uniform", "-o", tmp_path / "again", "--json", "--mix-seed", 1, *mixed)
    assert again.json["mix"]["texts"][0] != result.json["mix"]["texts"][0]


def test_every_kind_of_text_can_be_trained_on(chainrule, corpus: Path, tmp_path: Path) -> None:
    lines = corpus.read_text().splitlines()[:50]
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "1.txt").write_text("\n".join(lines[:20]))
    (texts / "2.jsonl.gz").write_bytes(
        gzip.compress("".join(json.dumps({"text": line}) + "\n" for line in lines[20:]).encode())
    )
    result = chainrule("train", "uniform", texts, "-o", tmp_path / "lm", "--json")
    assert result.json["documents"] == 50
    assert list(result.json["data"]) == [str(texts)]
    whole = chainrule("train", "uniform", texts / "1.txt", "--document", "file", "-o", tmp_path / "one", "--json")
    assert whole.json["documents"] == 1
    assert whole.json["reading"]["document"] == "file"


def test_a_compact_model_is_smaller_and_says_so_in_its_record(chainrule, fixtures: Path, tmp_path: Path) -> None:
    text = fixtures / "train.txt"
    fast = chainrule("train", "ngram", text, "-o", tmp_path / "fast", "--json").json
    small = chainrule("train", "ngram", text, "-o", tmp_path / "small", "--compact", "--json").json
    assert small["quantised"] is True
    assert "quantised" not in fast
    assert small["ngrams"] == fast["ngrams"]
    assert small["bytes"] < fast["bytes"]
    result = chainrule("train", "ngram", text, "-o", tmp_path / "small.arpa", "--compact")
    assert "an ARPA file has no compact form" in result.error
