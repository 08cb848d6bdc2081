"""Any combination of settings, of every family of networks: scoring, stepping and starting say the same.

The lines of `random_networks.py` are chosen by hand; here settings meet that nobody thought of together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_networks import MODERN, VOCABULARY_SIZE, pair, random_model, random_network, random_pair, small
from samples import examples

from chainrule.errors import SettingError
from chainrule.features.open.network.config import OpenMaskedConfig, OpenTransformerConfig
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.neural.bidirectional_model import MASK, BidirectionalModel
from chainrule.neural.config.transformer import Positions, SelfScore
from chainrule.protocol import END

NETWORKS = {**configs_of(CAUSAL_NETWORK), "opened transformer": OpenTransformerConfig}
BIDIRECTIONAL = {**configs_of(MASKED_MODEL), "opened masked": OpenMaskedConfig}

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.protocol import LanguageModel

SMALL: dict[str, list[object]] = {  # what the settings that are numbers may be
    "layers": [1, 2, 3],
    "encoder_layers": [1],
    "decoder_layers": [1, 2],
    "width": [8, 12],
    "embedding_width": [None, 4, 6],
    "heads": [1, 2],
    "key_value_heads": [None, 1],
    "feed_forward_width": [None, 5],
    "context": [1, 2, 3, 4, 5, 7, 8, 64],
    "window": [None, 1, 2, 3, 4],
    "block_groups": [None, 1, 2],
    "full_head_width": [None, 6],
    "full_key_value_heads": [None, 1],
    "shared_key_layers": [0, 1],
    "layer_input_width": [0, 5],
    "rotary_turning": [None, 1],
    "distance_buckets": [0, 4],
    "distance_limit": [6],
    "kernel": [1, 2, 3],
    "dilation": [1, 2, 3],
    "rotary_base": [3.0, 10_000.0],
    "cutoffs": [(), (4, 11)],
    "max_source": [9],
}
LONG = 24  # tokens: more than most networks above can reach back


@st.composite
def combinations(draw: st.DrawFn, config: type[Any]) -> Any:
    """Configurations with random settings; dropout and what else concerns training alone stay as they are.

    One setting after the other gets another value, and keeps its own where the other does not suit those before it.
    """
    choices = _choices(config)
    drawn = {name: values[0] for name, values in choices.items() if name in SMALL}
    if "input_feeding" in choices:
        drawn["input_feeding"] = False  # which suits every other setting, and so can be decided after them
    for name, values in choices.items():
        changed = {**drawn, name: draw(st.sampled_from(values))}
        if _is_possible(config, changed):
            drawn = changed
    return config(**drawn)


def _choices(config: type[Any]) -> dict[str, Sequence[Any]]:
    """What each setting may be, by itself."""
    choices: dict[str, Sequence[Any]] = {}
    for name, hint in get_type_hints(config).items():
        if name in SMALL:
            choices[name] = [value for value in SMALL[name] if value is not None or _may_be_none(hint)]
        elif get_origin(hint) is Literal:
            choices[name] = get_args(hint)
        elif hint is bool:
            choices[name] = [False, True]
    return choices


def _may_be_none(hint: Any) -> bool:
    return type(None) in get_args(hint)


def _is_possible(config: type[Any], drawn: dict[str, Any]) -> bool:
    try:
        config(**drawn)
    except SettingError:
        return False
    return True


def tokens(seed: int, length: int) -> np.ndarray:
    """With an end of a document now and then."""
    chance = np.random.default_rng(seed)
    drawn = chance.integers(END, VOCABULARY_SIZE, length)
    return np.where(chance.random(length) < 0.04, END, drawn).astype(np.int32)


def assert_one_model(model: LanguageModel[Any], lengths: list[int], seed: int) -> None:
    """score, advance, start with ever longer prefixes, and rows of unequal lengths agree on every token."""
    text = tokens(seed, LONG)
    [scores] = model.score([text], end=False)
    state, stepped = model.start([text[:0]]), []
    for i, token in enumerate(text):
        stepped.append(model.next_log_probs(state)[0, token])
        state = model.advance(state, text[i : i + 1])
    np.testing.assert_allclose(stepped, scores, rtol=0, atol=1e-4)
    started = model.next_log_probs(model.start([text[:i] for i in range(LONG)]))
    np.testing.assert_allclose(started[np.arange(LONG), text], scores, rtol=0, atol=1e-4)
    [parts] = model.score([text[LONG // 2 :]], prefixes=[text[: LONG // 2]], end=False)
    np.testing.assert_allclose(parts, scores[LONG // 2 :], rtol=0, atol=1e-4)

    state = model.start([text[:length] for length in lengths])
    for _ in range(4):
        together = model.next_log_probs(state)
        alone = [model.next_log_probs(model.start([text[:length]]))[0] for length in lengths]
        np.testing.assert_allclose(together, np.array(alone), rtol=0, atol=1e-4)
        state = model.advance(state, text[lengths])
        lengths = [length + 1 for length in lengths]


LENGTHS = st.lists(st.integers(0, LONG - 5), min_size=2, max_size=3)
SEEDS = st.integers(0, 1000)


@pytest.mark.spread(6)
@pytest.mark.parametrize("family", NETWORKS)
@examples(0.5)
@given(data=st.data(), lengths=LENGTHS, seed=SEEDS)
def test_any_language_model_gives_a_token_one_probability(
    family: str, data: st.DataObject, lengths: list[int], seed: int
) -> None:
    config = data.draw(combinations(NETWORKS[family]))
    assert_one_model(random_model(config, seed=seed), lengths, seed)


@examples(0.5)
@given(config=combinations(Seq2SeqConfig), lengths=LENGTHS, seed=SEEDS)
def test_any_model_given_a_source_gives_a_token_one_probability(
    config: Seq2SeqConfig, lengths: list[int], seed: int
) -> None:
    model = random_pair(config, seed=seed).given([tokens(seed + 1, 1 + seed % 8)])
    if model.is_exact:
        assert_one_model(model, lengths, seed)


def test_a_convolution_of_one_place_knows_where_it_is_when_another_row_ends() -> None:
    """`starts` of one row took the positions of all others to the beginning."""
    model = random_pair(pair(decoder="convolution", kernel=1)).given([tokens(3, 5)])
    state = model.advance(model.start([tokens(1, 4), tokens(2, 4)]), np.array([7, END], np.int32))
    alone = model.start([np.append(tokens(1, 4), np.int32(7))])
    np.testing.assert_allclose(model.next_log_probs(state)[0], model.next_log_probs(alone)[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", BIDIRECTIONAL)
@examples(0.5)
@given(data=st.data(), lengths=LENGTHS, seed=SEEDS)
def test_any_network_of_both_sides_reads_a_text_with_one_token_masked(
    family: str, data: st.DataObject, lengths: list[int], seed: int
) -> None:
    network = random_network(data.draw(combinations(BIDIRECTIONAL[family])), seed=seed)
    scorer = BidirectionalModel(network)
    text = tokens(seed, LONG)
    alone = [scorer.score([text[:length]])[0] for length in lengths]
    for found, expected in zip(scorer.score([text[:length] for length in lengths]), alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)

    text = np.where(text == END, 3, text)[:6]  # short enough to be read at once
    if network.config.context >= len(text) + 2:
        [scores] = scorer.score([text], end=False)
        for position, token in enumerate(text.tolist(), 1):
            inputs = [END, *text.tolist(), END]
            inputs[position] = MASK
            with torch.no_grad():
                hidden, _ = network(torch.tensor([inputs]))
                row = network.output.log_probs(hidden)[0, position]
            assert scores[position - 1] == pytest.approx(float(row[token]), abs=1e-4)


@pytest.mark.parametrize("score", get_args(SelfScore))
@pytest.mark.parametrize("positions", get_args(Positions))
def test_moving_a_text_changes_nothing_exactly_where_the_settings_say_so(positions: str, score: str) -> None:
    config = small(MODERN, positions=positions, score=score, context=20)
    encoder = random_network(config).encoder
    x = torch.randn(1, 6, config.width, generator=torch.Generator().manual_seed(1))
    positions, masks = encoder._positions_and_masks(x, None)
    with torch.no_grad():
        here, moved = (encoder._through(x, positions + by, masks, None) for by in (0, 5))
    assert torch.allclose(here, moved, rtol=0, atol=1e-4) == config.is_translation_invariant


def test_a_window_of_rotated_keys_scores_alike_in_one_pass_and_step_by_step() -> None:
    """A prefix was cut to what the layers reach, which moved its positions: -49.107 by scoring, -51.384 by starting."""
    config = small(MODERN, heads=2, context=16, window=3, score="general")
    assert_one_model(random_model(config), [3, 11, 19], seed=1)
