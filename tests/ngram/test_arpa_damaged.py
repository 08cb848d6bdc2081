"""ARPA files that are damaged, cut off or not ARPA at all: clear errors, and no memory for what they claim."""

from __future__ import annotations

import gzip
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from arpa_files import SMALL, assert_close, ngrams_in, ngrams_of, written
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import ModelFormatError
from chainrule.ngram.arpa import lines as arpa_source
from chainrule.ngram.arpa.read import read_arpa
from chainrule.ngram.models.table_models import NGramModel
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-0.5\ta\t", "0.5\ta\t", r"line 10: found '0.5', expected a log10 probability of at most 0; correct"),
        ("-0.5\ta\t", "1e-5\ta\t", "line 10: found '1e-5'"),
        ("-0.5\ta\t", "nan\ta\t", "line 10: found 'nan'"),
        ("-0.5\ta\t", "inf\ta\t", "line 10: found 'inf'"),
        ("-0.5\ta\t", "-0.5x\ta\t", "line 10: found '-0.5x'"),
        ("-0.5\ta\t-0.75", "-0.5\ta\tNaN", "line 10: found 'NaN', expected a log10 backoff"),
        ("-0.5\ta\t-0.75", "-0.5\ta\t38.1", r"line 10: found '38.1', expected a log10 backoff from -1e\+30 to 38"),
        ("-0.5\ta\t-0.75", "-0.5\ta\t-1e31", "line 10: found '-1e31', expected a log10 backoff"),
        ("-0.25\ta b\t", "-0.25\na b\t", "line 15: found '-0.25', expected a log10 probability and 2 words"),
        ("-0.15\t<s> a b", "-0.15\t<s> a b\t-0.1", "line 20: found '-0.1', expected no backoff at the highest order"),
        ("-0.5\ta\t-0.75", "-0.5", "line 10: found '-0.5', expected a log10 probability and 1 word"),
        ("-0.25\ta b\t", "-0.25\ta b a\t", "line 15: found 'a', expected a log10 backoff"),
        ("-0.25\ta b\t", "-0.25\ta b\t-1 ", r"line 15: found '-0.25.*, expected a log10 probability, 2 words"),
        ("-0.25\ta b\t", "-0.25\ta x\t", "line 15: found 'x', expected a word that is among the 1-grams"),
        ("-0.2\ta b </s>", "-0.2\ta <UNK> </s>", "line 21: found '<UNK>'"),
        ("-0.75\tb a", "-0.75\ta b", "line 13: found the 2-gram 'a b' twice"),
        ("-1\tb\t", "-1\ta\t", "line 6: found the word 'a' twice"),
        ("-1\tb\t", "-1\t</s>\t", "line 6: found the word '</s>' twice"),
        ("<s>\t", "s\t", "line 6: found no <s> among the 1-grams"),
        ("</s>\t", "/s\t", "line 6: found no </s> among the 1-grams"),
        ("ngram 2=4", "ngram 2=3", "line 13: found 4 2-grams or more, expected 3"),
        ("ngram 2=4", "ngram 2=5", "line 13: found 4 2-grams, expected 5"),
        ("ngram 3=2", "ngram 3=9", "line 19: found 2 3-grams, expected 9"),
        ("ngram 2=4", f"ngram 2={10**15}", f"line 3: found 'ngram 2={10**15}', expected fewer n-grams in a file of"),
        ("ngram 2=4", f"ngram 2={10**40}", "line 3: found 'ngram 2=1000"),
        ("ngram 2=4\n", "", "line 3: found 'ngram 3=2', expected 'ngram 2='"),
        ("ngram 1=5\nngram 2=4\nngram 3=2\n", "", "line 2: found no counts of n-grams"),
        (
            "ngram 3=2",
            "".join(f"ngram {n}=0\n" for n in range(3, 26)),
            "line 26: found an order of 25, expected at most 24",
        ),
        ("\\2-grams:", "\\3-grams:", r"line 13: found '\\\\3-grams:', expected \\2-grams:"),
        ("\\end\\\n", "", r"line 22: found the end of the file, expected \\end\\; the file is cut short"),
        ("\\end\\", "\\4-grams:", r"line 23: found .*4-grams:', expected \\end\\"),
        ("\\data\\", "", r"line 6: found .*, expected \\data\\|the end of the file, expected \\data\\"),
        ("\n\\3-grams:", "\\3-grams", r"line 18: found .*, expected \\3-grams:"),
    ],
)
def test_broken_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in SMALL
    with pytest.raises(ModelFormatError, match=message) as error:
        read_arpa(written(tmp_path, SMALL.replace(old, new, 1)))
    assert str(error.value).startswith(f"{tmp_path / 'm.arpa'}, line ")


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"line 10: found .*, expected UTF-8"):
        read_arpa(written(tmp_path, SMALL.encode().replace(b"\ta\t", b"\t\xe9\t")))


def test_an_orphan_that_is_there_twice(tmp_path: Path) -> None:
    text = SMALL.replace("-0.15\t<s> a b\n-0.2\ta b </s>", "-0.15\ta a b\n-0.2\ta a b")
    with pytest.raises(ModelFormatError, match="line 19: found the 3-gram 'a a b' twice"):
        read_arpa(written(tmp_path, text))


def test_blank_lines_cost_no_memory(tmp_path: Path) -> None:
    """However many lines a block of a compressed file has, there is room only for the n-grams that can be in it."""
    text = SMALL.replace("\n\n", "\n" * 5_000_000).replace("-0.5\ta", "\n" * 9_000_000 + "-0.5\ta").encode()
    path = written(tmp_path, gzip.compress(text), "m.arpa.gz")
    tracemalloc.start()
    table, vocabulary = read_arpa(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_close(ngrams_of(table, vocabulary), ngrams_in(SMALL))
    assert peak < 32 * arpa_source.BLOCK_BYTES  # some blocks at a time, and what can be in them


def test_lines_of_the_fewest_bytes(tmp_path: Path) -> None:
    """As many n-grams as a text can hold, and one more that is broken off."""
    words = [chr(code) for code in range(33, 127)]
    unigrams = [f"0\t{word}" for word in ["<s>", "</s>", "<unk>", *words]]
    bigrams = [f"0 {a} {b}" for a in words for b in words]
    head = f"\\data\\\nngram 1={len(unigrams)}\nngram 2={len(bigrams)}\n\\1-grams:\n"
    text = head + "\n".join([*unigrams, "\\2-grams:", *bigrams, "\\end\\", ""])
    assert read_arpa(written(tmp_path, text))[0].level_sizes == (len(unigrams), len(bigrams))
    with pytest.raises(ModelFormatError, match="found '0', expected a log10 probability and 2 words"):
        read_arpa(written(tmp_path, text.replace("\n\\end", "\n0\n\\end")))


def test_absurd_counts_in_a_compressed_file_cost_nothing(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 2=4", f"ngram 2={10**17}")
    with pytest.raises(ModelFormatError, match="found 4 2-grams, expected 1000"):
        read_arpa(written(tmp_path, gzip.compress(text.encode()), "m.arpa.gz"))


def test_a_line_without_end(tmp_path: Path) -> None:
    bomb = gzip.compress(SMALL.encode().replace(b"-0.5\ta\t", b"-0.5\t" + b"a" * 20_000_000))
    with pytest.raises(ModelFormatError, match="line 10: found a line of more than"):
        read_arpa(written(tmp_path, bomb, "m.arpa.gz"))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="cannot be read: No such file"):
        read_arpa(tmp_path / "none.arpa")
    with pytest.raises(ModelFormatError, match=r"found the end of the file, expected \\data\\"):
        read_arpa(written(tmp_path, ""))
    with pytest.raises(ModelFormatError, match=r"expected \\data\\"):
        read_arpa(written(tmp_path, b"a line\n" * 5000))
    with pytest.raises(ModelFormatError, match="found bytes that cannot be read"):
        read_arpa(written(tmp_path, SMALL, "m.arpa.gz"))


def readable(path: Path) -> None:
    """Either a ModelFormatError, or a table whose scores are numbers."""
    try:
        table, vocabulary = read_arpa(path, warn=lambda message: None)
    except ModelFormatError:
        return
    model = NGramModel(table)
    stream = np.array([*range(3, len(vocabulary)), *range(3, len(vocabulary)), UNKNOWN, END] * 2, np.int32)
    scores, lengths = model.score_stream_with_lengths(stream)
    assert not np.isnan(scores).any()
    assert not (scores == np.inf).any()
    assert np.all((lengths >= 1) & (lengths <= table.order))
    assert not np.isnan(model.next_log_probs(model.start([stream[:1]]))).any()


def test_cut_off_anywhere(tmp_path: Path) -> None:
    whole = SMALL.encode()
    for size in range(len(whole)):
        path = written(tmp_path, whole[:size])
        if size >= len(whole) - 1:  # only the last newline is missing
            read_arpa(path)
        else:
            with pytest.raises(ModelFormatError):
                read_arpa(path)


@examples(6)
@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, len(SMALL) - 1),
            st.one_of(st.sampled_from(b"0123456789-+.eE \t\n\\<>sab"), st.integers(0, 255)),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_bytes_changed(changes: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    data = bytearray(SMALL.encode())
    for position, byte in changes:
        data[position] = byte
    readable(written(tmp_path_factory.getbasetemp(), bytes(data), "changed.arpa"))


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (SMALL.encode("utf-16"), "it looks like UTF-16; convert it to UTF-8 first"),
        (gzip.compress(SMALL.encode()), "it looks like gzip; give the file a name that ends in .gz"),
        (b"so it goes\n", "is it an ARPA file?"),
    ],
)
def test_what_another_kind_of_file_is_in(content: bytes, hint: str, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_bytes(content)
    with pytest.raises(ModelFormatError) as refused:
        read_arpa(tmp_path / "lm.arpa")
    assert hint in str(refused.value)
