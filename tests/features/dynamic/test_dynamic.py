"""Networks that learn as they read, against the plain loop of dynamic evaluation."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from random_networks import STREAM_NETWORKS, random_model

import chainrule as library
from chainrule.errors import EstimationError, SettingError
from chainrule.features.dynamic.model import DynamicModel
from chainrule.models.config import DynamicOptions
from chainrule.neural.config import RecurrentConfig
from chainrule.neural.layers.state import detach
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

STREAM = np.array([3, 4, 5, END, 6, 3, 4, 5, 4, END, 3, 4, 5, 6, 6, END, 7], np.int32)


def learner(name: str, **options: Any) -> DynamicModel:
    return DynamicModel("recurrent", random_model(STREAM_NETWORKS[name]), DynamicOptions(**options))


def by_a_plain_loop(
    name: str, segment: int, rate: float, decay: float, stream: np.ndarray = STREAM, *, counts_unknown: bool = True
) -> np.ndarray:
    """The scores of a stream: the weights of a copy, changed in place after each segment."""
    network = copy.deepcopy(random_model(STREAM_NETWORKS[name]).network)
    weights = [*network.parameters()]
    trained = [weight.detach().clone() for weight in weights]
    gradients: list[list[torch.Tensor]] = []
    inputs = torch.tensor([END, *stream[:-1].tolist()])
    targets = torch.from_numpy(stream.astype(np.int64))
    state, scores = network.start(1), []
    for begin in range(0, len(stream), segment):
        part = slice(begin, begin + segment)
        hidden, state = network(inputs[None, part], state)
        log_probs = network.output.log_probs(hidden[0])[range(len(targets[part])), targets[part]]
        scores.append(log_probs.detach().numpy())
        state = detach(state)
        if len(targets[part]) < segment:
            break
        if not counts_unknown:
            log_probs = log_probs[targets[part] != UNKNOWN]
        if not len(log_probs):
            continue
        gradients.append([*torch.autograd.grad(-log_probs.mean(), weights)])
        with torch.no_grad():
            for i, (weight, own) in enumerate(zip(weights, trained, strict=True)):
                usual = torch.stack([each[i] ** 2 for each in gradients]).mean(0).sqrt()
                share = len(gradients) / (len(gradients) + 100)
                weight -= rate * share * gradients[-1][i] / (usual + 3 * usual.mean() + 1e-12)
                weight += decay * (own - weight)
    return np.concatenate(scores)


@pytest.mark.parametrize("name", ["LSTM, tied", "RNN", "Transformer, llama, grouped", "feed-forward, deep, tied"])
@pytest.mark.parametrize(("segment", "decay"), [(3, 0.0), (4, 0.2)])
def test_scores_are_those_of_a_plain_loop(name: str, segment: int, decay: float) -> None:
    found = learner(name, segment=segment, rate=0.9, decay=decay).score_stream(STREAM)
    np.testing.assert_allclose(found, by_a_plain_loop(name, segment, 0.9, decay), atol=2e-5)
    still = random_model(STREAM_NETWORKS[name]).score_stream(STREAM)
    np.testing.assert_allclose(found[:segment], still[:segment], atol=2e-5)
    assert np.abs(found[segment:] - still[segment:]).max() > 0.005


def test_one_of_many_unseen_types_teaches_nothing() -> None:
    stream = STREAM.copy()
    stream[[1, 6, 7, 8, 13]] = UNKNOWN
    options, network = DynamicOptions(segment=3, rate=0.9), random_model(STREAM_NETWORKS["LSTM, tied"])
    for counts in (True, False):
        found = DynamicModel("recurrent", network, options, counts_unknown=counts).score_stream(stream)
        expected = by_a_plain_loop("LSTM, tied", 3, 0.9, options.decay, stream, counts_unknown=counts)
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["LSTM, tied", "Transformer, relative positions, grouped", "Transformer, gpt2"])
def test_later_text_changes_nothing_before_it(name: str) -> None:
    model, other = learner(name, segment=3, rate=0.9), STREAM.copy()
    other[9:] = 5
    np.testing.assert_array_equal(model.score_stream(STREAM)[:9], model.score_stream(other)[:9])


def test_one_that_forgets_reads_each_document_as_if_it_were_the_first() -> None:
    model = DynamicModel(
        "transformer",
        random_model(library.TransformerConfig(width=16, heads=2, layers=1, context=16, memory="document")),
        DynamicOptions(segment=2, rate=0.9, forgets=True),
    )
    documents = [STREAM[:4], STREAM[4:10], STREAM[10:16]]
    apart = np.concatenate([model.score_stream(document) for document in documents])
    np.testing.assert_allclose(model.score_stream(STREAM[:16]), apart, atol=1e-5)


def test_the_trained_network_does_not_change() -> None:
    network = random_model(STREAM_NETWORKS["LSTM, tied"])
    before = network.score_stream(STREAM)
    DynamicModel("recurrent", network, DynamicOptions(segment=3, rate=0.9)).score_stream(STREAM)
    np.testing.assert_array_equal(network.score_stream(STREAM), before)
    assert not any(weight.grad is not None for weight in network.network.parameters())


def test_weights_that_are_no_numbers_are_said() -> None:
    model = learner("LSTM, tied", segment=3, rate=0.9)
    with torch.no_grad():
        model.network.embedding.weight[4] = 1e38
    with pytest.raises(EstimationError, match=r"with a rate of 0\.9; set a lower one"):
        model.score_stream(STREAM)


def test_verbs_take_networks_that_learn(chainrule: Callable[..., Result], tmp_path: Path) -> None:
    text, tune = tmp_path / "text.txt", tmp_path / "tune.txt"
    text.write_text("the cat sat on the mat\na dog ran to the cat\n" * 20, encoding="utf-8")
    tune.write_text("the dog sat on the dog\nthe dog sat on the dog\n" * 12, encoding="utf-8")
    network = library.train(
        text, library.RecurrentConfig(width=16, layers=1, context=8), training=library.TrainingConfig(steps=30)
    )
    network.save(tmp_path / "net")
    library.train(text, library.NGramConfig(order=2), tokenizer=str(tmp_path / "net")).save(tmp_path / "lm")
    learning = network.dynamic(segment=8, rate=0.3)
    still, better = network.evaluate(tune).perplexity, learning.evaluate(tune)
    assert better.perplexity < 0.8 * still
    assert "learns:segment=8,rate=0.3,decay=0" in better.signature
    options = "--dynamic", "--dynamic-segment", "8", "--dynamic-rate", "0.3"
    shown = chainrule("evaluate", tmp_path / "net", tune, *options)
    assert f"{better.perplexity:,.4f}" in shown.out
    lines = chainrule("score", tmp_path / "net", tune, *options, "--running").lines
    assert float(lines[-1].split()[0]) > float(lines[0].split()[0])

    mixing = "mix", tmp_path / "net", tmp_path / "lm", "--tune", tune, "--dynamic", "-o", tmp_path / "mix"
    chainrule(*mixing)
    mixture = library.load(tmp_path / "mix")
    assert mixture.evaluate(tune).perplexity < network.evaluate(tune).perplexity
    learning.save(tmp_path / "d")
    again = library.load(tmp_path / "d", library.CausalModel)
    assert again.family == "dynamic"
    assert again.evaluate(tune).perplexity == better.perplexity
    assert "learns" in chainrule("info", tmp_path / "d").out

    for command, message in (
        (("evaluate", tmp_path / "lm", tune, "--dynamic"), "only networks that continue texts learn as they read"),
        (("evaluate", tmp_path / "net", tune, "--dynamic-rate", "0.1"), "--dynamic"),
        (
            ("evaluate", tmp_path / "net", tune, "--dynamic", "--dynamic-rate", "2"),
            "net: --dynamic-rate is 2.0; expected",
        ),
        (
            ("mix", tmp_path / "net", "--dynamic", "--dynamic-decay", "1", "-o", tmp_path / "x"),
            "--dynamic-decay is 1.0; ",
        ),
        (("mix", tmp_path / "lm", "--dynamic", "--cache", "50", "-o", tmp_path / "x"), "lm is an n-gram model"),
        (("evaluate", tmp_path / "mix", tune, "--dynamic"), "change the networks before you mix them"),
        (("mix", tmp_path / "net", tmp_path / "lm", "--dynamic", "--static", "-o", tmp_path / "x"), "--static"),
    ):
        assert message in chainrule(*command).error
    with pytest.raises(SettingError, match="rank is for the adapters of Transformers"):
        network.dynamic(rank=4)
    with pytest.raises(SettingError, match="a network that learns as it reads; take the network alone"):
        learning.dynamic()


@pytest.mark.parametrize("name", STREAM_NETWORKS)
def test_transformers_learn_at_a_lower_rate(name: str) -> None:
    usual = 0.002 if STREAM_NETWORKS[name].blocks else 0.006
    assert f"rate={usual:g}," in learner(name).stream_signature
    assert learner(name).options == learner(name, rate=usual).options
    assert "rate=0.01," in learner(name, rate=0.01).stream_signature


@pytest.mark.parametrize(("width", "usual"), [(256, 0.006), (257, 0.002)])
def test_wide_networks_learn_at_a_lower_rate(width: int, usual: float) -> None:
    model = random_model(RecurrentConfig(layers=1, width=width, context=8))
    assert f"rate={usual:g}," in DynamicModel("recurrent", model, DynamicOptions()).stream_signature
