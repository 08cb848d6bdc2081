from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    BEGIN,
    END,
    UNKNOWN,
    grams_of,
    katz,
    katz_stream,
    random_backoff_grams,
    random_documents,
    stream_of,
    table_of,
    wild_table,
)

import chainrule
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models import stream_scorer as streams
from chainrule.ngram.models.table_models import WALKED_TOKENS, NGramModel
from chainrule.ngram.training import train_ngram
from chainrule.ngram.trie.query_kernels import _BLOCK, distributions, score_stream
from chainrule.ngram.trie.walking_kernels import LANES, unknown_after_all, unknown_follows, walk_stream


def check_against_katz(model: NGramModel, stream: np.ndarray) -> None:
    expected = katz_stream(grams_of(model.table), model.order, stream.tolist())
    scores, lengths = model.score_stream_with_lengths(stream)
    assert lengths.tolist() == [length for _, length in expected]
    np.testing.assert_allclose(scores, [log_prob for log_prob, _ in expected], rtol=0, atol=1e-4)
    in_full = model.score_stream_in_full(stream)
    assert np.array_equal(in_full.log_probs, scores)
    assert np.array_equal(in_full.lengths, lengths)
    unknown = [log_prob for log_prob, _ in katz_stream(grams_of(model.table), model.order, stream.tolist(), UNKNOWN)]
    np.testing.assert_allclose(in_full.unknown_log_probs, unknown, rtol=0, atol=1e-4)


@given(st.integers(0, 10**9), st.integers(4, 9), st.integers(1, 5))
def test_scores_and_match_lengths_equal_a_naive_walk(seed: int, vocabulary_size: int, order: int) -> None:
    model = NGramModel(table_of(random_backoff_grams(seed, vocabulary_size, order), order))
    check_against_katz(model, stream_of(random_documents(seed, vocabulary_size, 9, 12)))


@pytest.mark.parametrize("longest", [3, 40, 3 * _BLOCK])
def test_scores_do_not_change_at_the_borders_of_blocks(longest: int) -> None:
    model = NGramModel(table_of(random_backoff_grams(3, 12, 4), 4))
    stream = stream_of(random_documents(4, 12, 6 * _BLOCK // longest + 2, longest))
    assert stream.size > 3 * _BLOCK
    check_against_katz(model, stream)


@pytest.mark.parametrize("position", [_BLOCK - 2, _BLOCK - 1, _BLOCK, _BLOCK + 1])
def test_a_document_may_end_at_the_border_of_a_block(position: int) -> None:
    model = NGramModel(table_of(random_backoff_grams(3, 12, 4), 4))
    [words] = random_documents(4, 12, 1, 10**6)
    check_against_katz(model, stream_of([words[:position], words[position : 2 * position], [], words[:5]]))


@pytest.mark.parametrize("longest", [0, 3, 40, 300])
def test_scores_do_not_change_where_threads_share_a_stream(longest: int, monkeypatch) -> None:
    model = NGramModel(table_of(random_backoff_grams(3, 12, 4), 4))
    stream = stream_of(random_documents(4, 12, 9000 // (longest + 1) + 2, longest))
    monkeypatch.setattr(streams, "PARALLEL_TOKENS", 100)
    pieces = streams.pieces_of(stream)
    if longest < 100:
        assert len(pieces) > 10
    assert [piece[0] for piece in pieces] == [0, *(piece[1] for piece in pieces[:-1])]
    assert pieces[-1][1] == stream.size
    assert all(stream[stop - 1] == END for _, stop in pieces)
    check_against_katz(model, stream)


def test_a_whole_distribution_equals_a_naive_walk_word_by_word() -> None:
    vocabulary_size = 9
    grams = random_backoff_grams(7, vocabulary_size, 4)
    model = NGramModel(table_of(grams, 4))
    for [*prefix] in [[], [3], [3, 4], [UNKNOWN, 5, 3], [3, 4, 5, 6, 3, 3]]:
        row = model.next_log_probs(model.start([np.array(prefix, np.int32)]))[0]
        expected = [katz(grams, (BEGIN, *prefix)[-3:], word)[0] for word in range(vocabulary_size)]
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "witten-bell"])
@pytest.mark.parametrize("unknown_is_seen", [True, False])
def test_a_walk_along_suffixes_gives_the_same_bits(order: int, smoothing: str, *, unknown_is_seen: bool) -> None:
    config = NGramConfig(order=order, smoothing=smoothing)
    training = stream_of(random_documents(1, 40, 300, 12))
    training[training == UNKNOWN] = UNKNOWN if unknown_is_seen else 3
    model, _ = train_ngram(training, 40, config)
    table = model.table
    follows = unknown_follows(table.words, table.begin, 40)
    assert follows == (unknown_is_seen and order > 1)
    assert table.suffixes.size == table.words.size
    of_all = np.empty(table.begin.size - 1, np.float32)
    assert unknown_after_all(*table.columns, table.suffixes, follows, of_all)
    for size in (0, 1, LANES - 1, LANES + 1, 5 * LANES, 3000):
        stream = np.random.default_rng(size).integers(0, 40, size).astype(np.int32)
        stream[stream == BEGIN] = UNKNOWN
        expected, actual = (
            (np.empty(size, np.float32), np.empty(size, np.uint8), np.empty(size, np.float32)) for _ in range(2)
        )
        arrays = *table.columns, table.slots
        score_stream(*arrays, order, stream, 0, size, *expected)
        for unknown_after in (np.empty(0, np.float32), of_all):
            walk_stream(*arrays, table.suffixes, order, stream, 0, size, *actual, follows, unknown_after)
            assert np.array_equal(actual, expected)
            actual[2][:] = 7777


def test_long_streams_are_walked_and_short_ones_are_not() -> None:
    documents = random_documents(1, 40, 900, 12)
    model, _ = train_ngram(stream_of(documents), 40, NGramConfig(order=4))
    assert stream_of(documents).size > WALKED_TOKENS
    check_against_katz(model, stream_of(documents))
    without = NGramModel(dataclasses.replace(model.table, suffixes=np.zeros(0, np.int32)))
    for one, other in zip(*(m.score_stream_with_lengths(stream_of(documents)) for m in (model, without)), strict=True):
        assert np.array_equal(one, other)


def test_a_context_that_leaves_nothing_to_others_gives_them_minus_infinity_and_no_nan() -> None:
    half = float(np.log(0.5))
    grams = {
        (UNKNOWN,): (float(np.log(0.2)), 0.0),
        (BEGIN,): (-np.inf, 0.0),
        (END,): (float(np.log(0.5)), 0.0),
        (3,): (float(np.log(0.3)), -np.inf),  # only 3 and </s> follow a 3
        (3, END): (half, 0.0),
        (3, 3): (half, half),
        (3, 3, END): (float(np.log(0.75)), 0.0),  # and a half of a half goes to another 3
    }
    grams[3, 3] = (half, half)
    model = NGramModel(table_of(grams, 3))
    rows = model.next_log_probs(model.start([np.array([3], np.int32), np.array([3, 3], np.int32)]))
    np.testing.assert_allclose(np.exp(rows), [[0, 0, 0.5, 0.5], [0, 0, 0.75, 0.25]], rtol=1e-6)
    [scores] = model.score([np.array([3, UNKNOWN], np.int32)], end=False)
    assert scores[1] == -np.inf


def check_wild(seed: int, index_type: type[np.int32] | type[np.int64] = np.int32) -> None:
    """Queries a table of nonsense; arrays given to the kernels lie between sentinels that must not change."""
    table = wild_table(seed, index_type)
    model = NGramModel(table)
    chance = np.random.default_rng(seed)
    size = table.vocabulary_size
    stream = chance.integers(0, size, 30).astype(np.int32)
    arrays, none = table.columns, np.empty(0, np.float32)
    for kernel, more, last in (
        (score_stream, [table.slots], []),
        (walk_stream, [table.slots, table.suffixes], [True, none]),
        (walk_stream, [table.slots, table.suffixes], [False, none]),
    ):
        room, unknown = np.full((2, 30 + 16), 7777, np.float32)
        matched = np.full(30 + 16, 77, np.uint8)
        kernel(*arrays, *more, table.order, stream, 0, 30, room[8:-8], matched[8:-8], unknown[8:-8], *last)
        for numbers in (room, unknown):
            assert np.all(numbers[:8] == 7777)
            assert np.all(numbers[-8:] == 7777)
        assert np.all(matched[:8] == 77)
        assert np.all(matched[-8:] == 77)
        assert np.all((matched[8:-8] >= 1) & (matched[8:-8] <= table.order))
    # Whatever nodes a state may come to hold: no code but the model's own makes one, yet it is made from the file.
    state = model.start([stream[:n] for n in range(8)])
    for word in stream[:8]:
        state = model.advance(state, np.full(8, word, np.int32))
        assert np.all((state >= -1) & (state < len(table.words)))
        rows = np.full((10, size), 7777, np.float32)
        distributions(*arrays, size, state, rows[1:-1])
        assert np.all(rows[[0, -1]] == 7777)


@given(st.integers(0, 2**32))
def test_tables_of_nonsense_never_write_out_of_bounds(seed: int) -> None:
    check_wild(seed)


PROBE = """
import numpy as np
from oracles import random_documents, stream_of, widened
from test_query import check_wild, check_against_katz
from chainrule.base.jit import kernel
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.training import train_ngram

@kernel
def overrun(array):
    return array[array.size]

try:
    overrun(np.zeros(3))
except IndexError:
    print("bounds are checked")
for seed in range(300):
    check_wild(seed, np.int64)  # the type that can overflow; in 32 bits they run in the tests' process
for seed in range(20):
    stream = stream_of(random_documents(seed, 12, seed, 20) + [[]])
    model, _ = train_ngram(stream, 12, NGramConfig(order=1 + seed % 5, prune=(0, seed % 2)[: 1 + seed % 5]))
    check_against_katz(NGramModel(widened(model.table)), stream)
print("done")
"""


@pytest.mark.thorough
def test_no_index_is_out_of_bounds_where_numba_checks_them_all(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Kernels that check are others, and Numba does not know them from ours: they are kept in a folder of their own."""
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "CHAINRULE_CACHE": str(pytestconfig.cache.mkdir("checked-kernels")),
        "PYTHONPATH": os.pathsep.join([str(here), str(here.parent), str(Path(chainrule.__file__).parents[1])]),
    }
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    done = subprocess.run(
        [sys.executable, probe], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split("\n") == ["bounds are checked", "done", ""], done.stderr


def test_a_prefix_is_context_and_is_not_scored() -> None:
    grams = random_backoff_grams(5, 8, 3)
    model = NGramModel(table_of(grams, 3))
    sequence, prefix = np.array([4, 3], np.int32), np.array([5, 3], np.int32)
    [scores] = model.score([sequence], prefixes=[prefix])
    walk = katz_stream(grams, 3, [5, 3, 4, 3, END])[2:]
    np.testing.assert_allclose(scores, [log_prob for log_prob, _ in walk], atol=1e-5)
    assert model.match_lengths([sequence], prefixes=[prefix])[0].tolist() == [length for _, length in walk]
    assert model.match_lengths([sequence], prefixes=[prefix], end=False)[0].tolist() == [n for _, n in walk[:-1]]


def test_scores_of_no_sequence_are_none_and_of_an_empty_one_its_end(encoded) -> None:
    model, _ = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, NGramConfig(order=2))
    assert model.score([]) == []
    assert model.match_lengths([]) == []
    [ended] = model.score([np.empty(0, np.int32)])
    assert ended.shape == (1,)
    [open_ended] = model.score([np.empty(0, np.int32)], end=False)
    assert open_ended.shape == (0,)
