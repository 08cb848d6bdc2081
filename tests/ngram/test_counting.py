from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, naive_counts, random_documents, stream_of

from chainrule.base import threads as base_threads
from chainrule.base.memory import Owned
from chainrule.ngram.counting import count as counting
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.counting.counting_kernels import number_ngrams
from chainrule.ngram.trie.assembly_kernels import POSITION_BITS, sort_keys
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from chainrule.ngram.counting.counts import Counts


def spelled(counts: Counts) -> list[tuple[int, ...]]:
    """The n-gram of each node."""
    grams: list[tuple[int, ...]] = [()]
    for context in range(len(counts.begin) - 1):
        children = range(counts.begin[context], counts.begin[context + 1])
        grams += [(*grams[context], int(counts.words[node])) for node in children]
    return grams


def check_against_naive(documents: list[list[int]], vocabulary_size: int, order: int) -> None:
    actual = count_ngrams(stream_of(documents), vocabulary_size, order)
    expected = naive_counts(documents, order)
    expected[0].update({(word,): 0 for word in range(vocabulary_size)})
    grams = spelled(actual)
    assert actual.order == order
    for n in range(1, order + 1):
        level = actual.level(n)
        assert grams[level] == sorted(expected[n - 1])  # by context, then by last word
        assert actual.counts[level].tolist() == [expected[n - 1][gram] for gram in grams[level]]
        assert [grams[suffix] for suffix in actual.suffixes[level]] == [gram[1:] for gram in grams[level]]
    assert actual.level(0) == slice(0, 1)
    assert len(actual.begin) == actual.level(order).start + 1


@given(st.lists(st.lists(st.integers(3, 5), max_size=12), min_size=1, max_size=8), st.integers(1, 12))
def test_counts_ids_and_suffixes_equal_those_of_a_naive_counter(documents: list[list[int]], order: int) -> None:
    check_against_naive(documents, 6, order)


@given(st.integers(0, 10**9), st.integers(4, 60), st.integers(1, 4))
def test_counts_of_skewed_text_with_unknown_words_equal_a_naive_counter(seed: int, vocabulary: int, order: int) -> None:
    check_against_naive(random_documents(seed, vocabulary, 40, 25), vocabulary, order)


@pytest.mark.parametrize("documents", [[[3], [4]], random_documents(0, 7, 12, 8)])
@pytest.mark.parametrize("shards", [1, 5])
def test_no_place_outside_of_the_stream_is_read(documents: list[list[int]], shards: int, monkeypatch) -> None:
    """After the occurrences that still count there are stale ones, one of them after the last token."""
    monkeypatch.setattr(counting, "SHARDS", shards)
    monkeypatch.setattr(counting, "number_ngrams", number_ngrams.py_func)  # Python checks every index
    check_against_naive(documents, 7, 5)


@pytest.mark.parametrize("documents", [[[]], [[], []], [[3]], [[3], [], [3, 3]]])
def test_documents_shorter_than_the_order_leave_the_highest_levels_empty(documents: list[list[int]]) -> None:
    check_against_naive(documents, 4, 12)


def test_the_text_of_the_fixtures_is_counted_as_a_naive_counter_counts_it(encoded) -> None:
    documents = [document.tolist() for document in documents_of(encoded.train)]
    check_against_naive(documents, encoded.tokenizer.vocabulary_size, 5)


def test_a_context_with_thousands_of_followers_is_sorted() -> None:
    chance = np.random.default_rng(5)
    vocabulary = 9000  # more than two digits of 6 bits, or one of 11
    words = chance.integers(4, vocabulary, 6000).tolist()
    check_against_naive([[w for word in words for w in (3, word)], words], vocabulary, 3)


def test_the_begin_of_a_document_is_a_context_and_its_end_is_none() -> None:
    counts = count_ngrams(stream_of([[3], [3]]), 4, 2)
    # <s> 3, 3 </s>; nothing follows </s>, though the stream goes on after the first one.
    assert spelled(counts)[counts.level(2)] == [(BEGIN, 3), (3, END)]
    assert counts.counts[counts.level(2)].tolist() == [2, 2]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 39, 40, 41, 42, 64, 500, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("words", [1, 2, 63, 64, 65, 2047, 2048, 2049, 1 << 22, (1 << 22) + 5, (1 << 30) - 1])
def test_sort_keys_sorts_by_word_and_keeps_places_ascending(size: int, words: int) -> None:
    chance = np.random.default_rng(size + words)
    positions = np.sort(chance.choice(1 << 32, size, replace=False)) if size < 100 else np.arange(size) * 300_000
    keys = chance.integers(0, words, size) << POSITION_BITS | positions
    expected = sorted(keys.tolist())
    sort_keys(keys, np.empty(size, np.int64))
    assert keys.tolist() == expected


def arrays_of(counts: Counts) -> dict[str, np.ndarray]:
    return {name: getattr(counts, name) for name in ("words", "begin", "suffixes", "counts")}


def bytes_of(counts: Counts) -> list[bytes]:
    return [array.tobytes() for array in arrays_of(counts).values()]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_does_not_change_a_byte(threads: int, encoded, monkeypatch) -> None:
    expected = bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4))
    monkeypatch.setattr(base_threads, "_threads", threads)
    assert bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)) == expected


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 1000, 100_000])
def test_the_number_of_shards_does_not_change_a_byte(shards: int, encoded, monkeypatch) -> None:
    expected = bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4))
    monkeypatch.setattr(counting, "SHARDS", shards)
    assert bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)) == expected


def test_ids_of_64_bits_count_as_ids_of_32_bits_do(encoded, monkeypatch) -> None:
    expected = count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)
    monkeypatch.setattr(counting, "narrowest", lambda limit: np.int64)
    counts = count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)
    assert counts.begin.dtype == counts.suffixes.dtype == counts.counts.dtype == np.int64
    for name, array in arrays_of(expected).items():
        assert np.array_equal(arrays_of(counts)[name], array)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_ids_become_wider_where_they_no_longer_fit(order: int, encoded, monkeypatch) -> None:
    """As if the n-grams of an order were one too many for 32 bits."""
    expected = count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)
    limit = expected.level(order).stop - 2
    monkeypatch.setattr(counting, "narrowest", lambda most: np.int32 if most <= limit else np.int64)
    counts = count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)
    assert counts.begin.dtype == counts.suffixes.dtype == np.int64
    for name, array in arrays_of(expected).items():
        assert np.array_equal(arrays_of(counts)[name], array)


def test_ids_take_32_bits_as_long_as_they_fit() -> None:
    assert counting.narrowest(2**31 - 1) is np.int32
    assert counting.narrowest(2**31) is np.int64


@pytest.mark.parametrize("stream", [[], [3], [3, END, 3], [3, END, 0]])
def test_a_stream_cut_inside_a_document_is_refused(stream: list[int]) -> None:
    with pytest.raises(ValueError, match="must end with </s>"):
        count_ngrams(np.array(stream, np.int32), 4, 2)


def test_progress_begins_at_nothing_and_ends_at_all(encoded) -> None:
    reports: list[tuple[str, float, float | None]] = []
    count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4, lambda *report: reports.append(report))
    assert reports[0] == ("counting n-grams", 0, 4)
    assert reports[-1] == ("counting n-grams", 4, 4)
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
    assert all(0 <= done <= 4 for _, done, _ in reports)


def test_an_owned_stream_is_freed_when_the_unigrams_are_counted() -> None:
    stream = stream_of(random_documents(3, 50, 400, 30))
    expected = bytes_of(count_ngrams(stream, 50, 3))
    alive, is_alive = weakref.ref(stream), []
    owned = Owned(stream)
    del stream
    counts = count_ngrams(owned, 50, 3, lambda task, done, total: is_alive.append(alive() is not None))
    assert is_alive[0]  # before anything is counted
    assert not any(is_alive[1:])
    assert bytes_of(counts) == expected
    with pytest.raises(ValueError, match="taken before"):
        count_ngrams(owned, 50, 3)
