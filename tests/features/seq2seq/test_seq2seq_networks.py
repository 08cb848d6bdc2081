"""Networks that are given a source, against steps that are written out, and sums over all choices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import CAPTIONERS, PAIRS, PICTURE, VOCABULARY_SIZE, caption, pair, random_pair

from chainrule.decoding.beam import search
from chainrule.decoding.config import BeamConfig
from chainrule.decoding.limits import Constraints
from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.protocol import END

if TYPE_CHECKING:
    from chainrule.features.seq2seq.network.config import Seq2SeqConfig

SOURCES = [np.array(row, np.int32) for row in ([5, 9, 3, 17, 5], [4], [8, 8, 20, 11, 6, 25, 7])]
NOTHING = np.empty(0, np.int32)


@pytest.mark.parametrize("config", PAIRS.values(), ids=PAIRS)
def test_sources_together_are_as_each_by_itself(config: Seq2SeqConfig) -> None:
    model = random_pair(config)
    targets = [np.array(row, np.int32) for row in ([7, 12], [3, 3, 3, 9], [])]
    together = model.given(SOURCES).score(targets)
    for source, target, found in zip(SOURCES, targets, together, strict=True):
        np.testing.assert_allclose(model.given([source]).score([target])[0], found, atol=1e-4)
    if config.attention != "none":
        assert not np.allclose(model.given(SOURCES[:1]).score([targets[1]])[0], together[1])  # of another source


@pytest.mark.spread(6)
@pytest.mark.parametrize("config", PAIRS.values(), ids=PAIRS)
def test_a_beam_over_several_sources_is_that_of_each(config: Seq2SeqConfig) -> None:
    model = random_pair(config)
    limits, beam = Constraints(max_tokens=5), BeamConfig(size=3, best=2)
    together = search(model.given(SOURCES), [NOTHING] * 3, beam, limits)
    for source, found in zip(SOURCES, together, strict=True):
        [alone] = search(model.given([source]), [NOTHING], beam, limits)
        assert [h.tokens.tolist() for h in found.hypotheses] == [h.tokens.tolist() for h in alone.hypotheses]
        np.testing.assert_allclose(
            [h.log_prob for h in found.hypotheses], [h.log_prob for h in alone.hypotheses], atol=1e-4
        )


def test_what_the_source_holds_is_read_once_and_never_copied_for_a_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_pair(pair())
    given = model.given(SOURCES)
    monkeypatch.setattr(model.network, "read", lambda *_: pytest.fail("the source was read again"))
    state = given.select(given.start([NOTHING] * 3), np.repeat(np.arange(3), 5))
    state = given.advance(state, np.arange(15, dtype=np.int32) + 3)
    source = given.bound.source
    held = {id(source.memory), *(id(each) for layer in source.keys_and_values for each in layer)}
    again = source.at(torch.arange(3).repeat_interleave(5))
    assert {id(again.memory), *(id(each) for layer in again.keys_and_values for each in layer)} == held
    assert len(given.next_log_probs(state)) == 15


@pytest.mark.parametrize("name", [name for name, config in PAIRS.items() if config.attention != "none"])
def test_attention_is_a_distribution_over_the_source(name: str) -> None:
    model = random_pair(PAIRS[name])
    given = model.given(SOURCES, alignments=True)
    found = search(given, [NOTHING] * 3, BeamConfig(size=2), Constraints(max_tokens=4), attention=given.attention)
    for source, each in zip(SOURCES, found, strict=True):
        weights = each.hypotheses[0].attention
        assert weights is not None
        assert np.isnan(weights[:, source.size + 1 :]).all()
        sums = weights[:, : source.size + 1].sum(1)
        if PAIRS[name].center == "predicted" or PAIRS[name].before_source:
            assert (sums <= 1 + 1e-5).all()  # a bell lowers what is far from its middle; other tokens have the rest
        else:
            np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_without_attention_there_are_no_alignments() -> None:
    with pytest.raises(SettingError, match="has no alignments"):
        random_pair(PAIRS["LSTM without attention"]).given(SOURCES, alignments=True)


@torch.no_grad()
def test_bahdanau_step_by_step() -> None:
    """c = sum_j a_j h_j, a = softmax_j v tanh(W s + U h_j); s' = GRU([x; c], s); o = tanh(W [s'; c])."""
    model = random_pair(pair(encoder="gru", decoder="gru", score="additive", attends="before", decoder_layers=1))
    network = model.network
    decoder, target = network.decoder, [6, 3, 20]
    given = model.given(SOURCES[:1])
    memory = given.bound.source.memory[0]
    score = decoder.glance.score
    s = torch.tanh(decoder.begin(given.bound.source.summary))
    cell = decoder.cells.layers[0]
    expected = []
    for token, wanted in zip([END, *target], [*target, END], strict=True):
        energies = torch.tanh(s @ score.of_query[0].T + memory @ score.of_key[0].T) @ score.weights[0, 0, 0]
        context = energies.softmax(0) @ memory
        x = network.embedding(torch.tensor([[token]]))[0]
        s = cell(torch.cat((x, context[None]), 1)[None], s[None])[0][0]
        hidden = torch.tanh(decoder.out(torch.cat((s, context[None]), 1)))
        logits = hidden @ network.output.weight.T + network.output.shift
        expected.append(logits.log_softmax(1)[0, wanted].item())
    np.testing.assert_allclose(given.score([np.array(target, np.int32)])[0], expected, atol=1e-5)


@torch.no_grad()
def test_show_attend_and_tell_step_by_step() -> None:
    """z = b sum_i a_i h_i, h_i = W norm(f_i) + p_i, b = sigmoid(w s); s' = GRU([x; z], s); o = tanh(W [x; s'; z])."""
    model = random_pair(CAPTIONERS["GRU of Xu given a picture"])
    network, decoder = model.network, model.network.decoder
    given, target = model.given([PICTURE]), [6, 3, 20]
    own = network.source_embedding
    mean, deviation = PICTURE.mean(1, keepdims=True), PICTURE.std(1, keepdims=True)
    normed = torch.from_numpy((PICTURE - mean) / np.sqrt(deviation**2 + 1e-5)) * own.norm.weight + own.norm.bias
    memory = normed @ own.project.weight.T + own.project.bias + own.places
    score, cell = decoder.glance.score, decoder.cells.layers[0]
    s = torch.tanh(decoder.begin(memory.mean(0, keepdim=True)))
    expected = []
    for token, wanted in zip([END, *target], [*target, END], strict=True):
        energies = torch.tanh(s @ score.of_query[0].T + memory @ score.of_key[0].T) @ score.weights[0, 0, 0]
        beta = torch.sigmoid(s[0] @ decoder.glance.gate.weight[0] + decoder.glance.gate.bias)
        context = beta * (energies.softmax(0) @ memory)
        x = network.embedding(torch.tensor([[token]]))[0]
        s = cell(torch.cat((x, context[None]), 1)[None], s[None])[0][0]
        logits = torch.tanh(decoder.out(torch.cat((x, s, context[None]), 1))) @ network.output.weight.T
        expected.append((logits + network.output.shift).log_softmax(1)[0, wanted].item())
    np.testing.assert_allclose(given.score([np.array(target, np.int32)])[0], expected, atol=1e-5)


@torch.no_grad()
def test_a_paragraph_step_by_step() -> None:
    """A sentence begins after </s> and after token 5: s = LSTM([mean; h], s), t = tanh(V s), h, c = tanh(W t)."""
    model = random_pair(caption(decoder="hierarchical", sentence_end=5, attention="none", shared="none"))
    network, decoder = model.network, model.network.decoder
    given, target = model.given([PICTURE]), [6, 5, 20, 3]
    mean = given.bound.source.summary
    words, lstm = decoder.words.cells.layers[0], decoder.sentences.layers[0]
    h, c = (part[:, 0] for part in torch.tanh(decoder.words.begin(mean)).view(1, 2, 1, 16).unbind(1))
    sentence, topic = (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16)), None
    expected = []
    for token, wanted in zip([END, *target], [*target, END], strict=True):
        if token in (END, 5):
            hidden, sentence = lstm(torch.cat((mean, h), 1)[None], sentence)
            topic = torch.tanh(hidden[0] @ decoder.topic.weight.T + decoder.topic.bias)
            h, c = torch.tanh(decoder.first(topic)).chunk(2, 1)
        x = network.embedding(torch.tensor([[token]]))[0] + topic
        out, (h, c) = words(x[None], (h[None], c[None]))
        h, c = h[0], c[0]
        logits = torch.tanh(decoder.words.out(out[0])) @ network.output.weight.T + network.output.shift
        expected.append(logits.log_softmax(1)[0, wanted].item())
    np.testing.assert_allclose(given.score([np.array(target, np.int32)])[0], expected, atol=1e-5)


@torch.no_grad()
def test_half_of_the_hard_steps_may_be_soft() -> None:
    """With soft_share near 1, training attends as soft attention does, and nothing is left to REINFORCE."""
    hard = caption(attention="hard", estimator="reinforce", soft_share=0.999999, dropout=0.0)
    model, soft = random_pair(hard), random_pair(caption(dropout=0.0))
    source, everywhere = torch.from_numpy(PICTURE)[None], torch.ones(1, 6, dtype=torch.bool)
    soft.network.load_state_dict(
        {name.replace("full.", ""): x for name, x in model.network.state_dict().items()}, False
    )
    inputs = torch.tensor([[END, 4, 9]])
    hidden = model.network.train()(source, everywhere, inputs)
    assert hidden.shape == (1, 3, 1, 17)
    assert not hidden[..., -1].any()
    torch.testing.assert_close(hidden[:, :, 0, :-1], soft.network(source, everywhere, inputs))


@torch.no_grad()
def test_exact_hard_attention_is_trained_by_its_likelihood() -> None:
    model = random_pair(caption(attention="hard", dropout=0.0))
    source, everywhere = torch.from_numpy(PICTURE)[None], torch.ones(1, 6, dtype=torch.bool)
    targets, network = torch.tensor([[4, 9, END]]), model.network.train()
    hidden = network(source, everywhere, torch.tensor([[END, 4, 9]]))
    loss = network.output.loss(hidden, targets)
    model.network.eval()
    assert loss.item() == pytest.approx(-model.given([PICTURE]).score([np.array([4, 9], np.int32)])[0].sum(), abs=1e-4)
    with pytest.raises(SettingError, match="set attends to after"):
        caption(attention="hard", attends="before")


@torch.no_grad()
def test_hard_attention_is_summed_over_all_ways_to_choose() -> None:
    model = random_pair(PAIRS["GRU with hard attention, summed over"])
    network, target = model.network, [6, 3]
    given = model.given(SOURCES[:1])
    source, decoder = given.bound.source, network.decoder
    cells, _ = decoder.cells(network.embedding(torch.tensor([[END, *target]])), decoder.start(source).layers)
    score = decoder.glance.score
    weights = score(score.query(cells[:, None]), source.keys_and_values[0].keys).softmax(-1)[0, 0]  # (T, S)
    chances = []
    for choices in product(range(weights.shape[1]), repeat=3):  # a position for each of two tokens and </s>
        chance = 1.0
        for time, (position, wanted) in enumerate(zip(choices, [*target, END], strict=True)):
            hidden = torch.tanh(decoder.out(torch.cat((cells[0, time], source.memory[0, position]))))
            logits = network.output.full.weight @ hidden + network.output.full.shift
            chance *= weights[time, position].item() * logits.softmax(0)[wanted].item()
        chances.append(chance)
    found = given.score([np.array(target, np.int32)])[0].sum()
    assert found == pytest.approx(np.log(sum(chances)), abs=1e-4)
    assert given.is_exact
    assert not random_pair(PAIRS["LSTM with hard attention that goes on"]).given(SOURCES).is_exact


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_gradient_of_drawn_places_is_that_of_their_expected_loss(at_once: int) -> None:
    """REINFORCE over many draws against a plain sum over all ways to draw: the derivative of
    sum_z P(z_1) ... P(z_K) (-log mean_k P(w | z_k)).

    at_once: draws for each token, K, which are baselines of one another: fewer rows then come as near.
    """
    torch.manual_seed(0)
    config = replace(PAIRS["GRU with hard attention, summed over"], draws=at_once)
    network = random_pair(config).network.train()
    network.decoder.dropout = network.reader.dropout = 0.0
    for part in network.modules():
        if hasattr(part, "dropouts"):
            part.dropouts, part.output_dropout = [0.0] * len(part.dropouts), 0.0
    for block in network.reader.blocks:
        block.dropout = 0.0
    tokens = torch.tensor([[5, 9, 3, END]])
    seen, inputs, targets = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[END]]), torch.tensor([[7]])
    weight = network.decoder.cells.layers[0].weight_ih_l0
    draws = 3000 if at_once == 1 else 300
    hidden = network(tokens.expand(draws, -1), seen.expand(draws, -1), inputs.expand(draws, -1))
    loss = network.output.loss(hidden, targets.expand(draws, -1)) / draws
    [estimated] = torch.autograd.grad(loss, weight)
    network.eval()
    every = network(tokens, seen, inputs)  # (1, 1, S, D + 1)
    log_probs = network.output.full.log_probs_of(every[..., :-1].contiguous(), targets[..., None].expand(1, 1, 4))
    of_words, of_places = log_probs[0, 0].exp(), every[0, 0, :, -1].exp()
    bound = sum(
        of_places[list(places)].prod() * -of_words[list(places)].mean().log()
        for places in product(range(4), repeat=at_once)
    )
    [expected] = torch.autograd.grad(bound, weight)
    assert torch.nn.functional.cosine_similarity(estimated.flatten(), expected.flatten(), 0) > 0.9
    assert estimated.norm().item() == pytest.approx(expected.norm().item(), rel=0.3)


@torch.no_grad()
def test_a_window_sees_only_what_is_near_its_middle() -> None:
    model = random_pair(pair(decoder="lstm", attention="local", window=1))
    given = model.given(SOURCES[2:], alignments=True)
    state = given.start([NOTHING])
    for time in range(5):
        weights = given.attention(state)[0]
        assert set(np.flatnonzero(weights)) <= {time - 1, time, time + 1}
        state = given.advance(state, np.array([4], np.int32))


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(SettingError, match="cannot share vectors"):
        build_seq2seq(pair(shared="all"), 20, 30)
    with pytest.raises(SettingError, match="set decoder to lstm or gru"):
        pair(attention="hard")
    with pytest.raises(SettingError, match="heads of an even width"):
        pair(heads=3)
    model = random_pair(pair(max_source=4))
    with pytest.raises(SettingError, match="source 2 has 5 tokens; the model reads at most 3"):
        model.given([SOURCES[1], SOURCES[0]])
    with pytest.raises(SettingError, match=f"ids run from 0 to {VOCABULARY_SIZE - 1}"):
        model.given([np.array([99], np.int32)])
    with pytest.raises(SettingError, match="2 rows for 3 sources"):
        random_pair(pair()).given(SOURCES).start([NOTHING] * 2)


@pytest.mark.parametrize("style", ["vaswani", "modern"])
def test_shared_vectors_are_one_table(style: str) -> None:
    network = build_seq2seq(pair(shared="all", style=style), 20, 20)
    assert network.source_embedding.weight is network.embedding.weight is network.output.weight
    assert network.output.weight not in set(network.matrices())
