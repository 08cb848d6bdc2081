"""chainrule count, and train ngram --counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


def test_a_model_is_trained_from_counts(chainrule, corpus, tmp_path: Path) -> None:
    counts = tmp_path / "counts.txt.gz"
    result = chainrule("count", corpus, "-o", counts, "--order", 3, "--tokenizer", "whitespace")
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].startswith(f"{counts}: 14,224 n-grams of ")
    assert result.lines[1] == "by order 1: 337, 2: 4,259, 3: 9,628"
    assert "exists already" in chainrule("count", corpus, "-o", counts).error
    again = chainrule("count", corpus, "-o", counts, "--order", 3, "--tokenizer", "whitespace", "--overwrite", "--json")
    assert again.json["ngrams"] == [337, 4259, 9628]
    assert sum(again.json["ngrams"]) == again.json["lines"] == 14224
    trained = chainrule("train", "ngram", "--counts", counts, "-o", tmp_path / "lm", "--order", 3)
    assert trained.status == 0
    assert "12,143 tokens in 1,200 documents" in trained.lines[0]
    assert library.load(tmp_path / "lm").tokenizer.name == "whitespace"


def test_texts_and_counts_exclude_each_other_and_a_file_is_not_summed_twice(chainrule, corpus, tmp_path: Path) -> None:
    counts = tmp_path / "counts.txt"
    chainrule("count", corpus, "-o", counts, "--order", 2)
    train = ("train", "ngram", "-o", tmp_path / "lm", "--order", 2)
    assert "TEXTS and --counts are both given" in chainrule(*train, corpus, "--counts", counts).error
    assert f"--counts names {counts} twice" in chainrule(*train, "--counts", counts, counts).error
    assert "there are no 4-grams in it" in chainrule(*train[:4], "--counts", counts, "--order", 4).error
    assert "cannot be read" in chainrule(*train, "--counts", tmp_path / "none").error
    assert not (tmp_path / "lm").exists()


def test_a_note_names_the_tokenizer_of_counts_without_one(chainrule, tmp_path: Path) -> None:
    counts, lm = tmp_path / "c", tmp_path / "lm"
    train = ("train", "ngram", "--counts", counts, "-o", lm, "--overwrite", "--order", 1, "--smoothing", "laplace")
    counts.write_text("a\t4\nb\t3\n</s>\t2\n")
    assert chainrule(*train).err == (
        "note: the tokenizer is whitespace: the counted words have no marks of a tokenizer, "
        "and no --tokenizer was given\n"
    )
    for said in ("word", "whitespace", "character"):
        assert chainrule(*train, "--tokenizer", said).err == ""
        assert library.load(lm).tokenizer.name == said
    counts.write_text("a\t4\n\uffed,\t3\n</s>\t2\n")
    assert "the tokenizer is word: the counted words have its marks" in chainrule(*train).err


def test_words_are_no_counts_of_characters_or_bytes(chainrule, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a\t4\na ka\t1\nka\t3\n<unk>\t1\n</s>\t2\n")
    train = ("train", "ngram", "--counts", tmp_path / "c", "-o", tmp_path / "lm", "--order", 2)
    for name in ("character", "byte"):
        message = f"c, line 3: 'ka' is not a token of the {name} tokenizer, so no text would ever match it"
        assert message in chainrule(*train, "--tokenizer", name).error
    assert not (tmp_path / "lm").exists()


def test_one_of_a_thing_is_singular_and_tables_in_a_folder_are_noted(chainrule, tmp_path: Path) -> None:
    (tmp_path / "texts" / ".hidden").mkdir(parents=True)
    for name in ("a.txt", "b.csv", ".hidden/c.csv"):
        (tmp_path / "texts" / name).write_text("a\n")
    result = chainrule("count", tmp_path / "texts", "-o", tmp_path / "counts.txt", "--order", 2)
    assert result.lines == [
        f"{tmp_path}/counts.txt: 5 n-grams of 1 token in 1 document",
        "by order 1: 3, 2: 2",
    ]  # <s>, a, </s>, and no <unk>
    assert (
        result.err
        == f"note: {tmp_path}/texts: 1 .csv file not read; --suffixes .txt .csv reads such files of folders\n"
    )
