"""Compressed texts, whole, joined, damaged and misnamed."""

import gzip
import hashlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_files import COMPRESSORS, fast, file_of, text_of

from chainrule.errors import TextError
from chainrule.text.corpus import plain_text, streams
from chainrule.text.corpus.corpus import Corpus


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_file_reads_as_what_is_in_it(tmp_path: Path, suffix: str) -> None:
    data = "".join(f"ligne numéro {i}\n" for i in range(1000)).encode()
    source = Corpus.of(file_of(tmp_path, COMPRESSORS[suffix](data), "text" + suffix))
    assert text_of(source) == data
    assert source.digests == {source.sources[0]: hashlib.sha256(data).hexdigest()}


def test_parts_compressed_one_by_one_and_joined_read_as_one_text(tmp_path: Path) -> None:
    data = gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n")
    assert text_of(Corpus.of(file_of(tmp_path, data, "text.gz"))) == b"a\nbc\nd\n"


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("damage", ["cut", "flipped", "plain"])
def test_a_broken_compressed_file_is_an_error_that_names_it(tmp_path: Path, suffix: str, damage: str) -> None:
    text = np.random.default_rng(1).bytes(3000).hex().encode()
    whole = COMPRESSORS[suffix](text)
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes(byte ^ 0xFF for byte in whole[middle : middle + 40]) + whole[middle + 40 :]
    name = file_of(tmp_path, {"cut": whole[:-50], "flipped": flipped, "plain": text}[damage], "text" + suffix)
    with pytest.raises(TextError, match=r"cannot be read: \S") as caught:
        text_of(Corpus.of(name))
    assert str(caught.value).startswith(name)


@fast
@given(st.sampled_from(sorted(COMPRESSORS)), st.data())
def test_whatever_happens_to_a_compressed_file_nothing_but_a_text_error_comes_of_it(
    tmp_path: Path, suffix: str, data: st.DataObject
) -> None:
    broken = bytearray(COMPRESSORS[suffix](b"a line of text\n" * 20))
    for place in data.draw(st.lists(st.integers(0, len(broken) - 1), min_size=1, max_size=3)):
        broken[place] = data.draw(st.integers(0, 255))
    name = file_of(tmp_path, bytes(broken), "text" + suffix)
    with suppress(TextError):  # or the damage does not matter
        text_of(Corpus.of(name))


@pytest.mark.parametrize("kind", [".gz", ".zst", ".xz", ".bz2", ".parquet"])
def test_a_compressed_file_with_another_name_is_an_error_that_names_the_right_suffix(tmp_path: Path, kind: str) -> None:
    text = np.random.default_rng(1).bytes(3000)
    data = COMPRESSORS[kind](text) if kind in COMPRESSORS else b"PAR1\x15\x04\xff"
    with pytest.raises(TextError, match=rf"is not UTF-8; it looks like .*; give the file a name that ends in \{kind}"):
        text_of(Corpus.of(file_of(tmp_path, data)))


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_decompression_bomb_stops_at_the_bound(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_text, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(streams, "EXPANSION_BYTES", 1 << 20)
    bomb = COMPRESSORS[suffix](b"\0" * (1 << 24))
    with pytest.raises(TextError, match=r"more than 250 times as many, like a decompression bomb, so reading stopped"):
        text_of(Corpus.of(file_of(tmp_path, bomb, "text" + suffix)))
    fine = COMPRESSORS[suffix](b"\0" * (1 << 20))
    assert len(text_of(Corpus.of(file_of(tmp_path, fine, "text" + suffix)))) == (1 << 20) + 1
