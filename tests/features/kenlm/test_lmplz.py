"""chainrule lmplz: what KenLM's lmplz writes, for the flags that it has."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest
from oracles import parsed_arpa

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = {  # by file, how lmplz was asked for it, from train.txt
    "order1": ["-o", "1"],
    "order3": ["--order", "3", "-S", "80%", "-T", "/tmp", "--minimum_block", "8K", "--vocab_estimate", "1000"],
    "order3-no-unigram-interpolation": ["-o", "3", "--interpolate_unigrams", "0"],
    "order4-pruned-0-1-1-2": ["-o", "4", "--prune", "0", "1", "1", "2", "--interpolate_unigrams"],
    "order2-fallback": ["-o", "2", "--discount_fallback"],
    "order5-fallback": ["-o", "5", "--discount_fallback", "0.5", "1", "1.5", "--skip_symbols"],
}
WRITTEN_OF_LITTLE = {  # the same, from kenlm/small.txt
    "limited": ["-o", "3", "--discount_fallback", "--limit_vocab_file", "kenlm/some-words.txt"],
    "no-singletons": ["-o", "3", "--prune", "1", "--discount_fallback", "0.4", "0.9"],
    "padded": ["-o", "2", "--vocab_pad", "1000", "--discount_fallback", "0.3", "--verbose_header"],
}


def assert_same(found: Path, expected: Path) -> None:
    ours, theirs = parsed_arpa(found), parsed_arpa(expected)
    assert ours.keys() == theirs.keys()
    for ngram, numbers in theirs.items():
        assert ours[ngram] == pytest.approx(numbers, abs=1e-5)


@pytest.mark.parametrize("name", WRITTEN)
def test_it_writes_what_lmplz_does(name: str, chainrule, fixtures: Path, tmp_path: Path) -> None:
    written = tmp_path / "model.arpa"
    flags = [*WRITTEN[name], "--text", fixtures / "train.txt", "--arpa", written]
    assert chainrule("lmplz", *flags) == (0, "", "")
    (tmp_path / "model.arpa.gz").write_bytes(gzip.compress(written.read_bytes()))
    assert_same(tmp_path / "model.arpa.gz", fixtures / f"{name}.arpa.gz")
    assert "\n0\t<s>" in written.read_text()


@pytest.mark.parametrize("name", WRITTEN_OF_LITTLE)
def test_it_writes_what_lmplz_does_of_a_little_text(
    name: str, chainrule, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fixtures)
    flags = [*WRITTEN_OF_LITTLE[name], "--text", "kenlm/small.txt"]
    assert chainrule("lmplz", *flags, "--arpa", tmp_path / "model.arpa") == (0, "", "")
    ours, theirs = (folder.read_bytes() for folder in (tmp_path / "model.arpa", fixtures / f"kenlm/{name}.arpa"))
    assert ours.startswith(b"# Input file: ") == theirs.startswith(b"# Input file: ") == (name == "padded")
    for file, data in (("ours", ours), ("theirs", theirs)):
        (tmp_path / f"{file}.arpa.gz").write_bytes(gzip.compress(data[data.index(b"\\data\\") :]))
    assert_same(tmp_path / "ours.arpa.gz", tmp_path / "theirs.arpa.gz")


def test_the_last_n_gram_by_suffix_may_be_filled_with_begins(chainrule, fixtures: Path, tmp_path: Path) -> None:
    """lmplz takes its suffixes with their raw counts, and of few words it is shorter than the order without <s>."""
    flags = ["-o", "6", "--discount_fallback", "--text", fixtures / "kenlm/few-words.txt"]
    assert chainrule("lmplz", *flags, "--arpa", tmp_path / "ours.arpa") == (0, "", "")
    for name, path in (("ours", tmp_path / "ours.arpa"), ("theirs", fixtures / "kenlm/few-words.arpa")):
        (tmp_path / f"{name}.arpa.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert_same(tmp_path / "ours.arpa.gz", tmp_path / "theirs.arpa.gz")


def test_words_of_a_vocabulary_are_parted_as_kenlm_parts_them(chainrule, tmp_path: Path) -> None:
    """At NUL, tab, newline, return and space, and not at vertical tab and form feed."""
    (tmp_path / "text").write_bytes(b"a b\vc d\fe f\n")
    (tmp_path / "words").write_bytes(b"a\0b\vc\td\fe\r")
    flags = ["-o", "1", "--discount_fallback", "--text", tmp_path / "text"]
    result = chainrule("lmplz", *flags, "--limit_vocab_file", tmp_path / "words", "--arpa", tmp_path / "lm.arpa")
    assert result == (0, "", "")
    words = {line.split(b"\t")[1] for line in (tmp_path / "lm.arpa").read_bytes().split(b"\n") if b"\t" in line}
    assert words == {b"<unk>", b"<s>", b"</s>", b"a", b"b\vc", b"d\fe"}


def test_a_last_line_without_its_newline_is_noted(chainrule, stdin, tmp_path: Path) -> None:
    flags = ["-o", "2", "--discount_fallback", "--arpa", tmp_path / "lm.arpa"]
    (tmp_path / "text").write_text("a b\nc")
    for given in (["--text", tmp_path / "text"], []):
        stdin(b"a b\nc")
        result = chainrule("lmplz", *flags, *given)
        assert result.status == 0
        name = given[-1] if given else "-"
        assert result.err == (
            f"note: {name}: the last line has no newline; it is counted with its </s>, which KenLM's lmplz leaves out\n"
        )
    (tmp_path / "text").write_text("a b\nc\n")
    assert chainrule("lmplz", *flags, "--text", tmp_path / "text").err == ""


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["-o", "5"], 1, "no 5-gram has an adjusted count of 3.*--discount_fallback"),
        (["-o", "2", "--text", "none.txt"], 1, "none.txt"),
        (["-o", "2", "--limit_vocab_file", "none.txt"], 1, "none.txt: cannot be read"),
        (["-o", "2", "--collapse_values"], 1, "--collapse_values writes files for other programs of KenLM"),
        (["-o", "2", "--intermediate", "x"], 1, "--intermediate writes files for other programs of KenLM"),
        (["-o", "2", "--prune", "1", "0"], 1, "--prune is 1 0; expected at most 2 numbers, one for each order"),
        (["-o", "2", "--discount_fallback", "1", "1", "1", "1"], 1, "at most three numbers"),
        (["-o", "2", "--discount_fallback", "3"], 1, "for counts of 1, 2 and 3 or more: at most 1, 2 and 3"),
        (["-o", "2", "--interpolate_unigrams", "perhaps"], 2, "takes 0 or 1, not perhaps"),
        (["-o", "2", "--vocab_pad", "9", "--interpolate_unigrams", "0"], 1, "--vocab_pad needs interpolated unigrams"),
        (["-o", "two"], 2, "takes whole numbers, not two"),
        ([], 2, "--order"),
        (["-o", "2", "--bad"], 2, "--bad"),
    ],
)
def test_wrong_arguments_are_errors(flags: list[str], status: int, message: str, chainrule, fixtures: Path) -> None:
    given = flags if "--text" in flags else [*flags, "--text", fixtures / "train.txt"]
    result = chainrule("lmplz", *given)
    assert result.status == status
    assert re.search(message, result.error)


def test_python_has_it_too(chainrule, fixtures: Path, tmp_path: Path) -> None:
    import chainrule as library

    flags = ["-o", "3", "--prune", "0", "1", "--text", fixtures / "train.txt", "--arpa", tmp_path / "verb.arpa"]
    assert chainrule("lmplz", *flags).status == 0
    library.lmplz(fixtures / "train.txt", tmp_path / "python.arpa", order=3, prune=[0, 1])
    assert (tmp_path / "python.arpa").read_bytes() == (tmp_path / "verb.arpa").read_bytes()


def test_symbols_in_a_text_are_an_error_or_skipped(chainrule, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a <s> b\n")
    flags = ["-o", "2", "--discount_fallback", "--text", tmp_path / "text"]
    assert "<s> occurs in the text" in chainrule("lmplz", *flags).error
    assert chainrule("lmplz", *flags, "--skip_symbols", "--arpa", tmp_path / "model.arpa").status == 0
    assert "-0.5351132" in (tmp_path / "model.arpa").read_text()  # as lmplz has it
