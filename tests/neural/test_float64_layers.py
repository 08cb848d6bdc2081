"""The first blocks of Transformers in float64: nearer to the network in float64, and the same bits beside others."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import random_model
from samples import sampled

import chainrule
from chainrule.errors import SettingError
from chainrule.features.open.network.config import OpenTransformerConfig
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.layers.matrix_products import product

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = {
    "rotary": TransformerConfig(width=64, layers=3, heads=4, key_value_heads=2, context=64, feed_forward="swiglu"),
    "learned": TransformerConfig(width=64, layers=3, heads=4, context=24, positions="learned", norm="layer"),
    "window": TransformerConfig(width=64, layers=3, heads=4, context=64, window=5, positions="alibi"),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of any size go to the kernels."""
    monkeypatch.setattr("chainrule.neural.layers.matrix_products._LEAST", 0)


def texts(vocabulary: int, count: int = 20) -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    return [draw.integers(3, vocabulary, draw.integers(1, 60)).astype(np.int32) for _ in range(count)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vectors", sampled([1, 3, 4, 7, 11], [1, 11]))
@pytest.mark.parametrize("shape", sampled([(1, 32), (7, 96), (21, 64), (64, 160)], [(7, 96), (64, 160)]))
@torch.no_grad()
def test_vectors_in_float64_have_the_products_of_numpy(
    shape: tuple[int, int], vectors: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(*shape, generator=draw).to(dtype)
    x = torch.randn(vectors, shape[1], generator=draw, dtype=torch.float64)
    bias = torch.randn(shape[0], generator=draw)
    expected = x.numpy() @ weight.double().numpy().T + bias.double().numpy()
    found = product(x, weight, bias)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13, atol=1e-13)
    for i in range(vectors):  # the same bits with and without neighbours
        assert torch.equal(product(x[i : i + 1], weight, bias)[0], found[i])


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_hidden_states_are_those_of_the_network_in_float64(config: TransformerConfig) -> None:
    network = random_model(config).network
    encoder, exact = network.encoder, deepcopy(network.encoder).double()
    x = torch.randn(2, 20, 64, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        expected = exact(x.double())[0]
        distances = []
        for count in (0, 3):
            encoder.set_float64_layers(count)
            hidden = encoder(x)[0]
            assert hidden.dtype == torch.float32
            distances.append(float((hidden - expected).abs().max()))
        encoder.set_float64_layers(2)
        *_, last = encoder.hidden_layers(x)
        assert torch.equal(last, encoder(x)[0])
    assert distances[1] < 2e-7 * float(expected.abs().max()) < distances[0]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_text_has_the_same_bits_alone_and_beside_others(config: TransformerConfig) -> None:
    model = random_model(config)
    plain = model.score(texts(model.vocabulary_size))
    model.network.alone = True
    model.network.encoder.set_float64_layers(2)
    sequences = texts(model.vocabulary_size)
    with torch.inference_mode():
        assert model.network.packs_texts()
    together = model.score(sequences)
    for text, row, near in zip(sequences, together, plain, strict=True):
        assert model.score([text])[0].tobytes() == row.tobytes()
        np.testing.assert_allclose(row, near, atol=1e-5)
    assert "|float64-layers:2|" in model.stream_signature


def test_a_model_is_opened_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TransformerConfig(width=32, layers=2, heads=2, context=16)
    training = chainrule.TrainingConfig(steps=1, compile="no", valid_share=0)
    chainrule.train(chainrule.Lines(["ab ba", "a b"] * 100), config, training=training).save(tmp_path / "lm")
    assert (
        "|float64-layers:1"
        in chainrule.load(tmp_path / "lm", float64_layers=1).evaluate(chainrule.Lines(["ab a"])).signature
    )
    lm = chainrule.load(tmp_path / "lm")
    unigram = chainrule.train(
        chainrule.Lines(["ab ba"]), chainrule.NGramConfig(order=1), tokenizer=str(tmp_path / "lm")
    )
    chainrule.mix([lm, unigram]).save(tmp_path / "mix")
    mixed = chainrule.load(tmp_path / "mix", float64_layers=1)
    assert mixed.engine.components.models[0].network.encoder.float64_layers == 1
    assert "float64-layers:1" in mixed.evaluate(chainrule.Lines(["ab a"])).signature
    monkeypatch.setenv("CHAINRULE_FLOAT64_LAYERS", "2")
    assert "|float64-layers:2" in chainrule.load(tmp_path / "lm").evaluate(chainrule.Lines(["ab a"])).signature
    monkeypatch.setenv("CHAINRULE_FLOAT64_LAYERS", "two")
    with pytest.raises(SettingError, match="lm: CHAINRULE_FLOAT64_LAYERS is 'two'; expected a whole number of 1 or"):
        chainrule.load(tmp_path / "lm")
    with pytest.raises(SettingError, match="lm: float64_layers is 3; expected 1 to 2, the layers of the network"):
        chainrule.load(tmp_path / "lm", float64_layers=3)
    with pytest.raises(SettingError, match="lm: float64_layers is 0; expected a whole number of 1 or more"):
        chainrule.load(tmp_path / "lm", float64_layers=0)
    chainrule.train(chainrule.Lines(["ab ba", "a b"] * 100), RecurrentConfig(width=32), training=training).save(
        tmp_path / "lstm"
    )
    with pytest.raises(SettingError, match="lstm: this model is no Transformer, and has none in it"):
        chainrule.load(tmp_path / "lstm", float64_layers=1)


def test_networks_that_cannot_are_refused() -> None:
    for changes in ({"experts": 2, "chosen_experts": 1}, {"score": "additive"}):
        config = OpenTransformerConfig(width=32, layers=2, heads=2, context=16, **changes)  # type: ignore[arg-type]
        encoder = random_model(config).network.encoder
        with pytest.raises(SettingError, match="float64_layers is for blocks of the usual attention"):
            encoder.set_float64_layers(1)
    half = random_model(CONFIGS["rotary"]).network.half().encoder
    with pytest.raises(SettingError, match="with weights in float32 or bfloat16"):
        half.set_float64_layers(1)
