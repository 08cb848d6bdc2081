"""Steps of batches: attention of single queries by a kernel, and shares of rows on threads of their own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.neural.build import build
from chainrule.neural.config import TransformerConfig
from chainrule.neural.device import in_shares
from chainrule.neural.encoders import reading
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers import attention
from chainrule.neural.layers.attention import attend
from chainrule.neural.layers.masks import AttentionMask

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = {"layers": 2, "width": 64, "heads": 2, "context": 16}
TRANSFORMERS = {
    "gpt2": TransformerConfig(**SIZES),
    "llama": TransformerConfig(**SIZES, positions="rotary", norm="rms", feed_forward="swiglu"),
    "grouped": TransformerConfig(**{**SIZES, "heads": 4, "width": 128}, key_value_heads=2),
    "window": TransformerConfig(**SIZES, window=7, positions="rotary"),
    "alibi": TransformerConfig(**SIZES, positions="alibi"),
}


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def model(name: str) -> NeuralModel:
    torch.manual_seed(0)
    network = build(TRANSFORMERS[name], 30)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return NeuralModel(network)


def texts(lm: NeuralModel, count: int = 9, prefixes: int = 2) -> list[tuple[list[int], list[float]]]:
    """Of uneven beginnings, longer than the context; some texts end before others."""
    begin = [np.arange(5, 9 + 3 * i, dtype=np.int32) for i in range(prefixes)]
    found = sample(lm, begin, None, Constraints(max_tokens=24, min_tokens=6), seed=1, texts_per_prefix=count)
    return [(text.tokens.tolist(), text.log_probs.tolist()) for text in found]


@torch.inference_mode()
@pytest.mark.parametrize("keys", [1, 15, 16, 33, 70])
def test_attention_of_one_query_is_that_of_the_formula(keys: int) -> None:
    generator = torch.Generator().manual_seed(keys)
    query = torch.randn(3, 4, 1, 32, generator=generator)
    buffer = torch.randn(3, 2, 80, 64, generator=generator)
    key, value = buffer[:, :, 5 : 5 + keys, :32], buffer[:, :, 5 : 5 + keys, 32:]
    first = torch.tensor([0, keys // 2, keys - 1])
    visible = torch.arange(keys) >= first[:, None]
    for mask in (None, visible[:, None, None]):
        found = attend(query, key, value, AttentionMask(mask))
        for row in range(3):
            seen = slice(0 if mask is None else int(first[row]), None)
            for head in range(4):
                q, k, v = (x.double() for x in (query[row, head, 0], key[row, head // 2], value[row, head // 2]))
                weights = (k[seen] @ q / 32**0.5).softmax(0)
                assert found[row, head, 0].double().numpy() == pytest.approx((weights @ v[seen]).numpy(), abs=2e-6)
                alone = attend(
                    query[row : row + 1], key[row : row + 1, :, seen], value[row : row + 1, :, seen], AttentionMask()
                )
                assert torch.equal(alone[0, head], found[row, head])


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_texts_are_those_without_kernel_and_shares(
    name: str, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = model(name)
    found = texts(lm)
    monkeypatch.setattr(attention, "_attend_once", lambda *_: None)
    monkeypatch.setattr(reading, "SHARE", 1000)
    torch.set_num_threads(1)  # two of torch's wait for one another where others want the processors
    expected = texts(lm)
    assert [text for text, _ in found] == [text for text, _ in expected]
    for (_, own), (_, others) in zip(found, expected, strict=True):
        assert own == pytest.approx(others, abs=1e-4)


def test_a_text_does_not_depend_on_its_neighbours(two_threads: None) -> None:
    many = texts(model("llama"), 20, 1)
    few = texts(model("llama"), 1, 1)
    assert many[0][0] == few[0][0]
    assert many[0][1] == pytest.approx(few[0][1], abs=1e-5)


def test_shares_are_of_whole_rows_in_order_and_leave_torch_its_threads(two_threads: None) -> None:
    threads: list[int] = []

    def rows(share: slice) -> list[int]:
        threads.append(torch.get_num_threads())
        return list(range(100)[share])

    assert in_shares(rows, 21, 8) == [list(range(10)), list(range(10, 21))]
    assert in_shares(rows, 15, 8) == [list(range(15))]
    assert threads == [1, 1, 2]
    later = ThreadPoolExecutor(1).submit(torch.get_num_threads)
    assert later.result() == 2  # that of a thread that begins now
    assert torch.get_num_threads() == 2


def test_an_error_in_a_share_is_raised(two_threads: None) -> None:
    for failing in (0, 10):

        def fail(share: slice, begin: int = failing) -> None:
            if share.start == begin:
                raise ValueError(str(begin))

        with pytest.raises(ValueError, match=str(failing)):
            in_shares(fail, 20, 8)


def test_a_forked_process_has_threads_of_its_own(two_threads: None) -> None:
    assert in_shares(lambda share: share.start, 20, 8) == [0, 10]
    if (process := os.fork()) == 0:
        os._exit(in_shares(lambda share: share.start, 20, 8) != [0, 10])
    assert os.waitpid(process, 0)[1] == 0
