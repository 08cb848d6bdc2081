"""Parts of a Transformer that are replaced, against weights that are zero and hooks of torch."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import DOCUMENT_NETWORKS, MODERN, STREAM_NETWORKS, random_model, small

from chainrule.base.progress import silent
from chainrule.errors import SettingError
from chainrule.features.inspect.intervention import Unit, log_probs_without, units_of
from chainrule.neural.config import RecurrentConfig, gpt2, vaswani

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.language_model import NeuralModel

TOKENS = np.array([5, 9, 3, 17, 5, 11], np.int32)
OTHER = np.array([6, 3, 3, 28], np.int32)
CONFIGS: dict[str, TransformerConfig] = {
    "grouped": replace(MODERN, context=8, key_value_heads=2),
    "biases": replace(gpt2(), layers=3, width=16, heads=2, context=8),
    "post-norm": replace(vaswani(), layers=2, width=16, heads=2, context=8),
    "parallel": small(gpt2(), context=8, parallel=True, shared_norm=False),
    "windows": replace(gpt2(), layers=2, width=16, heads=2, context=8, window=2),
}


def without_weights(model: NeuralModel, unit: Unit) -> NeuralModel:
    """The same model with a part's last weights zero."""
    model = deepcopy(model)
    block = model.network.encoder.blocks[unit.layer]  # type: ignore[union-attr, index]
    width = block.attention.head_width
    with torch.no_grad():
        if isinstance(unit.part, int):
            block.attention.out.weight[:, unit.part * width : (unit.part + 1) * width] = 0
        if unit.part in ("attention", "layer"):
            block.attention.out.weight.zero_()
            if block.attention.out.bias is not None:
                block.attention.out.bias.zero_()
        if unit.part in ("feed-forward", "layer"):
            block.feed_forward.down.weight.zero_()
            if block.feed_forward.down.bias is not None:
                block.feed_forward.down.bias.zero_()
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_a_removed_part_is_one_whose_weights_are_zero(name: str) -> None:
    model = random_model(CONFIGS[name])
    units = [unit for layer in units_of(model) for unit in layer]
    groups = [[], *([unit] for unit in units), [units[0], units[-1]]]
    rows = log_probs_without(model, TOKENS, groups, "zero", silent)
    np.testing.assert_allclose(rows[0], model.score([TOKENS], end=False)[0], atol=1e-5)
    for unit, row in zip(units, rows[1:], strict=False):
        np.testing.assert_allclose(
            row, without_weights(model, unit).score([TOKENS], end=False)[0], atol=1e-5, err_msg=str(unit)
        )
    both = without_weights(without_weights(model, units[0]), units[-1])
    np.testing.assert_allclose(rows[-1], both.score([TOKENS], end=False)[0], atol=1e-5)
    assert np.abs(rows[1:] - rows[0]).max() > 0.01


def hooked(model: NeuralModel, unit: Unit, change: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
    """The scores with what a part of a layer returns changed by a hook."""
    block = model.network.encoder.blocks[unit.layer]  # type: ignore[union-attr, index]
    module = block.attention if unit.part == "attention" else block.feed_forward
    handle = module.register_forward_hook(lambda _module, _inputs, output: change(output))
    try:
        return np.asarray(model.score([TOKENS], end=False)[0])
    finally:
        handle.remove()


@pytest.mark.parametrize("part", ["attention", "feed-forward"])
def test_a_mean_is_that_of_the_tokens_so_far(part: str) -> None:
    model = random_model(CONFIGS["biases"])
    unit = Unit(1, part)  # type: ignore[arg-type]
    [row] = log_probs_without(model, TOKENS, [[unit]], "mean", silent)

    def means(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, : i + 1].mean(1) for i in range(x.shape[1])], 1)

    np.testing.assert_allclose(row, hooked(model, unit, means), atol=1e-5)


@pytest.mark.parametrize("part", ["attention", "feed-forward"])
def test_a_patch_is_what_the_part_computes_for_the_other_text(part: str) -> None:
    model = random_model(CONFIGS["grouped"])
    unit = Unit(0, part)  # type: ignore[arg-type]
    block = model.network.encoder.blocks[0]  # type: ignore[union-attr, index]
    module = block.attention if part == "attention" else block.feed_forward
    outputs: list[torch.Tensor] = []
    handle = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    model.score([np.append(OTHER, 4)], end=False)  # reads </s> and the other text
    handle.remove()
    [row] = log_probs_without(model, TOKENS, [[unit]], OTHER, silent)
    expected = hooked(model, unit, lambda x: torch.cat((outputs[0][:, :5], x[:, 5:]), 1))
    np.testing.assert_allclose(row, expected, atol=1e-5)


def test_all_heads_patched_are_their_attention_patched_and_a_text_is_its_own_patch() -> None:
    model = random_model(CONFIGS["grouped"])
    heads, attention = [Unit(1, head) for head in range(4)], Unit(1, "attention")
    both = log_probs_without(model, TOKENS, [heads, [attention]], OTHER, silent)
    np.testing.assert_allclose(both[0], both[1], atol=1e-5)
    own = log_probs_without(model, TOKENS, [[], heads, [attention], [Unit(0, "layer")]], TOKENS[:5], silent)
    np.testing.assert_allclose(own, np.broadcast_to(own[0], own.shape), atol=1e-5)


def test_rows_read_in_parts_are_those_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(CONFIGS["biases"])
    groups = [[unit] for layer in units_of(model) for unit in layer]
    at_once = log_probs_without(model, TOKENS, groups, "zero", silent)
    monkeypatch.setattr("chainrule.features.inspect.intervention._TOGETHER", 12)
    np.testing.assert_allclose(log_probs_without(model, TOKENS, groups, "zero", silent), at_once, atol=1e-5)


def test_what_cannot_be_removed_is_said() -> None:
    with pytest.raises(SettingError, match="has no heads to remove; expected a Transformer that continues texts"):
        units_of(random_model(RecurrentConfig(width=12)))
    model = random_model(CONFIGS["grouped"])
    with pytest.raises(SettingError, match="the text has no tokens"):
        log_probs_without(model, TOKENS[:0], [[]], "zero", silent)
    with pytest.raises(SettingError, match="has 12 tokens, but the network reads at most 8 at once"):
        log_probs_without(model, np.tile(TOKENS, 2), [[]], "zero", silent)
    assert [str(unit) for unit in (Unit(0, 2), Unit(1, "feed-forward"), Unit(1, "layer"))] == [
        "layer 1, head 3",
        "layer 2, feed-forward",
        "layer 2",
    ]


MIXED = {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}


@pytest.mark.parametrize("name", [name for name, config in MIXED.items() if getattr(config, "mixers", ())])
def test_blocks_without_attention_have_the_same_units(name: str) -> None:
    model = random_model(MIXED[name])
    units = units_of(model)
    assert len({tuple(unit.part for unit in layer) for layer in units}) == 1
    rows = log_probs_without(model, TOKENS, [[], *([unit] for layer in units for unit in layer)], "zero", silent)
    changes = (rows[1:] - rows[0]).reshape(len(units), len(units[0]), -1)
    for layer, mixer in enumerate(MIXED[name].mixers):  # type: ignore[attr-defined]
        heads = changes[layer, [i for i, unit in enumerate(units[layer]) if isinstance(unit.part, int)]]
        assert mixer == "attention" or not heads.any()  # it has none
        assert np.abs(changes[layer, -1]).max() > 0
