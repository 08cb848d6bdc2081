"""Attention against a loop over positions and heads."""

from __future__ import annotations

import math

import pytest
import random_networks  # noqa: F401  (one thread)
import torch
from hypothesis import given
from hypothesis import strategies as st

from chainrule.neural.layers.attention import attend
from chainrule.neural.layers.masks import AttentionMask, cached_mask, causal_mask
from chainrule.neural.layers.positions import ALiBi, Relative

B, H, D = 2, 4, 6


def naive(query, key, value, sees, bias=None) -> torch.Tensor:
    """sees(row, query's position, key's position)."""
    found = torch.zeros_like(query)
    group = query.shape[1] // key.shape[1]
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for t in range(query.shape[2]):
                seen = [s for s in range(key.shape[2]) if sees(b, t, s)]
                scores = key[b, h // group, seen] @ query[b, h, t] / math.sqrt(query.shape[3])
                if bias is not None:
                    scores = scores + torch.stack([bias[h, t, s] for s in seen])
                found[b, h, t] = scores.softmax(0) @ value[b, h // group, seen]
    return found


def tensors(length: int, heads: int = H, key_heads: int = H) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    return [torch.randn(B, h, length, D, generator=generator) for h in (heads, key_heads, key_heads)]


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_causal_attention_with_fewer_heads_of_keys(key_heads: int) -> None:
    query, key, value = tensors(7, H, key_heads)
    close(attend(query, key, value, AttentionMask(causal=True)), naive(query, key, value, lambda b, t, s: s <= t))
    last = query[:, :, -1:]
    close(attend(last, key, value, AttentionMask()), naive(last, key, value, lambda b, t, s: True))


@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("biased", [None, "alibi", "relative"])
@pytest.mark.parametrize(("length", "window"), [(9, 1), (9, 2), (9, 4), (8, 4), (9, 5), (9, 8), (5, 9), (6, None)])
def test_a_window_masked_or_in_blocks(length: int, window: int | None, biased: str | None, key_heads: int) -> None:
    query, key, value = tensors(length, H, key_heads)
    bias = {None: None, "alibi": ALiBi(H), "relative": Relative(H)}[biased]
    if isinstance(bias, Relative):
        torch.nn.init.normal_(bias.numbers)
    mask = causal_mask(length, query.device, window=window, bias=bias, documents=None)
    positions = torch.arange(length)
    numbers = None if bias is None else bias(positions[:, None] - positions)
    width = window or length
    expected = naive(query, key, value, lambda b, t, s: t - width < s <= t, numbers)
    close(attend(query, key, value, mask), expected)


def test_a_window_much_shorter_than_the_text_is_cut_into_blocks() -> None:
    mask = causal_mask(4096, torch.device("cpu"), window=8, bias=None, documents=None)
    assert mask.tensor is not None
    assert mask.tensor.numel() == 8 * 16  # and not 4096 squared


@given(st.lists(st.integers(0, 3), min_size=9, max_size=9), st.sampled_from([None, 3]))
def test_documents_do_not_see_each_other(steps: list[int], window: int | None) -> None:
    query, key, value = tensors(9)
    documents = torch.tensor([[min(1, step) for step in steps], [0] * 9]).cumsum(1)
    mask = causal_mask(9, query.device, window=window, bias=None, documents=documents)

    def sees(b: int, t: int, s: int) -> bool:
        return bool(t - (window or 9) < s <= t and documents[b, s] == documents[b, t])

    close(attend(query, key, value, mask), naive(query, key, value, sees))


def test_cached_columns_are_seen_from_the_first_of_their_row() -> None:
    query, key, value = tensors(6)
    first = torch.tensor([[2, 2], [4, 5]])  # of the two last queries of each row
    mask = cached_mask(torch.tensor([4, 5]), torch.arange(6), first, None, None)
    found = attend(query[:, :, 4:], key, value, mask)
    close(found, naive(query[:, :, 4:], key, value, lambda b, t, s: first[b, t] <= s <= t + 4))
