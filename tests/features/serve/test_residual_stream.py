"""What parts of a Transformer add, against its own hidden states and logits; the lens, against single predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import MODERN, random_model, small

from chainrule.base.progress import silent
from chainrule.errors import SettingError
from chainrule.features.inspect.intervention import Unit, log_probs_without, read_without
from chainrule.features.serve.explorer.residual_stream import (
    added_by_part,
    attention_of_last,
    lens_of_text,
    logits_after,
)
from chainrule.neural.config import RecurrentConfig, gpt2, vaswani
from chainrule.neural.inspection import maps_of_text

if TYPE_CHECKING:
    from chainrule.neural.config import TransformerConfig

TOKENS = np.array([5, 9, 3, 17, 5], np.int32)
CONFIGS: dict[str, TransformerConfig] = {
    "modern": replace(MODERN, context=16),
    "gpt2": replace(gpt2(), layers=3, width=16, heads=2, context=16),
    "post-norm": replace(vaswani(), layers=2, width=16, heads=2, context=16),
    "parallel": small(gpt2(), context=16, parallel=True, shared_norm=False),
    "gemma": small(MODERN, context=16, sublayer_norms="both", norm_gain=True, gains_above_one=True, logit_cap=5.0),
    "scaled": small(MODERN, context=16, residual_scale=0.5, logit_scale=0.25, window=3),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_parts_add_up_to_the_stream_and_their_shares_to_the_logits(name: str) -> None:
    model = random_model(CONFIGS[name])
    parts = added_by_part(model, TOKENS)
    config, encoder = CONFIGS[name], model.network.encoder
    inputs = torch.from_numpy(model.last_window(TOKENS).astype(np.int64))[None]
    with torch.inference_mode():
        hidden = [states[0, -1].numpy() for states in encoder.hidden_layers(model.network.embed(inputs))]
    if config.norm_place == "post":
        assert all(part.shares is None for part in parts)
        return
    stream = np.zeros(config.width, np.float32)
    for part in parts:
        stream = stream + part.vector
        assert part.after == pytest.approx(np.linalg.norm(stream), rel=1e-4)
        if part.part == "feed-forward" and part.layer < config.layers:
            assert stream == pytest.approx(hidden[part.layer - 1], abs=1e-4)
    logits, log_probs = logits_after(model, TOKENS), model.next_log_probs(model.start([TOKENS]))[0]
    assert logits is not None
    finite = np.isfinite(log_probs)
    total = logits[finite] - log_probs[finite]
    assert total == pytest.approx(np.full(len(total), total[0]), abs=1e-4)
    if model.network.output.cap is not None:
        assert all(part.shares is None for part in parts)
        return
    # What is left is the same after any text: the shifts of the final norm, and the output's bias.
    reversed_tokens = TOKENS[::-1].copy()
    left = [
        logits_of[finite] - np.sum([part.shares for part in own if part.shares is not None], axis=0)[finite]
        for own, logits_of in (
            (parts, logits),
            (added_by_part(model, reversed_tokens), logits_after(model, reversed_tokens)),
        )
        if logits_of is not None
    ]
    assert left[0] == pytest.approx(left[1], abs=1e-3)
    if config.norm == "rms":
        assert left[0] == pytest.approx(np.zeros(finite.sum()), abs=1e-3)


def test_the_last_row_of_attention_is_that_of_the_maps() -> None:
    model = random_model(CONFIGS["modern"])
    for own, layer in zip(attention_of_last(model, TOKENS), maps_of_text(model, TOKENS)[1], strict=True):
        assert own == pytest.approx(layer.weights[:, -1], abs=1e-6)


@pytest.mark.parametrize("name", ["modern", "post-norm", "LSTM"])
def test_the_lens_gives_each_prediction(name: str) -> None:
    config = RecurrentConfig(layers=2, width=12) if name == "LSTM" else CONFIGS[name]
    model = random_model(config)
    read, layers = lens_of_text(model, TOKENS, 2)
    assert read[1:].tolist() == TOKENS.tolist()
    for i in range(len(read)):
        expected = model.layer_log_probs(TOKENS[:i])
        for layer in layers:
            row = expected[layer.layer]
            assert layer.log_probs[i] == pytest.approx(np.sort(row)[::-1][:2], abs=1e-4)
            if i < len(TOKENS):
                assert layer.of_next[i] == pytest.approx(row[TOKENS[i]], abs=1e-4)


def test_networks_without_such_parts_are_refused() -> None:
    model = random_model(RecurrentConfig(layers=1, width=8))
    with pytest.raises(SettingError, match="residual stream"):
        added_by_part(model, TOKENS)
    with pytest.raises(SettingError, match="two at least"):
        lens_of_text(model, TOKENS)
    with pytest.raises(SettingError, match="reads at most 15 at once"):
        lens_of_text(random_model(CONFIGS["modern"]), np.tile(TOKENS, 4))


@pytest.mark.parametrize("by", ["zero", "mean", "patch"])
def test_distributions_without_units_have_the_scores_without_them(by: str) -> None:
    model, units = random_model(CONFIGS["modern"]), [Unit(0, 1), Unit(1, "feed-forward")]
    replaced = TOKENS[::-1].copy() if by == "patch" else by
    rows = read_without(model, TOKENS, units, replaced)
    [expected] = log_probs_without(model, TOKENS, [units], replaced, silent)
    assert rows[np.arange(len(TOKENS)), TOKENS] == pytest.approx(expected, abs=1e-5)
    assert np.exp(rows.astype(np.float64)).sum(1) == pytest.approx(np.ones(len(TOKENS) + 1), abs=1e-5)
    plain = read_without(model, TOKENS, [], "zero")[-1]
    assert plain == pytest.approx(model.next_log_probs(model.start([TOKENS]))[0], abs=1e-5)
