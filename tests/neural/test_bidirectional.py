"""Bidirectional networks: what they see, against torch's own layers; and scores, against one mask at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from random_networks import random_network

from chainrule.errors import SettingError
from chainrule.features.open.network.config import OpenMaskedConfig
from chainrule.neural.bidirectional_model import MASK, BidirectionalModel
from chainrule.neural.config import BidirectionalConfig, MaskedConfig, MaskedRecurrentConfig
from chainrule.neural.encoders.bidirectional import BidirectionalRecurrent
from chainrule.neural.saving import network_from, to_state
from chainrule.protocol import END

SMALL = {"layers": 2, "width": 16, "context": 12}
MASKED = {
    "Transformer of documents": MaskedConfig(**SMALL, heads=2),
    "Transformer of a stream": MaskedConfig(**SMALL, heads=2, memory="stream"),
    "Transformer, ALiBi in a window": MaskedConfig(**SMALL, heads=2, positions="alibi", window=3, memory="stream"),
    "Transformer, scored by distances, too": OpenMaskedConfig(
        **SMALL, heads=2, positions="none", distance_buckets=4, distance_limit=6
    ),
    "Transformer, one block for two": OpenMaskedConfig(**SMALL, heads=2, block_groups=1),
    "Transformer, relative": MaskedConfig(**SMALL, heads=2, positions="relative"),
    "LSTM of documents": MaskedRecurrentConfig(**SMALL, embedding_width=6, residual=True),
    "GRU of a stream, tied": MaskedRecurrentConfig(**SMALL, cell="gru", tied=True, memory="stream"),
}
APART = {
    "apart, of documents": BidirectionalConfig(**SMALL),
    "apart, of a stream": BidirectionalConfig(**SMALL, memory="stream", residual=True, embedding_width=16),
}
NETWORKS = {**MASKED, **APART}
TEXTS = [np.random.default_rng(length).integers(3, 29, length).astype(np.int32) for length in (5, 1, 9, 0, 5)]


def model(name: str) -> BidirectionalModel:
    return BidirectionalModel(random_network(NETWORKS[name]))


def read(network: BidirectionalModel, inputs: list[int]) -> torch.Tensor:
    """log P at each position: (T, V)."""
    with torch.no_grad():
        hidden, _ = network.network(torch.tensor([inputs]))
        return network.network.output.log_probs(hidden)[0]


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_score_reads_the_text_once_for_each_token(name: str) -> None:
    scorer = model(name)
    for text, found in zip(TEXTS, scorer.score(TEXTS, end=False), strict=True):
        for position, token in enumerate(text.tolist(), 1):
            inputs = [END, *text.tolist(), END]
            inputs[position] = MASK
            assert found[position - 1] == pytest.approx(float(read(scorer, inputs)[position, token]), abs=1e-4)


@pytest.mark.parametrize("name", APART)
def test_directions_apart_tell_all_tokens_at_once_and_never_see_them(name: str) -> None:
    scorer = model(name)
    for text, found in zip(TEXTS, scorer.score(TEXTS, end=False), strict=True):
        for position, token in enumerate(text.tolist(), 1):
            for other in (token, 7, 8):
                inputs = [END, *text.tolist(), END]
                inputs[position] = other
                assert found[position - 1] == pytest.approx(float(read(scorer, inputs)[position, token]), abs=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_end_is_certain_and_prefixes_are_not_scored(name: str) -> None:
    scorer = model(name)
    plain, ended = scorer.score(TEXTS, end=False), scorer.score(TEXTS)
    for text, without, with_end in zip(TEXTS, plain, ended, strict=True):
        assert len(with_end) == len(text) + 1
        np.testing.assert_allclose(with_end[:-1], without, atol=1e-4)
        assert with_end[-1] == 0
    parts = scorer.score([text[2:] for text in TEXTS], prefixes=[text[:2] for text in TEXTS])
    for part, whole, text in zip(parts, ended, TEXTS, strict=True):
        np.testing.assert_allclose(part, whole[len(text[:2]) :], atol=1e-4)
    stream = np.concatenate([[*text, END] for text in TEXTS]).astype(np.int32)
    np.testing.assert_allclose(scorer.score_stream(stream), np.concatenate(ended), atol=1e-4)


@pytest.mark.parametrize("name", ["Transformer of documents", "LSTM of documents", "GRU of a stream, tied"])
def test_of_a_long_text_as_much_is_read_around_a_token_as_was_in_training(name: str) -> None:
    scorer = model(name)
    text = np.random.default_rng(1).integers(3, 29, 40).astype(np.int32)
    inputs = [END, *text.tolist(), *[END] * (scorer.network.memory == "stream")]
    [found] = scorer.score([text], end=False)
    for position, token in enumerate(text.tolist(), 1):
        begin = min(max(0, position - 6), len(inputs) - 12)
        around = inputs[begin : begin + 12]
        around[position - begin] = MASK
        assert found[position - 1] == pytest.approx(float(read(scorer, around)[position - begin, token]), abs=1e-4)


def test_left_to_right_the_rest_of_a_word_is_masked_too() -> None:
    scorer = model("Transformer of a stream")
    begins = np.zeros(29, np.bool_)
    begins[[5, 6]] = True
    text = np.array([5, 9, 10, 6, 11, 5], np.int32)
    ends = [3, 3, 3, 5, 5, 6]  # by hand: words are 5 9 10, 6 11, 5
    [found] = scorer.score_left_to_right([text], begins)
    for position, (token, end) in enumerate(zip(text.tolist(), ends, strict=True)):
        inputs = [END, *text[:position], *[MASK] * (end - position), *text[end:], END]
        assert found[position] == pytest.approx(float(read(scorer, inputs)[position + 1, token]), abs=1e-4)
    [plain] = scorer.score([text], end=False)
    np.testing.assert_allclose(found[[2, 4, 5]], plain[[2, 4, 5]], atol=1e-4)
    with pytest.raises(SettingError, match="has no mask"):
        model("apart, of a stream").score_left_to_right([text], begins)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_place_sees_both_sides_of_its_document(name: str) -> None:
    scorer = model(name)
    inputs = torch.tensor([[END, 4, 5, 6, END, 7, 8]])
    hidden, _ = scorer.network(inputs)
    for changed in range(7):
        other = inputs.clone()
        other[0, changed] = 20
        if inputs[0, changed] == END:
            continue
        after, _ = scorer.network(other)
        differs = (after - hidden).abs().amax(2)[0] > 1e-6
        for position in range(7):
            same_document = (position < 4) == (changed < 4) or scorer.network.memory == "stream"
            within = abs(position - changed) <= 4 or "window" not in name
            itself = position == changed and name in APART
            assert bool(differs[position]) == (same_document and within and not itself), (position, changed)


def test_a_woven_layer_is_torchs_bidirectional_one() -> None:
    config = MaskedRecurrentConfig(layers=1, width=12, embedding_width=7)
    encoder = BidirectionalRecurrent(config)
    oracle = torch.nn.LSTM(7, 6, batch_first=True, bidirectional=True)
    for suffix, one in (("", encoder.pairs[0].ahead), ("_reverse", encoder.pairs[0].back)):
        for name, weight in one.layers[0].named_parameters():
            getattr(oracle, name + suffix).data.copy_(weight)
    x = torch.randn(2, 5, 7)
    torch.testing.assert_close(encoder(x)[0], oracle(x)[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_the_vectors_of_a_text_are_the_same_in_any_company(name: str) -> None:
    embedder = model(name)
    together = embedder.vectors(TEXTS)
    for text, vectors in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(vectors, embedder.vectors([text])[0], atol=1e-5)
    long = np.random.default_rng(1).integers(3, 29, 50).astype(np.int32)
    [vectors] = embedder.vectors([long])
    assert vectors.shape == (50, together[0].shape[1])
    assert np.isfinite(vectors).all()


def test_a_text_longer_than_the_network_is_scored_in_windows() -> None:
    scorer = model("Transformer of a stream")
    long = np.random.default_rng(1).integers(3, 29, 40).astype(np.int32)
    [found] = scorer.score([long], end=False)
    inputs = [END, *long.tolist(), END]
    position = 20
    inputs[position] = MASK
    window = read(scorer, inputs[position - 6 : position + 6])
    assert found[position - 1] == pytest.approx(float(window[6, long[position - 1]]), abs=1e-4)


def test_gaps_are_filled_from_both_sides() -> None:
    for name in ("Transformer of a stream", "apart, of a stream"):
        scorer = model(name)
        text = np.array([4, MASK, 6], np.int32)
        within = read(scorer, [END, 4, MASK, 6, END])[2:3]
        within[:, END] = -torch.inf  # the text goes on
        np.testing.assert_allclose(scorer.fill(text), within.log_softmax(-1), atol=1e-4)
    with pytest.raises(SettingError, match="there are 2 masks"):
        scorer.fill(np.array([MASK, MASK], np.int32))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_model_put_together_again_is_the_same(name: str) -> None:
    before = model(name)
    settings, arrays = to_state(before)
    config = type(NETWORKS[name])
    again = BidirectionalModel(network_from(json.loads(json.dumps(settings)), arrays, 29, [config]))
    np.testing.assert_array_equal(before.score(TEXTS)[2], again.score(TEXTS)[2])


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (MaskedConfig, {"masks": "letters"}, "expected tokens, words or spans"),
        (MaskedConfig, {"masked_share": 0.0}, "masked_share is 0.0"),
        (MaskedRecurrentConfig, {"random_share": 0.6, "kept_share": 0.6}, "lower one of them"),
        (MaskedRecurrentConfig, {"width": 5}, "a width of 5 cannot be shared by two directions"),
        (BidirectionalConfig, {"loss": "both"}, "expected together or apart"),
    ],
)
def test_settings_that_cannot_be_are_refused(kind: type, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        kind(**changes)
