"""Texts in rows: nothing is lost, and what is read before a token is the token before it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.training.batches import ContiguousBatches, ShuffledWindows, blocks, lanes

STREAM = np.arange(1000, 1103, dtype=np.int32)  # each token tells its place


@pytest.mark.parametrize(
    "batches", [ShuffledWindows(STREAM, 4, 10, seed=3), ContiguousBatches(STREAM, 4, 10)], ids=["windows", "lanes"]
)
def test_rows_are_pieces_of_the_text(batches) -> None:
    for step in range(30):
        inputs, targets, positions = batches.rows(step, 0, 4)
        assert inputs.shape == targets.shape == (4, 10)
        size = STREAM.size
        assert np.array_equal(targets[:, :-1], inputs[:, 1:])
        assert np.array_equal(positions, targets - 1000)
        assert np.array_equal((targets - 1000 - 1) % size, (inputs - 1000) % size)


@given(st.integers(10, 300), st.integers(1, 7), st.integers(1, 10), st.integers(0, 5))
def test_an_epoch_of_windows_sees_each_token_at_most_once_and_nearly_all(size, batch, length, seed) -> None:
    windows = ShuffledWindows(np.arange(size, dtype=np.int32), batch, length, seed)
    steps = -(-windows.windows // batch)
    rows = np.concatenate([windows.rows(step, 0, batch).targets for step in range(steps)])[: windows.windows]
    counts = Counter(rows.ravel().tolist())
    assert set(counts.values()) == {1}
    assert len(counts) > size - 2 * length


def test_epochs_cut_at_other_places_in_another_order() -> None:
    windows = ShuffledWindows(STREAM, 1, 10, seed=1)
    first, second = (
        [int(windows.rows(epoch * windows.windows + i, 0, 1).targets[0, 0]) for i in range(windows.windows)]
        for epoch in range(2)
    )
    assert first != second
    assert sorted(first) != first


def test_lanes_go_on_where_they_ended() -> None:
    rows = ContiguousBatches(STREAM, 3, 7)
    for step in range(40):
        before, after = rows.rows(step, 0, 3), rows.rows(step + 1, 0, 3)
        assert np.array_equal(before.targets[:, -1], after.inputs[:, 0])


def test_lanes_go_round_the_whole_text() -> None:
    rows = ContiguousBatches(STREAM, 1, 7)
    seen = np.concatenate([rows.rows(step, 0, 1).targets[0] for step in range(2 * STREAM.size)])
    assert Counter(seen.tolist()) == dict.fromkeys(STREAM.tolist(), 14)


@pytest.mark.parametrize(
    "batches", [ShuffledWindows(STREAM, 6, 5, seed=3), ContiguousBatches(STREAM, 6, 5)], ids=["windows", "lanes"]
)
def test_shares_of_a_step_are_the_step(batches) -> None:
    whole = batches.rows(7, 0, 6)
    shares = [batches.rows(7, first, first + 2) for first in (0, 2, 4)]
    assert np.array_equal(np.concatenate([share.targets for share in shares]), whole.targets)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 8), st.sampled_from([blocks, lanes]))
def test_each_token_is_validated_once(size, length, rows, cut) -> None:
    stream = np.arange(size, dtype=np.int32)
    parts = list(cut(stream, length, min(rows, max(1, size // length)), size))
    seen = np.concatenate([part.targets.ravel() for part in parts])
    assert sorted(seen.tolist()) == stream.tolist()
    for part in parts:
        assert np.array_equal((part.targets - 1) % size, part.inputs)
