"""The hash index of long runs: with it, without it, damaged, every look-up is the same or finds nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from chainrule.ngram.config import NGramConfig
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.training import train_ngram
from chainrule.ngram.trie import table as table_module
from chainrule.ngram.trie.query_kernels import LONG_RUN, find_slot, slot_of
from chainrule.ngram.trie.table import Table, build_table


@pytest.fixture(scope="module")
def stream() -> np.ndarray:
    """Words with many followers: 3 and 4 after nearly everything, and hundreds of rare ones after them."""
    chance = np.random.default_rng(1)
    words = np.where(chance.random(30_000) < 0.5, chance.integers(3, 5, 30_000), chance.integers(5, 900, 30_000))
    words[chance.random(30_000) < 0.05] = 2
    return np.append(words, 2).astype(np.int32)


@pytest.fixture(scope="module")
def table(stream: np.ndarray) -> Table:
    return train_ngram(stream, 900, NGramConfig(order=4))[0].table


def long_runs(table: Table) -> list[int]:
    sizes = np.diff(table.begin)
    sizes[0] = 0
    return np.flatnonzero(sizes > LONG_RUN).tolist()


def test_every_child_in_a_long_run_has_one_slot_and_no_other_node_has(table: Table) -> None:
    expected = [node for context in long_runs(table) for node in range(table.begin[context], table.begin[context + 1])]
    assert len(expected) > 1000
    assert sorted(table.slots[table.slots > 0].tolist()) == expected
    assert table.slots.size == 2 * len(expected)
    for context in long_runs(table):
        low, end = int(table.begin[context]), int(table.begin[context + 1])
        for word in range(0, 900, 7):
            slot = slot_of(context, word, table.slots.size)
            actual = find_slot(table.words, low, end, word, table.slots, slot)
            where = low + int(np.searchsorted(table.words[low:end], word))
            assert actual == (where if where < end and table.words[where] == word else -1)


def test_scores_are_the_same_without_an_index(table: Table, stream: np.ndarray) -> None:
    plain = dataclasses.replace(table, slots=np.zeros(0, table.slots.dtype))
    queries = np.roll(stream, 12_345)
    for with_index, without in zip(
        NGramModel(table).score_stream_with_lengths(queries),
        NGramModel(plain).score_stream_with_lengths(queries),
        strict=True,
    ):
        assert np.array_equal(with_index, without)


@pytest.mark.parametrize("damage", ["full", "empty", "shuffled", "wild"])
def test_a_damaged_index_finds_nothing_or_what_is_there(table: Table, stream: np.ndarray, damage: str) -> None:
    chance = np.random.default_rng(2)
    slots = {
        "full": np.full_like(table.slots, 7),
        "empty": np.zeros_like(table.slots),
        "shuffled": chance.permutation(table.slots),
        "wild": chance.integers(-(2**31), 2**31 - 1, table.slots.size).astype(table.slots.dtype),
    }[damage]
    damaged = NGramModel(dataclasses.replace(table, slots=slots))
    scores, lengths = damaged.score_stream_with_lengths(stream[:500])
    assert np.all(np.isfinite(scores))
    assert np.all(lengths <= NGramModel(table).score_stream_with_lengths(stream[:500])[1])


def test_a_crowded_index_is_rebuilt_larger(table: Table, monkeypatch) -> None:
    tried: list[int] = []

    def fill(words: np.ndarray, begin: np.ndarray, slots: np.ndarray) -> bool:
        tried.append(slots.size)
        return len(tried) == 3

    monkeypatch.setattr(table_module, "fill_slots", fill)
    rebuilt = build_table(table.level_sizes, table.words, table.log_probs, table.begin, table.log_backoffs)
    assert tried == [table.slots.size, 2 * table.slots.size, 4 * table.slots.size]
    assert rebuilt.slots.size == tried[-1]
