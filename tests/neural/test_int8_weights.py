"""Matrices in eight bits, against a loop over blocks; and networks that have them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import chainrule
from chainrule.base.progress import silent
from chainrule.errors import ModelFormatError, SettingError
from chainrule.models.families.table import FAMILIES
from chainrule.neural.build import build
from chainrule.neural.config import MaskedConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.matrix_products import pack, unpack
from chainrule.neural.quantization import is_quantised, packed_share
from chainrule.neural.saving import to_state

CONFIG = TransformerConfig(layers=2, width=64, heads=2, context=16)
VOCABULARY = 40


def network(config: TransformerConfig = CONFIG, seed: int = 1) -> NeuralModel:
    torch.manual_seed(seed)
    return NeuralModel(build(config, VOCABULARY))


def compact(model: NeuralModel) -> NeuralModel:
    compaction = FAMILIES["transformer"].compaction
    assert compaction is not None
    packed: NeuralModel = compaction.compact(model, silent)
    return packed


def test_each_block_is_rounded_to_its_own_scale() -> None:
    weight = torch.randn(6, 96, generator=torch.Generator().manual_seed(3))
    weight[2, 32:64] = 0
    weight[3, 5] = 1000
    weight[4, 64:] = 1e-42
    found = unpack(pack(weight)).numpy()
    for row, numbers in enumerate(weight.numpy()):
        for begin in range(0, 96, 32):
            block = numbers[begin : begin + 32]
            scale = np.abs(block).max() / np.float32(127)
            expected = [np.float32(round(float(number / scale))) * scale if scale else 0.0 for number in block]
            np.testing.assert_array_equal(found[row, begin : begin + 32], np.array(expected, np.float32))


def test_numbers_that_are_none_are_not_hidden() -> None:
    weight = torch.ones(2, 64)
    weight[0, 3], weight[1, 40] = torch.nan, torch.inf
    found = unpack(pack(weight))
    assert found[0, :32].isnan().all()
    assert found[1, 32:].isnan().all()
    assert torch.equal(found[0, 32:], torch.ones(32))
    torch.testing.assert_close(found[1, :32], torch.ones(32))


def test_blocks_of_q8_0_stay_what_they_are() -> None:
    """d q, where the largest q is 127, as whoever writes Q8_0 has it."""
    generator = torch.Generator().manual_seed(6)
    integers = torch.randint(-127, 128, (50, 32), generator=generator)
    integers[:, 7] = 127
    scales = (torch.rand(50, 1, generator=generator) / 50).half().float()
    assert torch.equal(unpack(pack(integers.float() * scales)), integers.float() * scales)


@pytest.mark.parametrize("tied", [True, False])
def test_a_compact_network_is_the_one_with_rounded_weights(tied: bool) -> None:
    model = network(TransformerConfig(layers=2, width=64, heads=2, context=16, tied=tied))
    before = {name: array.copy() for name, array in to_state(model)[1].items()}
    packed = compact(model)
    settings, arrays = to_state(packed)
    assert all(np.array_equal(before[name], array) for name, array in to_state(model)[1].items())
    assert {name for name, array in arrays.items() if array.dtype == np.int8} == {
        name for name, array in before.items() if array.ndim == 2
    }
    rounded = {
        name: unpack(torch.from_numpy(array)).numpy() if array.dtype == np.int8 else array
        for name, array in arrays.items()
    }
    plain = FAMILIES["transformer"].from_state(settings, rounded, VOCABULARY)
    texts = [np.arange(3, 30, dtype=np.int32), np.array([5, 9, 2], np.int32)]
    for found, expected in zip(packed.score(texts), plain.score(texts), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(packed.static_vectors(), plain.static_vectors())
    assert packed.stream_signature == plain.stream_signature + "|weights:int8"


def test_a_state_gives_what_scoring_does() -> None:
    model, text = compact(network()), np.arange(3, 14, dtype=np.int32)
    state, found = model.start([np.empty(0, np.int32)]), []
    for token in text:
        found.append(model.next_log_probs(state)[0, token])
        state = model.advance(state, np.array([token], np.int32))
    np.testing.assert_allclose(found, model.score([text], end=False)[0], atol=1e-5)


def test_masked_networks_are_compact_too() -> None:
    compaction = FAMILIES["masked"].compaction
    assert compaction is not None
    torch.manual_seed(2)
    from chainrule.neural.bidirectional_model import BidirectionalModel

    config = MaskedConfig(layers=1, width=64, heads=2, context=16)
    model = compaction.compact(BidirectionalModel(build(config, VOCABULARY)), silent)
    assert compaction.is_compact(model)
    assert not compaction.is_compact(compaction.unpack(model, silent))


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(SettingError, match="a multiple of 32 numbers; this one's have 24 or 40"):
        compact(network(TransformerConfig(layers=1, width=24, heads=2, context=16, feed_forward_width=40)))
    with pytest.raises(SettingError, match=r"needs a Transformer .* this one is no Transformer"):
        compact(NeuralModel(build(RecurrentConfig(layers=1), VOCABULARY)))
    with pytest.raises(SettingError, match="this one's output is adaptive"):
        compact(network(TransformerConfig(layers=1, width=32, heads=1, context=16, output="adaptive")))


def test_rows_that_are_no_whole_blocks_stay_as_they_are() -> None:
    own = network(TransformerConfig(layers=1, width=24, heads=2, context=16, feed_forward_width=64))
    matrices = sum(weight.numel() for weight in own.network.parameters() if weight.ndim == 2)
    assert packed_share(compact(own).network) == 24 * 64 / matrices  # the one whose rows have 64 numbers


def test_packed_arrays_of_another_shape_are_damage() -> None:
    settings, arrays = to_state(compact(network()))
    name = "embedding.weight"
    for damaged in (arrays[name][:, :-4], arrays[name].astype(np.int16), arrays[name][:-1]):
        with pytest.raises(ModelFormatError, match=name):
            FAMILIES["transformer"].from_state(settings, {**arrays, name: damaged}, VOCABULARY)
    norms = next(name for name, array in arrays.items() if array.dtype == np.int8 and "feed_forward" in name)
    with pytest.raises(ModelFormatError):
        FAMILIES["transformer"].from_state(settings, {**arrays, norms: np.zeros((3, 3), np.int8)}, VOCABULARY)


def test_from_file_to_file(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    text = folder / "text.txt"
    text.write_text("the cat sat on the mat\nthe dog sat on the log\n" * 20)
    model = chainrule.train(text, config=CONFIG, training=chainrule.TrainingConfig(steps=2, batch=2), tokenizer="word")
    model.save(folder / "lm")
    small = chainrule.convert(folder / "lm", folder / "small", compact=True)
    again = chainrule.load(folder / "small")
    assert again.is_compact
    assert again.record["quantised"] is True
    lines = ["the cat sat on the log"]
    assert again.score(lines) == small.score(lines)
    assert again.score(lines) != model.score(lines)
    wide = chainrule.convert(folder / "small", folder / "wide")
    assert not wide.is_compact
    np.testing.assert_allclose(wide.score(lines), again.score(lines), atol=1e-4)
    assert is_quantised(again.engine.network)
    with pytest.raises(SettingError, match="cannot be trained"):
        chainrule.adapt(folder / "small", text, training=chainrule.TrainingConfig(steps=1, batch=2))
