from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, naive_counts, random_documents, stream_of

from chainrule.jit import run_all
from chainrule.ngram import counting
from chainrule.ngram.counting import Level, count_ngrams
from chainrule.ngram.counting_kernels import PLACE_BITS, sort_keys
from chainrule.text.tokenizer import documents_of


def spelled(levels: list[Level]) -> list[list[tuple[int, ...]]]:
    """The n-grams of each level by id."""
    grams: list[list[tuple[int, ...]]] = [[(word,) for word in levels[0].words.tolist()]]
    for level in levels[1:]:
        contexts = [c for c, (a, b) in enumerate(zip(level.begin, level.begin[1:], strict=False)) for _ in range(b - a)]
        grams.append([(*grams[-1][c], word) for c, word in zip(contexts, level.words.tolist(), strict=True)])
    return grams


def check_against_naive(documents: list[list[int]], vocabulary_size: int, order: int) -> None:
    levels = count_ngrams(stream_of(documents), vocabulary_size, order)
    counts = naive_counts(documents, order)
    grams = spelled(levels)
    assert len(levels) == order
    assert levels[0].counts.tolist() == [counts[0][(word,)] for word in range(vocabulary_size)]
    for n in range(1, order):
        assert grams[n] == sorted(counts[n])  # by context, then by last word
        assert levels[n].counts.tolist() == [counts[n][gram] for gram in grams[n]]
        assert [grams[n - 1][suffix] for suffix in levels[n].suffixes] == [gram[1:] for gram in grams[n]]
        assert len(levels[n].begin) == len(grams[n - 1]) + 1


@given(st.lists(st.lists(st.integers(3, 5), max_size=12), min_size=1, max_size=8), st.integers(1, 12))
def test_counts_ids_and_suffixes_equal_those_of_a_naive_counter(documents: list[list[int]], order: int) -> None:
    check_against_naive(documents, 6, order)


@given(st.integers(0, 10**9), st.integers(4, 60), st.integers(1, 4))
def test_counts_of_skewed_text_with_unknown_words_equal_a_naive_counter(seed: int, vocabulary: int, order: int) -> None:
    check_against_naive(random_documents(seed, vocabulary, 40, 25), vocabulary, order)


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
    levels = count_ngrams(stream_of([[3], [3]]), 4, 2)
    # <s> 3, 3 </s>; nothing follows </s>, though the stream goes on after the first one.
    assert spelled(levels)[1] == [(BEGIN, 3), (3, END)]
    assert levels[1].counts.tolist() == [2, 2]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 39, 40, 41, 42, 64, 500, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("words", [1, 2, 63, 64, 65, 2047, 2048, 2049, 1 << 22, (1 << 22) + 5, (1 << 30) - 1])
def test_sort_keys_sorts_by_word_and_keeps_places_ascending(size: int, words: int) -> None:
    chance = np.random.default_rng(size + words)
    places = np.sort(chance.choice(1 << 32, size, replace=False)) if size < 100 else np.arange(size) * 300_000
    keys = chance.integers(0, words, size) << PLACE_BITS | places
    expected = sorted(keys.tolist())
    sort_keys(keys, np.empty(size, np.int64))
    assert keys.tolist() == expected


def bytes_of(levels: list[Level]) -> list[bytes]:
    return [array.tobytes() for level in levels for array in (level.words, level.begin, level.suffixes, level.counts)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_does_not_change_a_byte(threads: int, encoded, monkeypatch) -> None:
    expected = bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4))
    monkeypatch.setattr(os, "cpu_count", lambda: threads)
    assert bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)) == expected
    monkeypatch.undo()
    monkeypatch.setattr(counting, "run_all", partial(run_all, threads=threads))
    assert bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)) == expected


@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 1000, 100_000])
def test_the_number_of_chunks_does_not_change_a_byte(chunks: int, encoded, monkeypatch) -> None:
    expected = bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4))
    monkeypatch.setattr(counting, "CHUNKS", chunks)
    assert bytes_of(count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)) == expected


def test_ids_of_64_bits_count_as_ids_of_32_bits_do(encoded, monkeypatch) -> None:
    expected = count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)
    monkeypatch.setattr(counting, "narrowest", lambda limit: np.int64)
    levels = count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4)
    assert levels[1].counts.dtype == np.int64
    for level, other in zip(levels, expected, strict=True):
        for name in ("words", "begin", "suffixes", "counts"):
            assert np.array_equal(getattr(level, name), getattr(other, name))


def test_ids_take_32_bits_as_long_as_they_fit() -> None:
    assert counting.narrowest(2**31 - 1) is np.int32
    assert counting.narrowest(2**31) is np.int64


@pytest.mark.parametrize("stream", [[], [3], [3, END, 3], [3, END, 0]])
def test_a_stream_cut_inside_a_document_is_refused(stream: list[int]) -> None:
    with pytest.raises(ValueError, match="must end with </s>"):
        count_ngrams(np.array(stream, np.int32), 4, 2)


def test_progress_begins_at_nothing_and_ends_at_all(encoded) -> None:
    told: list[tuple[str, float, float | None]] = []
    count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 4, lambda *report: told.append(report))
    assert told[0] == ("counting n-grams", 0, 3)
    assert told[-1] == ("counting n-grams", 3, 3)
    assert all(0 <= done <= 3 for _, done, _ in told)
