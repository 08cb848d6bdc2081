"""Keys and values in eight bits: NumPy's arithmetic as the oracle; steps, passes and batches give the same figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from test_packed_products import PLAIN, TEXT, compacted, shaped, stepwise

import chainrule
from chainrule.errors import SettingError
from chainrule.features.open.network.config import OpenTransformerConfig
from chainrule.neural.build import build
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.attention import attend
from chainrule.neural.layers.masks import AttentionMask
from chainrule.neural.layers.matrix_products import packed_width, scales_of
from chainrule.neural.layers.state import Cache, in_eight_bits, widened
from chainrule.neural.packed.reading_kernels import store_in_eight_bits, widen_keys

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 40
SHAPES: dict[str, dict[str, object]] = {
    "grouped": {"heads": 4, "key_value_heads": 2},
    "window": {"window": 5, "window_every": 2},
    "positions that are added": {"positions": "learned"},
    "a cap, and a norm of queries and keys": {"score_cap": 3.0, "query_key_norm": True},
    "an additive score": {"score": "additive"},
    "sinks": {"attention_sinks": True},
    "ALiBi": {"positions": "alibi"},
}


def random_keys(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(4)
    key, value = (torch.randn(*shape, generator=random) for _ in range(2))
    key[0, 0, 1, :32] = 0
    value[0, 0, 2, 5] = 300.0
    return key, value


def rounded(x: torch.Tensor) -> np.ndarray:
    """Each block of 32 by its largest number, in float64."""
    blocks = x.double().numpy().reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    return (np.rint(blocks / np.where(scale > 0, scale, 1)) * scale).reshape(x.shape)


def network(**changes: object) -> NeuralModel:
    torch.manual_seed(2)
    config = OpenTransformerConfig(**{"layers": 2, "width": 128, "heads": 4, "context": 48, **changes})
    model = NeuralModel(build(config, SIZE))
    for weight in model.network.parameters():
        torch.nn.init.normal_(weight, std=0.15)
    return model


def test_each_32_numbers_are_rounded_by_their_largest() -> None:
    key, value = random_keys(2, 3, 5, 64)
    packed = in_eight_bits(key, value)
    assert packed.shape == (2, 3, 5, 144)  # 128 integers, four scales
    for own, found in zip((key, value), widened(packed, packed, torch.float32), strict=True):
        np.testing.assert_allclose(found.double(), rounded(own), rtol=0, atol=1e-6 * own.abs().max())


def test_kernels_round_as_torch_does() -> None:
    key, value = random_keys(2, 3, 5, 64)
    heads = torch.cat((torch.zeros(2, 5, 6, 64), key.transpose(1, 2), value.transpose(1, 2)), 2)
    keys = np.zeros((2, 3, 9, packed_width(128)), np.int8)
    scales = scales_of(keys, 128)
    store_in_eight_bits(heads.reshape(10, 12, 64).numpy(), keys, scales, 4)
    packed = in_eight_bits(key, value)
    np.testing.assert_array_equal(keys[:, :, 4:], packed.numpy())
    wide = np.empty((2, 3, 5, 128), np.float32)
    widen_keys(keys, scales, 4, wide)
    np.testing.assert_array_equal(wide, np.concatenate(widened(packed, packed, torch.float32), -1))


def test_numbers_that_are_none_stay_so() -> None:
    key, value = random_keys(1, 1, 4, 32)
    key[0, 0, 0, 3], value[0, 0, 3, 4] = torch.nan, torch.inf
    packed = in_eight_bits(key, value)
    wide = torch.cat(widened(packed, packed, torch.float32), -1)[0, 0]
    assert wide[0, :32].isnan().all()
    assert wide[3, 32:].isnan().all()
    assert wide[1:3].isfinite().all()


@pytest.mark.parametrize("keys", [1, 16, 53])
@torch.no_grad()
def test_a_query_reads_eight_bits_as_if_they_were_wide(keys: int) -> None:
    key, value = random_keys(2, 2, max(keys, 3), 64)
    packed = in_eight_bits(key, value)[:, :, :keys]
    query = torch.randn(2, 6, 1, 64, generator=torch.Generator().manual_seed(5))
    wide = torch.cat(widened(packed, packed, torch.float32), -1)
    expected = attend(query, wide[..., :64], wide[..., 64:], AttentionMask())
    assert torch.equal(attend(query, packed, packed, AttentionMask()), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_give_the_scores_of_passes(shape: str) -> None:
    model, text = network(**SHAPES[shape]), np.arange(3, 36, dtype=np.int32)
    exact = model.score([text], end=False)[0]
    model.network.encoder.set_cache_bits(8)
    scores = model.score([text], end=False)[0]
    assert 1e-5 < np.abs(scores - exact).max() < 0.05
    found = stepwise(model, text)  # torch's products differ in their last bits, and so may what is rounded after them
    np.testing.assert_allclose(found, scores, atol=3e-3)
    assert np.abs(found - scores).mean() < 5e-4
    assert "cache:int8" in model.stream_signature
    model.network.encoder.set_cache_bits(None)
    np.testing.assert_array_equal(model.score([text], end=False)[0], exact)


def test_rows_of_a_batch_that_forget_join_and_leave() -> None:
    """Past the context, where rows are read again; rows of unequal length; rows that are chosen twice."""
    model = shaped("llama", context=12)
    model.network.encoder.set_cache_bits(8)
    texts = [np.arange(3, 6, dtype=np.int32), np.arange(20, 37, dtype=np.int32)]
    state = model.select(model.start(texts), np.array([1, 0, 1], np.int32))
    for token in TEXT:
        state = model.advance(state, np.full(3, token, np.int32))
    for row, text in zip(model.next_log_probs(state), (texts[1], texts[0], texts[1]), strict=True):
        alone = model.start([text])
        for token in TEXT:
            alone = model.advance(alone, np.array([token], np.int32))
        np.testing.assert_array_equal(row, model.next_log_probs(alone)[0])


def test_a_cache_takes_little_more_than_a_quarter() -> None:
    bytes_ = []
    for bits in (None, 8):
        cache, *_ = Cache.empty(1, 1, bits=bits).grown(torch.zeros(1, 64, 8), None, None, keep_inputs=False)
        cache.append(0, *random_keys(1, 3, 64, 64))
        [buffer] = cache.store.layers
        assert buffer is not None
        bytes_.append(buffer.numel() * buffer.element_size())
    assert bytes_[1] / bytes_[0] == 9 / 32


def test_models_are_opened_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a rose is a rose\n" * 40)
    config = chainrule.TransformerConfig(layers=1, width=64, heads=2, context=16)
    lm = chainrule.train(text, config, training=chainrule.TrainingConfig(steps=1, compile="no"))
    lm.save(tmp_path / "lm")
    assert "cache:int8" in chainrule.load(tmp_path / "lm", cache_bits=8).evaluate(text).signature
    monkeypatch.setenv("CHAINRULE_CACHE_BITS", "8")
    assert "cache:int8" in chainrule.load(tmp_path / "lm").evaluate(text).signature
    monkeypatch.setenv("CHAINRULE_CACHE_BITS", "4")
    with pytest.raises(SettingError, match="lm: CHAINRULE_CACHE_BITS is '4'; expected 8"):
        chainrule.load(tmp_path / "lm")
    monkeypatch.delenv("CHAINRULE_CACHE_BITS")
    with pytest.raises(SettingError, match="lm: cache_bits is 16; expected 8"):
        chainrule.load(tmp_path / "lm", cache_bits=16)
    with pytest.raises(SettingError, match="lm: cache_bits is '8'; expected 8"):
        chainrule.load(tmp_path / "lm", cache_bits="8")  # type: ignore[arg-type]
    chainrule.train(text, chainrule.NGramConfig(order=2)).save(tmp_path / "ngram")
    with pytest.raises(SettingError, match="ngram: this model keeps no keys and values"):
        chainrule.load(tmp_path / "ngram", cache_bits=8)
    with pytest.raises(SettingError, match="blocks of 32 numbers, and this model's heads have 16; leave it out"):
        network(width=64).network.encoder.set_cache_bits(8)


def test_int8_weights_with_it_are_near_float32() -> None:
    model = compacted(replace(PLAIN, context=64))
    before = model.score([TEXT])[0]
    model.network.encoder.set_cache_bits(8)
    assert 0 < np.abs(model.score([TEXT])[0] - before).max() < 0.05
