"""What goes on inside recurrent networks, against torch's own layers and arithmetic by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import random_networks  # noqa: F401  (one thread)
import torch
from torch import nn

import chainrule as library
from chainrule.features.classify.network.config import LSTMLabelling
from chainrule.neural.config import RecurrentConfig
from chainrule.neural.inspection import gates

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["the movie was not great", "a dog ran", "the dog was great", "a movie"] * 3


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_an_lstm_of_one_unit_by_hand() -> None:
    """W = (0.5, -1, 2, 1), U = (1, 0, -1, 2) for i, f, g, o; no biases; inputs 1 and -2."""
    layer = nn.LSTM(1, 1, bias=True)
    with torch.no_grad():
        for name, rows in (("weight_ih_l0", [0.5, -1, 2, 1]), ("weight_hh_l0", [1, 0, -1, 2])):
            getattr(layer, name).copy_(torch.tensor(rows, dtype=torch.float32)[:, None])
        for name in ("bias_ih_l0", "bias_hh_l0"):
            getattr(layer, name).zero_()
        found = gates(layer, torch.tensor([[1.0], [-2.0]]))
    h = c = 0.0
    for t, x in enumerate((1.0, -2.0)):
        step = {
            "i": sigmoid(0.5 * x + h),
            "f": sigmoid(-x),
            "g": math.tanh(2 * x - h),
            "o": sigmoid(x + 2 * h),
        }
        c = step["f"] * c + step["i"] * step["g"]
        h = step["o"] * math.tanh(c)
        for name, value in (step | {"c": c, "h": h}).items():
            assert found[name][t].item() == pytest.approx(value, abs=1e-6), (name, t)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_hidden_values_are_those_of_the_networks_own_layers(cell: str) -> None:
    config = RecurrentConfig(cell=cell, width=6, layers=3, context=8, embedding_width=4, residual=True)
    training = library.TrainingConfig(steps=2, seed=1)
    model = library.train(library.Lines(TEXTS), config, training=training, tokenizer="whitespace")
    inside = library.inspect(model, "the movie was not great")
    assert inside.tokens == ["<s>", "the", "movie", "was", "not", "great"]
    assert [layer.name for layer in inside.layers] == ["layer 1", "layer 2", "layer 3"]
    names = {"lstm": "iofgch", "gru": "rznh"}.get(cell, "h")
    assert sorted(inside.layers[0].values) == sorted(names)
    for number, layer in enumerate(inside.layers, 1):
        torchs = torchs_hidden(model, "the movie was not great", number)
        np.testing.assert_allclose(layer.values["h"], torchs, atol=1e-5)
    if cell == "lstm":
        values = inside.layers[0].values
        np.testing.assert_allclose(values["h"], values["o"] * np.tanh(values["c"]), atol=1e-6)
        before = np.vstack([np.zeros(6), values["c"][:-1]])
        np.testing.assert_allclose(values["c"], values["f"] * before + values["i"] * values["g"], atol=1e-6)


def torchs_hidden(model: library.Model, text: str, number: int) -> np.ndarray:
    """The hidden states of a layer by torch's layers, before any residual connection."""
    network = model.engine.network
    tokens = [2, *model.tokenizer.encode_texts([text]).ids[:-1].tolist()]
    x = network.embed(torch.tensor([tokens]))
    with torch.inference_mode():
        for i, layer in enumerate(network.encoder.layers, 1):
            hidden = layer(x)[0]
            if i == number:
                return hidden[0].numpy()
            x = hidden + x if hidden.shape == x.shape else hidden
    raise AssertionError


@pytest.mark.parametrize("directions", ["forward", "both"])
def test_a_classifier_of_texts_is_inspected_in_each_direction(directions: str, tmp_path: Path) -> None:
    examples = tmp_path / "examples.tsv"
    examples.write_text("the movie was great\tgood\nnot great\tbad\n" * 4)
    model = library.train_classifier(
        library.read_labelled(examples),
        LSTMLabelling(width=6, layers=2, embedding_width=4, directions=directions),
        training=library.ClassifierTrainingConfig(epochs=1),
    )
    inside = library.inspect(model, "the movie was not great")
    layers = model.engine.body.layers
    tokens = torch.from_numpy(model.tokenizer.encode_texts(["the movie was not great"]).ids[:-1].astype(np.int64))
    assert inside.tokens[:2] == ["the", "movie"]
    with torch.inference_mode():
        vectors = model.engine.body.vectors(tokens)[None]
        expected = layers(vectors, torch.tensor([len(tokens)]))[0].numpy()
    last = inside.layers[-2:] if directions == "both" else inside.layers[-1:]
    np.testing.assert_allclose(np.concatenate([one.values["h"] for one in last], 1), expected, atol=1e-5)
    assert len(inside.layers) == (4 if directions == "both" else 2)
