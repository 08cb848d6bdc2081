"""Conversions between tensors of others and arrays of ours, each in both directions.

Legend: H heads, K heads of keys and values, d numbers in a head, D width.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.bfloat16 import negated
from chainrule.open_models.architecture import Change

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.neural.config import TransformerConfig


def _split_heads(array: ndarray, config: TransformerConfig) -> list[ndarray]:
    """(H + 2K) d rows -> those of queries, keys, values."""
    width = config.width_of_heads
    borders = np.cumsum([0, config.heads * width, config.key_heads * width, config.key_heads * width])
    return [array[begin:end] for begin, end in pairwise(borders.tolist())]


# Linear layers of GPT-2, which TensorFlow's had as (inputs, outputs).
TRANSPOSED = Change(lambda tensors, config: tensors[0].T, lambda array, config: [array.T])
# Queries, keys and values one on the other.
QUERY_KEY_VALUE = Change(lambda tensors, config: np.concatenate(tensors), _split_heads)
# The gate of a feed-forward layer, and what it is multiplied by; or the keys and values of a source.
TWO_PARTS = Change(lambda tensors, config: np.concatenate(tensors), lambda array, config: np.split(array, 2))


# A vector, which is there as a matrix of one row.
ONE_ROW = Change(lambda tensors, config: tensors[0].reshape(-1), lambda array, config: [array[None]])


def _rotated_backwards(tensors: list[ndarray], config: TransformerConfig) -> ndarray:
    query, key, value = tensors
    return np.concatenate([*(_with_second_halves_negated(part, config) for part in (query, key)), value])


def _rotated_forwards(array: ndarray, config: TransformerConfig) -> list[ndarray]:
    query, key, value = _split_heads(array, config)
    return [*(_with_second_halves_negated(part, config) for part in (query, key)), value]


def _with_second_halves_negated(rows: ndarray, config: TransformerConfig) -> ndarray:
    """Of each head: a rotation by -t of (a, b) is the rotation by t of (a, -b), with b negated again."""
    half = config.width_of_heads // 2
    first, second = np.split(rows.reshape(-1, 2, half, *rows.shape[1:]), 2, axis=1)
    return np.concatenate([first, negated(second)], axis=1).reshape(rows.shape)


# As QUERY_KEY_VALUE, where positions rotate the other way.
ROTATED_BACKWARDS = Change(_rotated_backwards, _rotated_forwards)


def _regrouped(tensors: list[ndarray], config: TransformerConfig) -> ndarray:
    [array] = tensors
    shape = array.shape[1:]
    return array.reshape(config.heads, 3, -1, *shape).swapaxes(0, 1).reshape(-1, *shape)


def _grouped_by_head(array: ndarray, config: TransformerConfig) -> list[ndarray]:
    shape = array.shape[1:]
    return [array.reshape(3, config.heads, -1, *shape).swapaxes(0, 1).reshape(-1, *shape)]


# One matrix of queries, keys and values, head by head: (H, 3, d) rows -> (3, H, d).
HEAD_BY_HEAD = Change(_regrouped, _grouped_by_head)
