"""The LSTM that attends to its own past, against the paper's equations in NumPy, one token after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import random_networks  # noqa: F401  (one thread)
import torch

import chainrule as library
from chainrule.base.options import config_from_json
from chainrule.neural.config import RecurrentConfig, settings_of
from chainrule.neural.encoders.recurrent import IntraAttentionLSTM, Recurrent
from chainrule.neural.inspection import maps_of_text

if TYPE_CHECKING:
    from pathlib import Path

TEXT = ["the fbi is chasing a criminal on the run", "a dog is chasing the cat"] * 3


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_the_equations(layer: IntraAttentionLSTM, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Cheng et al. 2016, equations 4 to 9, with lists of all states. x: (T, E). Gives (T, D) and the weights."""
    w = {name: parameter.detach().numpy().astype(np.float64) for name, parameter in layer.named_parameters()}
    hiddens: list[np.ndarray] = []
    cells: list[np.ndarray] = []
    all_weights = []
    summary = np.zeros(layer.width)
    for row in x:
        past = list(zip(hiddens, cells, strict=True))[-layer.span :]
        scores = np.array(
            [
                w["score"] @ np.tanh(w["of_states"] @ h + w["of_inputs"] @ row + w["of_summary"] @ summary)
                for h, _ in past
            ]
        )
        weights = np.exp(scores) / np.exp(scores).sum() if past else scores
        summary = sum((a * h for a, (h, _) in zip(weights, past, strict=True)), np.zeros(layer.width))
        memory = sum((a * c for a, (_, c) in zip(weights, past, strict=True)), np.zeros(layer.width))
        i, f, g, o = np.split(w["weight_ih_l0"] @ row + w["bias_ih_l0"] + w["weight_hh_l0"] @ summary, 4)
        cells.append(sigmoid(f) * memory + sigmoid(i) * np.tanh(g))
        hiddens.append(sigmoid(o) * np.tanh(cells[-1]))
        all_weights.append(weights)
    return np.array(hiddens), all_weights


@pytest.mark.parametrize("span", [1, 3, 20])
def test_a_layer_computes_the_papers_equations(span: int) -> None:
    torch.manual_seed(1)
    layer = IntraAttentionLSTM(4, 6, span)
    x = torch.randn(1, 9, 4)
    steps: list[torch.Tensor] = []
    with torch.inference_mode():
        found, _ = layer(x, layer.start(1), weights_out=steps)
    expected, weights = by_the_equations(layer, x[0].numpy().astype(np.float64))
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-5)
    for t, (step, own) in enumerate(zip(steps, weights, strict=True)):
        kept = min(t, span)
        np.testing.assert_allclose(step[0, span - kept :].numpy(), own, atol=1e-5)
        assert not step[0, : span - kept].any()


def test_a_span_of_one_is_an_lstm() -> None:
    """The only state has all the weight, so that the step goes on from it as an LSTM does."""
    torch.manual_seed(2)
    layer, lstm = IntraAttentionLSTM(4, 6, 1), torch.nn.LSTM(4, 6, batch_first=True)
    with torch.no_grad():
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0"):
            getattr(lstm, name).copy_(getattr(layer, name))
        lstm.bias_hh_l0.zero_()
    x = torch.randn(2, 7, 4)
    torch.testing.assert_close(layer(x, layer.start(2))[0], lstm(x)[0], atol=1e-5, rtol=1e-5)


def test_documents_that_begin_in_a_row_see_nothing_before_them() -> None:
    torch.manual_seed(3)
    encoder = Recurrent(RecurrentConfig(width=6, layers=2, intra_attention=4)).eval()
    x = torch.randn(1, 9, 6)
    starts = torch.zeros(1, 9, dtype=torch.bool)
    starts[0, 4] = True
    with torch.inference_mode():
        together, _ = encoder(x, None, starts)
        apart = [encoder(part)[0] for part in (x[:, :4], x[:, 4:])]
    torch.testing.assert_close(together, torch.cat(apart, 1), atol=1e-6, rtol=1e-5)


def test_what_each_token_looked_at_is_drawn() -> None:
    config = RecurrentConfig(width=8, layers=2, context=8, intra_attention=4)
    training = library.TrainingConfig(steps=2, seed=1)
    model = library.train(library.Lines(TEXT), config, training=training, tokenizer="whitespace")
    text = "the fbi is chasing a criminal"
    found = library.attend(model, text)
    assert [layer.title for layer in found.maps] == ["own past, layer 1", "own past, layer 2"]
    rows = ["<s>", *text.split()]
    for layer in found.maps:
        assert list(layer.rows) == list(layer.columns) == rows
        [weights] = layer.weights
        assert not np.triu(weights).any()  # no token sees itself, or what follows it
        np.testing.assert_allclose(weights.sum(1), [0, *[1] * (len(rows) - 1)], atol=1e-5)
        assert not np.tril(weights, -5).any()  # four states are kept
    first = model.engine.network.encoder.layers[0]
    tokens = [2, *model.tokenizer.encode_texts([text]).ids[:-1].tolist()]
    _, expected = by_the_equations(first, model.engine.network.embed(torch.tensor([tokens]))[0].detach().numpy())
    for t, own in enumerate(expected):
        np.testing.assert_allclose(found.maps[0].weights[0][t][max(0, t - 4) : t], own, atol=1e-4)
    inside = library.inspect(model, text)
    hidden, _ = by_the_equations(first, model.engine.network.embed(torch.tensor([tokens]))[0].detach().numpy())
    np.testing.assert_allclose(inside.layers[0].values["h"], hidden, atol=1e-4)


def test_the_page_shows_the_text_as_it_is_read(tmp_path: Path) -> None:
    config = RecurrentConfig(width=8, layers=1, context=8, intra_attention=4)
    training = library.TrainingConfig(steps=1, seed=1)
    model = library.train(library.Lines([*TEXT, "the <i>fbi"]), config, training=training, tokenizer="whitespace")
    library.attend(model, "the <i>fbi").save(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert page.count('class="reading"') == 3
    assert "<b>&lt;i&gt;fbi</b>" in page
    model.save(tmp_path / "lm")
    again = library.load(tmp_path / "lm")
    assert again.score(TEXT[:1]) == pytest.approx(model.score(TEXT[:1]))
    assert maps_of_text(again.engine, np.array([3], np.int32))[1][0].sides == "own past"


def test_only_an_lstm_attends_to_its_past() -> None:
    with pytest.raises(library.SettingError, match="intra_attention is for the cell lstm, and this one is gru"):
        RecurrentConfig(cell="gru", intra_attention=3)


def test_models_from_before_a_setting_open_without_it() -> None:
    """At their defaults, files have neither these settings nor need them."""
    for config, later in (
        (RecurrentConfig(width=8), {"intra_attention"}),
        (library.Seq2SeqConfig(width=8, heads=2), {"long_sources", "draws"}),
    ):
        written = settings_of(config)
        assert not later & written.keys()
        assert config_from_json(type(config), written) == config
    written = settings_of(RecurrentConfig(width=8, intra_attention=4))
    assert written["intra_attention"] == 4
    assert config_from_json(RecurrentConfig, written).intra_attention == 4
