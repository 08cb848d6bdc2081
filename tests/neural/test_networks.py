"""Networks: configurations, what they begin with, packed documents, states that go on, and dropout."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import DOCUMENT_NETWORKS, MODERN, STREAM_NETWORKS, random_model, random_network, small
from samples import sampled

from chainrule.base.options import help_of
from chainrule.errors import SettingError
from chainrule.features.vision.network.grid_config import GridConfig
from chainrule.kinds import CAUSAL_NETWORK, configs_of
from chainrule.neural.build import build
from chainrule.neural.config import PRESETS, RecurrentConfig, TransformerConfig, llama
from chainrule.neural.layers import state as encoder_states
from chainrule.protocol import END

if TYPE_CHECKING:
    from chainrule.neural.network import Network

NETWORKS = {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}
SAMPLE = sampled(NETWORKS, list(NETWORKS)[::2])


def tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2, 29, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("config", configs_of(CAUSAL_NETWORK).values())
def test_every_setting_has_its_help_and_its_default(config: type) -> None:
    assert help_of(config).keys() == {each.name for each in fields(config)}
    assert all(len(text) > 5 and not text.endswith(".") for text in help_of(config).values())
    config()


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_network_that_reads(name: str) -> None:
    network = build(small(PRESETS[name]()), 29)
    hidden, _ = network(tokens(2, 5))
    assert hidden.shape == (2, 5, 16)
    assert torch.isfinite(network.output.loss(hidden, tokens(2, 5)))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (TransformerConfig, {"layers": 0}, "layers is 0; expected 1 or more"),
        (TransformerConfig, {"layers": 2.5}, "layers is 2.5; expected a whole number"),
        (TransformerConfig, {"layers": True}, "layers is True; expected a whole number"),
        (TransformerConfig, {"norm": "batch"}, "norm is 'batch'; expected layer or rms"),
        (TransformerConfig, {"dropout": 1.0}, "dropout is 1.0; expected 0 or more and less than 1"),
        (TransformerConfig, {"dropout": float("nan")}, "expected a finite number"),
        (TransformerConfig, {"tied": 1}, "tied is 1; expected True or False"),
        (TransformerConfig, {"width": 30, "heads": 4}, "among 4 heads; choose a multiple of 4 as the width"),
        (TransformerConfig, {"width": 7}, "a head has 7; choose a width or heads so that it is even"),
        (TransformerConfig, {"heads": 4, "key_value_heads": 3}, "cannot share 3 heads"),
        (TransformerConfig, {"width": 12, "heads": 4}, "a head has 3"),
        (TransformerConfig, {"window": 300}, "longer than the context"),
        (TransformerConfig, {"output": "adaptive", "tied": True}, "cannot be tied"),
        (TransformerConfig, {"cutoffs": (5, 9)}, "cutoffs belong to an adaptive output"),
        (RecurrentConfig, {"output": "adaptive", "cutoffs": (9, 5)}, "must rise"),
        (RecurrentConfig, {"cutoffs": [5]}, "expected a tuple of whole numbers"),
        (RecurrentConfig, {"cell": "mlp"}, "expected rnn_tanh, rnn_relu, gru or lstm"),
    ],
)
def test_settings_that_cannot_be_are_errors(kind: type, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        kind(**changes)


@pytest.mark.parametrize(("width", "heads"), [(256, 4), (100, 2), (90, 3), (12, 3), (10, 1)])
def test_heads_follow_a_width_that_is_given(width: int, heads: int) -> None:
    """Each has an even share of it, since the positions of a default Transformer are rotary."""
    assert TransformerConfig(width=width).heads == heads


def test_the_default_begins_with_the_uniform_distribution() -> None:
    network = build(small(MODERN), 29)
    hidden, _ = network(tokens(2, 5))
    log_probs = network.output.log_probs(hidden)
    torch.testing.assert_close(log_probs[..., END], torch.full((2, 5), 28.0).log().neg())


def test_a_gated_layer_has_about_as_many_numbers_as_a_plain_one() -> None:
    sizes = [
        sum(weight.numel() for weight in build(small(MODERN, width=96, feed_forward=kind), 29).parameters())
        for kind in ("relu", "swiglu")
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


def test_muon_gets_the_hidden_matrices_and_nothing_else() -> None:
    network = build(small(MODERN, positions="learned", tied=True, biases=True, norm_gain=True), 29)
    assert len(network.matrices()) == 4 * 2  # of each block: queries, keys and values; out; up; down
    together = [*network.matrices(), *network.others()]
    assert {id(weight) for weight in together} == {id(weight) for weight in network.parameters()}
    assert len(together) == len(list(network.parameters()))
    lstm = build(RecurrentConfig(width=8, layers=2), 29)
    assert len(lstm.matrices()) == 4


@pytest.mark.spread(7)
@pytest.mark.parametrize("name", SAMPLE)
def test_reading_in_parts_is_reading_at_once(name: str) -> None:
    """As far as a context reaches: past that, the parts of a stream are read in windows."""
    network = random_network(NETWORKS[name]).eval()
    length = min(network.encoder.context or 12, 12)
    text = tokens(3, length)
    whole, _ = network(text)
    for cut in range(1, length):
        state = network.start(3)
        with torch.no_grad():
            first, state = network(text[:, :cut], state)
            second, state = network(text[:, cut:], state)
        torch.testing.assert_close(torch.cat((first, second), 1), whole, rtol=0, atol=1e-4)


BEGUN_BY_END = [name for name, config in NETWORKS.items() if config.begins_with == "</s>"]


@pytest.mark.parametrize("name", SAMPLE)
def test_the_last_window_read_in_pieces_gives_the_state_after_a_prefix(name: str) -> None:
    model = random_model(NETWORKS[name])
    for prefix in ([], [5, 8], [5, 3, 9, 4, 7, 11] * 4, [5, 3, END, 9, 4, 7, END, *[5, 8, 20] * 5]):
        ids = np.array(prefix, np.int32)
        expected = model.next_log_probs(model.start([ids]))
        state = None
        for piece in np.split(model.last_window(ids), range(3, len(ids) + 1, 3)):
            state = model.read([piece], state) if len(piece) else state
        assert state is not None
        np.testing.assert_allclose(model.next_log_probs(state), expected, atol=1e-5)


@pytest.mark.spread(14)
@pytest.mark.parametrize("name", [name for name in BEGUN_BY_END if not isinstance(NETWORKS[name], GridConfig)])
def test_rows_that_begin_anew_read_as_if_they_were_alone(name: str) -> None:
    network = random_network(replace(NETWORKS[name], memory="stream", context=64)).eval()
    text = tokens(3, 8)
    starts = torch.zeros(3, 8, dtype=torch.bool)
    starts[0, [0, 3]] = True
    starts[1, [5, 6, 7]] = True
    alone = torch.empty(3, 8, network.encoder.width)
    for row in range(3):
        borders = [0, *starts[row].nonzero()[:, 0].tolist(), 8]
        for begin, end in pairwise(borders):
            if end > begin:
                alone[row, begin:end] = network(text[row : row + 1, begin:end])[0][0]
    for state in (None, network.start(3)):
        with torch.no_grad():
            found, after = network(text, state, starts)
        torch.testing.assert_close(found, alone, rtol=0, atol=1e-4)
        if after is not None:  # and what is read next sees the last part alone
            following, _ = network(torch.full((3, 1), 5), encoder_states.select(after, torch.tensor([0, 1, 2])))
            parts = (text[0, 3:], text[1, 7:], text[2])
            for row, part in enumerate(parts):
                expected, _ = network(torch.cat((part, torch.tensor([5])))[None])
                torch.testing.assert_close(following[row, 0], expected[0, -1], rtol=0, atol=1e-4)


def test_a_network_of_documents_finds_their_borders_by_itself() -> None:
    for name in DOCUMENT_NETWORKS:
        network = random_network(replace(DOCUMENT_NETWORKS[name], context=64)).eval()
        text = torch.tensor([[END, 4, 5, END, 6, 7, 8]])
        whole, _ = network(text)
        torch.testing.assert_close(whole[:, 3:], network(text[:, 3:])[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SAMPLE)
def test_gradients_reach_every_number(name: str) -> None:
    network = random_network(NETWORKS[name]).train()
    length = min(network.encoder.context or 6, 6)
    hidden, _ = network(tokens(4, length))
    network.output.loss(hidden, tokens(4, length, seed=1)).backward()
    for parameter, weight in network.named_parameters():
        if length > 1 or "query_key" not in parameter:  # a single key gets all attention, whatever it is
            assert weight.grad is not None, parameter
            assert torch.isfinite(weight.grad.to_dense()).all(), parameter


def test_variational_dropout_takes_the_same_numbers_at_every_time() -> None:
    torch.manual_seed(0)
    network = build(RecurrentConfig(width=200, layers=1, output_dropout=0.5), 29).train()
    hidden, _ = network(tokens(2, 9))
    dropped = hidden == 0
    assert (dropped == dropped[:, :1]).all()
    assert not torch.equal(dropped[0], dropped[1])
    assert dropped.float().mean().item() == pytest.approx(0.5, abs=0.1)
    network = build(RecurrentConfig(width=200, layers=1, output_dropout=0.5, variational=False), 29).train()
    dropped = network(tokens(2, 9))[0] == 0
    assert not (dropped == dropped[:, :1]).all()


def test_dropped_weights_and_dropped_tokens_are_for_training_alone() -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(width=30, layers=2, weight_drop=0.5, embedding_dropout=0.3, input_dropout=0.2, dropout=0.2)
    network = build(config, 29)
    text = tokens(2, 7)
    network.train()
    first, second = network(text)[0], network(text)[0]
    assert not torch.equal(first, second)
    first.sum().backward()
    assert all(weight.grad is not None for weight in network.encoder.parameters())
    network.eval()
    assert torch.equal(network(text)[0], network(text)[0])


def test_a_stream_goes_on_over_batches_and_gradients_do_not() -> None:
    network: Network = random_network(STREAM_NETWORKS["LSTM, tied"])
    text = tokens(2, 8)
    whole, _ = network(text)
    first, state = network(text[:, :4])
    second, _ = network(text[:, 4:], encoder_states.detach(state))
    torch.testing.assert_close(torch.cat((first, second), 1), whole)
    second.sum().backward()
    used = set(text[:, 4:].flatten().tolist())
    unused = [token for token in range(29) if token not in used]
    assert network.embedding.weight.grad is not None
    assert (network.embedding.weight.grad[unused] == 0).all()


def test_llama_and_gpt2_scale_what_leads_out_of_a_block() -> None:
    torch.manual_seed(0)
    network = build(replace(llama(), layers=8, width=64, heads=4), 29)
    spread = {name: weight.std().item() for name, weight in network.named_parameters() if weight.ndim == 2}
    assert spread["encoder.blocks.0.attention.query_key_value.weight"] == pytest.approx(0.02, rel=0.1)
    assert spread["encoder.blocks.0.attention.out.weight"] == pytest.approx(0.02 / 4, rel=0.1)
