"""KenLM's binaries: they hold what is in the ARPA file that they were built from; damaged files are errors."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.kenlm.files.binary import open_binary
from chainrule.features.kenlm.files.read import read_binary
from chainrule.ngram.arpa.read import read_arpa
from chainrule.ngram.models.table_models import NGramModel

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.ngram.trie.table import Table
    from chainrule.text.tokenization.vocabulary import Vocabulary

ORDER, MULTIPLIER, KIND, HAS_WORDS, VERSION, COUNTS = 88, 92, 96, 100, 104, 108  # offsets in the header


@pytest.fixture
def folder(fixtures: Path) -> Path:
    return fixtures / "kenlm"


def numbers_of(table: Table, vocabulary: Vocabulary) -> dict[tuple[bytes, ...], tuple[float, float]]:
    tokens = vocabulary.tokens()
    ngrams: dict[int, tuple[bytes, ...]] = {0: ()}
    for context in range(table.begin.size - 1):
        for node in range(table.begin[context], table.begin[context + 1]):
            ngrams[node] = (*ngrams[context], tokens[table.words[node]])
    backoffs = np.append(table.log_backoffs, np.zeros(table.words.size - table.log_backoffs.size))
    return {ngrams[node]: (float(table.log_probs[node]), float(backoffs[node])) for node in list(ngrams)[1:]}


@pytest.mark.parametrize(
    ("name", "largest"), [("trie", 1e-6), ("array", 1e-6), ("quantised-array", 0.2), ("quantised", 2.0)]
)
def test_a_trie_holds_what_the_arpa_file_does(folder: Path, name: str, largest: float) -> None:
    """Of quantised numbers, one for each of 2^8 (2^4) values; that each is the right one, the scores of KenLM show."""
    model, vocabulary = read_binary(folder / f"{name}.binary")
    assert isinstance(model, NGramModel)
    actual = numbers_of(model.table, vocabulary)
    expected = numbers_of(*read_arpa(folder / "small.arpa"))
    assert actual.keys() == expected.keys()
    for ngram, numbers in expected.items():
        np.testing.assert_allclose(actual[ngram], numbers, rtol=0, atol=largest)


def test_a_trie_is_converted(folder: Path, tmp_path: Path) -> None:
    model = chainrule.load(folder / "trie.binary")
    assert model.record["ngrams"] == [79, 143, 133, 118]  # five blanks among the bigrams
    model.save(tmp_path / "lm")
    model.save(tmp_path / "again.arpa")
    scores = model.score(["ka vi nin bu gi", "zzz", ""])
    assert np.array_equal(chainrule.load(tmp_path / "lm").score(["ka vi nin bu gi", "zzz", ""]), scores)
    assert chainrule.load(tmp_path / "again.arpa").score(["ka vi nin bu gi", "zzz", ""]) == pytest.approx(scores)


def test_a_hash_table_is_asked_as_it_is(folder: Path) -> None:
    model, table = chainrule.load(folder / "probing.binary"), chainrule.load(folder / "small.arpa")
    texts = (folder / "small.txt").read_text().splitlines()
    assert model.score(texts) == pytest.approx(table.score(texts), abs=1e-5)
    ours, theirs = (m.evaluate(chainrule.Lines(texts)).as_json() for m in (model, table))
    assert ours["perplexity"] == pytest.approx(theirs["perplexity"], rel=1e-5)
    assert [token for token, _ in model.next("ka", 5)] == [token for token, _ in table.next("ka", 5)]
    assert [text.text for text in model.beam("ka")] == [text.text for text in table.beam("ka")]
    assert model.generate("ka", 2, seed=5) == model.generate("ka", 2, seed=5)


def test_markers_may_have_any_number(folder: Path) -> None:
    """In a trie, words are numbered by hash, so that <s> is somewhere among them."""
    for name in ("probing", "trie"):
        _, vocabulary = read_binary(folder / f"{name}.binary")
        assert vocabulary.tokens()[:3] == [b"<unk>", b"<s>", b"</s>"]


def broken(folder: Path, tmp_path: Path, name: str, position: int, new: bytes) -> Path:
    data = bytearray((folder / f"{name}.binary").read_bytes())
    data[position : position + len(new)] = new
    path = tmp_path / "broken.binary"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "position", "new", "message"),
    [
        ("trie", 49, b"4", "format version 4 of KenLM's binaries, expected 5; build it again from its ARPA file"),
        ("trie", 33, b" incomplete\n", "did not finish building"),
        ("trie", 33, b" formal", "expected the first line of a KenLM binary"),
        ("trie", 56, struct.pack(">3f3IQ", 0, 1, -0.5, 1, 2**32 - 1, 0, 1), "a machine with the other byte order"),
        ("trie", 60, b"\0\0\0\0", "test values that no 64-bit machine writes"),
        ("trie", ORDER, b"\1", "an order of 1, expected 2 to 24"),
        ("trie", ORDER, b"\x19", "an order of 25, expected 2 to 24"),
        ("trie", ORDER, b"\3", "expected"),
        ("trie", ORDER, b"\5", "n-grams by order in its header, expected counts that fit a file of"),
        ("trie", MULTIPLIER, b"\0\0\xc0\x7f", "a multiplier of nan"),
        ("trie", KIND, b"\6", "data structure 6, expected 0 to 5"),
        ("trie", KIND, b"\0", "version 1 of the probing layout, expected version 0"),
        ("trie", KIND, b"\3", "version 0 of quantisation|numbers of|expected"),
        ("trie", HAS_WORDS, b"\0", "hashes of words only, expected the words"),
        ("trie", VERSION, b"\2", "version 2 of the trie layout, expected version 1"),
        ("trie", COUNTS, b"\x50", "expected"),
        ("trie", COUNTS + 8, b"\xff" * 8, "n-grams by order in its header"),
        ("trie", COUNTS + 8, b"\x00\x08", "or more for the n-grams of the header"),
        ("probing", COUNTS + 8, b"\x00\x03", "or more for the n-grams of the header"),
        ("probing", COUNTS, b"\x40", "a vocabulary size of 79, expected 64"),
        ("probing", MULTIPLIER, b"\0\0\0\x40", "expected"),
        ("probing", 144, b"\1", "version 1 of the hashed vocabulary, expected version 0"),
        ("probing", 148, b"\1", "a vocabulary size of 1, expected 79"),
    ],
)
def test_a_damaged_binary_is_an_error(
    folder: Path, tmp_path: Path, name: str, position: int, new: bytes, message: str
) -> None:
    with pytest.raises(ModelFormatError, match=message) as raised:
        chainrule.load(broken(folder, tmp_path, name, position, new))
    assert "broken.binary: " in str(raised.value)


def test_a_truncated_binary_is_an_error(folder: Path, tmp_path: Path) -> None:
    for name in ("trie", "probing", "quantised-array"):
        data = (folder / f"{name}.binary").read_bytes()
        for stop in (*range(33, 200, 7), *range(200, len(data), 97), len(data) - 1):
            (tmp_path / "cut").write_bytes(data[:stop])
            with pytest.raises(ModelFormatError, match="cut: found"):
                chainrule.load(tmp_path / "cut")
        (tmp_path / "cut").write_bytes(data + b"more\0")
        with pytest.raises(ModelFormatError, match="80 words at the end, expected 79"):
            chainrule.load(tmp_path / "cut")


def test_a_file_without_words_says_so(folder: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"hashes of words only, .+ without the option -v of build_binary"):
        chainrule.load(folder / "wordless.binary")


def test_words_are_checked(folder: Path, tmp_path: Path) -> None:
    data = (folder / "trie.binary").read_bytes()
    start = data.rindex(b"<unk>\0")
    for old, new, message in (
        (b"<unk>\0", b"<unK>\0", "as the first word, expected <unk>"),
        (b"\0<s>\0", b"\0<z>\0", "no <s>, or several, among the words"),
        (b"\0ka\0", b"\0k \0", "a word that is empty or contains white space"),
        (b"\0ka\0", b"\0k\xff\0", "not UTF-8"),
        (b"\0ka\0", b"\0vi\0", "'vi' twice"),
        (b"\0ka\0", b"\0k\0a\0", "words at the end, expected 79"),
    ):
        (tmp_path / "broken").write_bytes(data[:start] + data[start:].replace(old, new))
        with pytest.raises(ModelFormatError, match=message):
            chainrule.load(tmp_path / "broken")


def test_hash_tables_are_not_converted(folder: Path, tmp_path: Path) -> None:
    for target in ("lm", "model.arpa"):
        with pytest.raises(SettingError, match="hashes of n-grams instead of their words"):
            chainrule.load(folder / "probing.binary").save(tmp_path / target)
    assert [*tmp_path.iterdir()] == []


def test_a_binary_needs_no_suffix_and_other_files_do(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes((fixtures / "kenlm/trie.binary").read_bytes())
    assert chainrule.load(tmp_path / "model").vocabulary_size == 79
    with pytest.raises(ModelFormatError, match="a binary of KenLM's"):
        chainrule.load(fixtures / "train.txt")
    assert open_binary(tmp_path / "model").kind == 2
