"""Attention by kernels: beside a naive one in float64, and each query together with others beside it alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from chainrule.neural.layers.matrix_products import packed_width, scales_of
from chainrule.neural.packed.attention_kernels import attend
from chainrule.neural.packed.reading_kernels import store_in_eight_bits, widen_keys

SCALE = 0.17


class Case(NamedTuple):
    """length: queries of each row, the last of so many keys. window: keys that a query sees; None for all. first: the
    first key that may be seen.
    """

    rows: int
    length: int
    heads: int
    key_heads: int
    width: int
    keys: int
    window: int | None = None
    first: int = 0
    cap: float = 0.0
    eight_bits: bool = False


CASES = [
    Case(1, 1, 1, 1, 32, 3),  # a query alone
    Case(2, 1, 6, 2, 64, 37, first=5),  # heads of a group together
    Case(2, 1, 8, 1, 96, 50, eight_bits=True),
    Case(2, 7, 2, 2, 64, 41),  # positions together, and some left
    Case(1, 22, 4, 2, 128, 22, cap=3.0, eight_bits=True),
    Case(1, 30, 2, 1, 32, 60, window=19),
    Case(1, 9, 2, 2, 32, 20, window=2),  # no key that four queries share
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_queries_that_are_read_together_have_the_bits_of_each_alone(case: Case) -> None:
    random = np.random.default_rng(7)
    count, width = case.rows * case.length, case.width
    heads = random.normal(size=(count, case.heads + 2 * case.key_heads, width)).astype(np.float32)
    keys = random.normal(size=(case.rows, case.key_heads, case.keys, 2 * width)).astype(np.float32)
    ends = np.tile(np.arange(case.keys - case.length, case.keys) + 1, case.rows)
    begins = np.full(count, case.first) if case.window is None else np.maximum(ends - case.window, case.first)
    keys[:, :, -1] *= 3
    keys[:, :, : begins.min()] = np.nan  # which nobody sees
    own, scales, wide = keys, keys, keys
    if case.eight_bits:
        own, scales, wide = in_eight_bits(np.nan_to_num(keys))
    found = np.empty((count, case.heads * width), np.float32)
    attend(heads, own, scales, begins, ends, SCALE, case.cap, found)

    for i in range(count):
        for head in range(case.heads):
            row, key_head = i // case.length, head // (case.heads // case.key_heads)
            part = slice(head * width, (head + 1) * width)
            alone = np.empty((1, width), np.float32)
            one, of_one = own[row : row + 1, key_head : key_head + 1], scales[row : row + 1, key_head : key_head + 1]
            places = begins[i : i + 1], ends[i : i + 1]
            attend(
                np.ascontiguousarray(heads[i : i + 1, head : head + 1]), one, of_one, *places, SCALE, case.cap, alone
            )
            np.testing.assert_array_equal(found[i, part].view(np.int32), alone[0].view(np.int32))
            seen = wide[row, key_head, begins[i] : ends[i]].astype(np.float64)
            scores = SCALE * seen[:, :width] @ heads[i, head].astype(np.float64)
            scores = case.cap * np.tanh(scores / case.cap) if case.cap else scores
            weights = np.exp(scores - scores.max())
            np.testing.assert_allclose(alone[0], weights / weights.sum() @ seen[:, width:], rtol=0, atol=1e-5)


def test_a_key_that_is_no_number_is_seen_by_those_who_see_it() -> None:
    heads = np.random.default_rng(8).normal(size=(8, 3, 32)).astype(np.float32)
    keys = np.random.default_rng(9).normal(size=(1, 1, 8, 64)).astype(np.float32)
    keys[0, 0, 5, 7], keys[0, 0, 6, 40] = np.nan, np.inf
    found = np.empty((8, 32), np.float32)
    attend(heads, keys, keys, np.zeros(8, np.int64), np.arange(8) + 1, SCALE, 0.0, found)
    assert np.isfinite(found[:5]).all()
    assert np.isnan(found[5:]).all()


def in_eight_bits(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys and values as a cache has them, their scales, and what they stand for."""
    rows, key_heads, count, both = keys.shape
    packed = np.zeros((rows, key_heads, count, packed_width(both)), np.int8)
    scales, wide = scales_of(packed, both), np.empty_like(keys)
    halves = np.split(keys.transpose(0, 2, 1, 3).reshape(rows * count, key_heads, both), 2, -1)
    store_in_eight_bits(np.ascontiguousarray(np.concatenate(halves, 1)), packed, scales, 0)
    widen_keys(packed, scales, 0, wide)
    return packed, scales, wide
