"""Reading and writing ARPA, against KenLM's files and scores, hand arithmetic, and damaged files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from arpa_files import SMALL, assert_close, ngrams_in, ngrams_of, written
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

import chainrule
from chainrule.base.files import zstd
from chainrule.errors import ModelFormatError, OutputError
from chainrule.ngram.arpa import lines as arpa_source
from chainrule.ngram.arpa.read import read_arpa
from chainrule.ngram.arpa.write import write_arpa
from chainrule.ngram.models.table_models import NGramModel
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.tokenization.splitters import splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer, documents_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
KENLM_FILES = sorted(path.name for path in FIXTURES.glob("*.arpa.gz"))
SCORED = sorted(path.name.removesuffix(".scores.tsv.gz") for path in FIXTURES.glob("*.scores.tsv.gz"))


if TYPE_CHECKING:
    from collections.abc import Callable


def scored(path: Path, text: str) -> tuple[list[float], list[int]]:
    """log10 probabilities and matched lengths of one document."""
    table, vocabulary = read_arpa(path)
    model = NGramModel(table)
    ids = Tokenizer(splitter_named("whitespace"), vocabulary).encode_texts([text]).ids[:-1]
    log10 = model.score([ids])[0] / math.log(10)
    return log10.tolist(), model.match_lengths([ids])[0].tolist()


# Written by KenLM


@pytest.mark.parametrize("name", SCORED)
def test_scores_equal_kenlms(name: str) -> None:
    table, vocabulary = read_arpa(FIXTURES / f"{name}.arpa.gz")
    model = NGramModel(table)
    lines = (FIXTURES / "heldout.txt").read_text().split("\n")[:-1]
    documents = documents_of(Tokenizer(splitter_named("whitespace"), vocabulary).encode_texts(lines).ids)
    expected = gzip.decompress((FIXTURES / f"{name}.scores.tsv.gz").read_bytes()).decode().split("\n")[1:-1]
    rows = zip(documents, model.score(documents), model.match_lengths(documents), expected, strict=True)
    for document, scores, lengths, line in rows:
        total, tokens = line.split("\t")
        log10 = scores / math.log(10)
        fields = [token.rsplit(":", 2) for token in tokens.split(" ")]
        assert log10.sum() == pytest.approx(float(total), abs=1e-4)
        np.testing.assert_allclose(log10, [float(field[0]) for field in fields], rtol=0, atol=1e-5)
        assert lengths.tolist() == [int(field[1]) for field in fields]
        assert [int(token == UNKNOWN) for token in [*document, END]] == [int(field[2]) for field in fields]


@pytest.mark.parametrize("name", KENLM_FILES)
def test_reading_and_writing_keep_every_ngram(name: str, tmp_path: Path) -> None:
    original = gzip.decompress((FIXTURES / name).read_bytes()).decode()
    table, vocabulary = read_arpa(FIXTURES / name)
    assert_close(ngrams_of(table, vocabulary), ngrams_in(original))
    assert np.all(table.log_probs[1 + BEGIN] == -np.inf)
    path = tmp_path / "again.arpa"
    write_arpa(path, table, vocabulary)
    text = path.read_text()
    assert_close(ngrams_in(text), ngrams_in(original))
    again, same_vocabulary = read_arpa(path)
    assert same_vocabulary.tokens() == vocabulary.tokens()
    for name, array in again.arrays().items():  # bit by bit: numbers are written so that they read back the same
        np.testing.assert_array_equal(array, table.arrays()[name])

    def structure(arpa: str) -> list[str]:
        """All but the n-grams; and of those how many tabs there are, for the first is always there in this order."""
        return [line if "\t" not in line else "\t" * line.count("\t") for line in arpa.split("\n")]

    assert structure(text) == structure(original)


# By hand


def test_small_model_by_hand(tmp_path: Path) -> None:
    log10, lengths = scored(written(tmp_path, SMALL), "a b")
    assert log10 == pytest.approx([-0.5, -0.15, -0.2], abs=1e-6)  # <s> a; <s> a b; a b </s>
    assert lengths == [2, 3, 3]
    log10, lengths = scored(tmp_path / "m.arpa", "b c a")
    # backoff(<s>) + p(b); backoff(b) + p(<unk>); p(a), since <unk> has a back-off of 0; backoff(a) + p(</s>)
    assert log10 == pytest.approx([-0.125 - 1, -0.375 - 2, -0.5, -0.75 - 1.5], abs=1e-6)
    assert lengths == [1, 1, 1, 1]


def test_small_model_is_written_byte_by_byte(tmp_path: Path) -> None:
    """Each of its numbers is a short decimal, and its n-grams are in the order of the trie."""
    write_arpa(tmp_path / "again.arpa", *read_arpa(written(tmp_path, SMALL)))
    assert (tmp_path / "again.arpa").read_text() == SMALL


def test_missing_suffix_becomes_a_blank(tmp_path: Path) -> None:
    """a b c is there and b c is not, so that c after b matches two words, with the same probability as before."""
    text = SMALL.replace("ngram 1=5", "ngram 1=6").replace("-1\tb", "-1.25\tc\t-0.2\n-1\tb")
    text = text.replace("-0.2\ta b </s>", "-0.2\ta b c")
    messages: list[str] = []
    table, vocabulary = read_arpa(written(tmp_path, text), note=messages.append)
    assert table.level_sizes == (6, 5, 2)
    [message] = messages
    assert "m.arpa: 1 n-grams that longer ones begin or end with are missing from the file" in message
    # backoff(b) + p(c) = -0.375 - 1.25
    assert ngrams_of(table, vocabulary)["b", "c"] == pytest.approx((-1.625, 0), abs=1e-6)
    log10, lengths = scored(tmp_path / "m.arpa", "b c a")
    # backoff(<s>) + p(b); the blank; no back-off of the blank, backoff(c) + p(a); backoff(a) + p(</s>)
    assert log10 == pytest.approx([-1.125, -1.625, -0.7, -2.25], abs=1e-6)
    assert lengths == [1, 2, 1, 1]


def test_missing_context_becomes_a_blank_and_blanks_need_blanks(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 3=2", "ngram 3=2\nngram 4=1")
    text = text.replace("\\end\\", "\\4-grams:\n-0.05\tb b a a\n\n\\end\\")
    messages: list[str] = []
    table, vocabulary = read_arpa(written(tmp_path, text), note=messages.append)
    assert "m.arpa: 4 n-grams that longer ones begin or end with are missing" in messages[0]
    actual = ngrams_of(table, vocabulary)
    assert set(actual) - set(ngrams_in(text)) == {("b", "b", "a"), ("b", "a", "a"), ("b", "b"), ("a", "a")}
    assert actual["b", "b"] == pytest.approx((-0.375 - 1, 0), abs=1e-6)  # backoff(b) + p(b)
    assert actual["a", "a"] == pytest.approx((-0.75 - 0.5, 0), abs=1e-6)  # backoff(a) + p(a)
    assert actual["b", "b", "a"] == pytest.approx((0 - 0.75, 0), abs=1e-6)  # backoff(b b) + p(a|b)
    assert actual["b", "a", "a"] == pytest.approx((0 - 1.25, 0), abs=1e-6)  # backoff(b a) + p(a|a)
    log10, lengths = scored(tmp_path / "m.arpa", "b b a a")
    assert log10 == pytest.approx([-1.125, -1.375, -0.75, -0.05, -2.25], abs=1e-6)
    assert lengths == [1, 2, 3, 4, 1]


def test_orphans_at_several_orders_keep_their_numbers(tmp_path: Path) -> None:
    """Both a a b and its extension are there, but not a a."""
    text = SMALL.replace("ngram 3=2", "ngram 3=3\nngram 4=1").replace(
        "-0.2\ta b </s>", "-0.2\ta b </s>\n-0.4\ta a b\t-0.3"
    )
    text = text.replace("\\end\\", "\\4-grams:\n-0.05\ta a b a\n\n\\end\\")
    actual = ngrams_of(*read_arpa(written(tmp_path, text)))
    assert actual["a", "a", "b"] == pytest.approx((-0.4, -0.3), abs=1e-6)
    assert actual["a", "a"] == pytest.approx((-1.25, 0), abs=1e-6)
    assert actual["a", "b", "a"] == pytest.approx((-0.1 - 0.75, 0), abs=1e-6)  # backoff(a b) + p(a|b)


# What other programs write


def shuffled(text: str) -> str:
    """The lines of each section in another order."""
    sections = text.split("\n\n")
    for i, section in enumerate(sections[1:-1], start=1):
        title, *lines = section.split("\n")
        sections[i] = "\n".join([title, *lines[::-1]])
    return "\n\n".join(sections)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t", " "),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n\n", "\n\n \t\n\n"),
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text.replace("\t0\n", "\n"),
        lambda text: text.replace("\t0\n", "\t-0\n").replace("\n0\t", "\n+0\t"),
        lambda text: text.replace("-2\t", "-0.2E+1\t").replace("-0.75\t", "-75e-2\t").replace("-0.25", "-.25"),
        lambda text: "a comment\n\n" + text.replace("ngram 1=5", "ngram  1 =   5"),
        lambda text: "\ufeff" + text + "what follows does not matter",
        lambda text: text.replace("<unk>", "<UNK>"),
        lambda text: text.removesuffix("\n"),
        shuffled,
    ],
)
def test_odd_but_fine(change: Callable[[str], str], tmp_path: Path) -> None:
    expected = ngrams_of(*read_arpa(written(tmp_path, SMALL)))
    assert_close(ngrams_of(*read_arpa(written(tmp_path, change(SMALL)))), expected)


def test_ids_follow_the_file(tmp_path: Path) -> None:
    _, vocabulary = read_arpa(written(tmp_path, shuffled(SMALL)))
    assert vocabulary.tokens() == [b"<unk>", b"<s>", b"</s>", b"b", b"a"]


def test_other_name_of_unknown_within_ngrams(tmp_path: Path) -> None:
    text = SMALL.replace("<unk>", "<UNK>").replace("b a\t0", "b <UNK>\t0")
    assert ngrams_of(*read_arpa(written(tmp_path, text)))["b", "<unk>"] == pytest.approx((-0.75, 0), abs=1e-6)


def test_both_names_of_unknown_are_two_words(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 1=5", "ngram 1=6").replace("-2\t<unk>", "-3\t<UNK>\t0\n-2\t<unk>")
    _, vocabulary = read_arpa(written(tmp_path, text))
    assert vocabulary.tokens() == [b"<unk>", b"<s>", b"</s>", b"<UNK>", b"a", b"b"]


def test_no_unknown_is_reported(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 1=5", "ngram 1=4").replace("-2\t<unk>\t0\n", "")
    messages: list[str] = []
    actual = ngrams_of(*read_arpa(written(tmp_path, text), warn=messages.append))
    assert actual["<unk>",] == pytest.approx((-100, 0))
    assert len(messages) == 1
    assert "<unk>" in messages[0]
    with pytest.warns(UserWarning, match="no <unk>"):
        read_arpa(tmp_path / "m.arpa")


def test_begin_inside_an_ngram_is_dropped_and_noted(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 2=4", "ngram 2=5").replace("-0.3\tb </s>\t0", "-0.3\tb </s>\t0\n-1\ta <s>\t0")
    messages: list[str] = []
    table, vocabulary = read_arpa(written(tmp_path, text), warn=messages.append)
    assert_close(ngrams_of(table, vocabulary), ngrams_in(SMALL))
    assert messages == [f"{tmp_path / 'm.arpa'}: 1 2-grams with <s> after the first word are dropped"]


def test_minus_infinity(tmp_path: Path) -> None:
    """As lmplz writes it: -99 would read back as that. A back-off of it would make nan of differences, so it is -99."""
    text = SMALL.replace("-0.3\tb </s>", "-inf\tb </s>").replace("-0.25\ta b\t-0.1", "-99\ta b\t-INF")
    actual = ngrams_of(*read_arpa(written(tmp_path, text)))
    assert actual["b", "</s>"][0] == -np.inf
    assert actual["a", "b"] == pytest.approx((-99, -99))
    write_arpa(tmp_path / "again.arpa", *read_arpa(tmp_path / "m.arpa"))
    assert "\n-inf\tb </s>\t0\n" in (tmp_path / "again.arpa").read_text()
    assert ngrams_of(*read_arpa(tmp_path / "again.arpa")) == actual


@pytest.mark.parametrize(
    ("suffix", "decompress"),
    [(".gz", gzip.decompress), (".zst", zstd.decompress), (".xz", lzma.decompress), (".bz2", bz2.decompress)],
)
def test_compressed(suffix: str, decompress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"m.arpa{suffix}"
    write_arpa(path, *read_arpa(written(tmp_path, SMALL)))
    assert decompress(path.read_bytes()).decode() == SMALL
    assert_close(ngrams_of(*read_arpa(path)), ngrams_in(SMALL))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelFormatError, match=r"damaged|cut short"):
        read_arpa(path)


def test_small_blocks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = gzip.decompress((FIXTURES / "order3.arpa.gz").read_bytes())
    expected = read_arpa(written(tmp_path, original))
    monkeypatch.setattr(arpa_source, "BLOCK_BYTES", 1000)
    table, vocabulary = read_arpa(tmp_path / "m.arpa")
    assert vocabulary.tokens() == expected[1].tokens()
    for name, array in expected[0].arrays().items():
        np.testing.assert_array_equal(table.arrays()[name], array)


def test_long_words(tmp_path: Path) -> None:
    """Longer than the room that a line is given in a buffer."""
    text = SMALL.replace("a", "a" * 3_000_000).replace("\\d" + "a" * 3_000_000 + "t" + "a" * 3_000_000, "\\data")
    text = text.replace("gr" + "a" * 3_000_000 + "m", "gram")
    write_arpa(tmp_path / "again.arpa", *read_arpa(written(tmp_path, text)))
    assert (tmp_path / "again.arpa").read_text() == text


def test_an_empty_order(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 3=2", "ngram 3=0").replace("-0.15\t<s> a b\n-0.2\ta b </s>\n", "")
    table, vocabulary = read_arpa(written(tmp_path, text))
    assert table.level_sizes == (5, 4, 0)
    assert scored(tmp_path / "m.arpa", "a b")[0] == pytest.approx([-0.5, -0.0625 - 0.25, -0.1 - 0.3], abs=1e-6)
    write_arpa(tmp_path / "again.arpa", table, vocabulary)
    assert (tmp_path / "again.arpa").read_text() == text


# What is wrong


@examples(2)
@given(
    ngrams=st.lists(
        st.lists(st.sampled_from(["<s>", "</s>", "<unk>", "a", "b"]), min_size=2, max_size=4).map(tuple), unique=True
    ),
    in_suffix_order=st.booleans(),
)
def test_any_ngrams_are_closed(
    ngrams: list[tuple[str, ...]], in_suffix_order: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against an oracle that follows the definition: all suffixes and contexts, and back-off word by word."""
    if in_suffix_order:
        words = ["<unk>", "<s>", "</s>", "a", "b"]  # by id
        ngrams = sorted(ngrams, key=lambda ngram: [words.index(word) for word in reversed(ngram)])
    kept = [ngram for ngram in ngrams if "<s>" not in ngram[1:]]
    numbers = {ngram: (-0.01 * (i + 1), 0.125 * (i % 5) if len(ngram) < 4 else 0.0) for i, ngram in enumerate(kept)}
    numbers |= {(word,): (-1.0 - i, 0.25 * i) for i, word in enumerate(["<unk>", "<s>", "</s>", "a", "b"])}
    lines = {n: [ngram for ngram in numbers if len(ngram) == n] for n in range(1, 5)}
    text = "\\data\\\n" + "".join(f"ngram {n}={len(lines[n])}\n" for n in lines)
    for n, members in lines.items():
        text += f"\n\\{n}-grams:\n"
        for ngram in members:
            log10_prob, log10_backoff = numbers[ngram]
            text += f"{log10_prob}\t{' '.join(ngram)}" + (f"\t{log10_backoff}" if n < 4 else "") + "\n"
    path = written(tmp_path_factory.getbasetemp(), text + "\n\\end\\\n", "closed.arpa")

    expected = dict(numbers)
    for n in (4, 3):
        for ngram in [ngram for ngram in expected if len(ngram) == n]:
            for part in (ngram[1:], ngram[:-1]):
                expected.setdefault(part, (math.nan, 0.0))
    for n in (2, 3):
        for ngram in [ngram for ngram in expected if len(ngram) == n and math.isnan(expected[ngram][0])]:
            expected[ngram] = (expected[ngram[:-1]][1] + expected[ngram[1:]][0], 0.0)
    assert_close(ngrams_of(*read_arpa(path)), expected, 1e-5)


# Writing


def test_interrupted_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text("old")
    table, vocabulary = read_arpa(FIXTURES / "order3.arpa.gz")

    def interrupt(task: str, done: float, total: float | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_arpa(path, table, vocabulary, interrupt)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["m.arpa"]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    model = read_arpa(written(tmp_path, SMALL))
    for path in (tmp_path / "none" / "m.arpa", tmp_path):
        with pytest.raises(OutputError, match=str(path)):
            write_arpa(path, *model)
    assert os.listdir(tmp_path) == ["m.arpa"]


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    table, vocabulary = read_arpa(written(tmp_path, SMALL))
    table.words[table.level(2)] = 1000
    with pytest.raises(ModelFormatError, match="damaged"):
        write_arpa(tmp_path / "again.arpa", table, vocabulary)
    assert os.listdir(tmp_path) == ["m.arpa"]


def test_probabilities_above_one_by_rounding_are_written_as_one(tmp_path: Path) -> None:
    table, vocabulary = read_arpa(written(tmp_path, SMALL))
    table.log_probs[-1] = 1e-8
    write_arpa(tmp_path / "again.arpa", table, vocabulary)
    assert "\n0\ta b </s>\n" in (tmp_path / "again.arpa").read_text()


@pytest.mark.parametrize(("name", "value"), [("log_probs", np.nan), ("log_backoffs", np.nan), ("log_backoffs", np.inf)])
def test_a_table_with_what_is_no_number_is_not_written(tmp_path: Path, name: str, value: float) -> None:
    model = chainrule.train(chainrule.Lines(["a b", "b a"]), chainrule.NGramConfig(order=2))
    getattr(model.language_model.table, name)[4] = value
    with pytest.raises(ModelFormatError, match="an impossible word, node or number"):
        model.save(tmp_path / "lm.arpa")
    assert not list(tmp_path.iterdir())
