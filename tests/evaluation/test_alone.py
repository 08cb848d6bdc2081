"""A text's figures must not depend on what else is scored; texts longer than the context, read by a naive loop."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from random_networks import MODERN, random_model

import chainrule
from chainrule.evaluation.surprisal import word_borders, word_entropies
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.layers.matrix_products import log_softmax
from chainrule.neural.scoring import reads_alone

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.language_model import NeuralModel

TRAINING = chainrule.TrainingConfig(steps=1, compile="no")
LINES = ["ab a ab b", "a abb ba", "b ab a", "ba b a"]


def sequences(vocabulary: int) -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    return [draw.integers(3, vocabulary, draw.integers(1, 40)).astype(np.int32) for _ in range(64)]


@pytest.mark.parametrize("config", [MODERN, RecurrentConfig(width=24, layers=2)], ids=["transformer", "recurrent"])
def test_a_text_read_alone_has_the_same_bits_in_batches_of_1_7_and_64(config: NetworkConfig) -> None:
    model = random_model(config)
    model.network.alone = True
    texts = sequences(model.vocabulary_size)
    one, seven, all_ = (
        [row.tobytes() for i in range(0, 64, size) for row in model.score(texts[i : i + size])] for size in (1, 7, 64)
    )
    assert one == seven == all_
    assert "|alone" in model.stream_signature
    model.network.alone = False
    for row, other in zip(model.score(texts), one, strict=True):
        np.testing.assert_allclose(row, np.frombuffer(other, np.float32), atol=1e-5)


PACKED = {
    "rotary": TransformerConfig(width=64, layers=2, heads=4, key_value_heads=2, context=64, feed_forward="swiglu"),
    "learned": TransformerConfig(width=64, layers=2, heads=4, context=24, positions="learned", norm="layer"),
    "window": TransformerConfig(width=64, layers=2, heads=4, context=64, window=5, positions="alibi"),
}


@pytest.mark.parametrize("config", PACKED.values(), ids=PACKED)
def test_several_texts_in_a_pass_have_the_bits_of_each_alone(
    config: TransformerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainrule.neural.layers.matrix_products._LEAST", 0)  # all matrices go to the kernel
    monkeypatch.setattr("chainrule.neural.scoring.FEW", 100)
    model = random_model(config)
    texts = [*sequences(model.vocabulary_size), np.arange(3, 150, dtype=np.int32) % (model.vocabulary_size - 3) + 3]
    expected = model.score(texts)  # padded in batches
    model.network.alone = True
    with torch.inference_mode():
        assert model.network.packs_texts()
    passes = []
    monkeypatch.setattr(
        type(model.network),
        "read_texts",
        counted(type(model.network).read_texts, passes),  # the tokens of each pass
    )
    scores = {
        size: [row for i in range(0, 65, size) for row in model.score(texts[i : i + size])] for size in (1, 7, 65)
    }
    assert max(passes) > 60
    for one, seven, all_, near in zip(*scores.values(), expected, strict=True):
        assert one.tobytes() == seven.tobytes() == all_.tobytes()
        np.testing.assert_allclose(one, near, atol=1e-5)
    rows = np.concatenate([*model.text_rows(texts, 50)])
    apart = np.concatenate([part for text in texts for part in model.text_rows([text], 7)])
    assert rows.tobytes() == apart.tobytes()
    ended = np.concatenate([np.append(text, 2) for text in texts])
    np.testing.assert_allclose(rows[np.arange(len(rows)), ended], np.concatenate(scores[1]), atol=2e-6)


def counted(read: Any, passes: list[int]) -> Any:
    def counting(network: Any, tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        passes.append(tokens.shape[1])
        return read(network, tokens, lengths)

    return counting


def test_distributions_over_many_tokens_sum_to_one() -> None:
    """A row of torch's log-softmax is off by up to 1e-5 there, all its numbers by the same."""
    logits = 3 * torch.randn(3, 50_000, generator=torch.Generator().manual_seed(1))
    logits[:, 0] = 16  # a likely token, to which small probabilities are added
    exact, rough = logits.double().log_softmax(1), logits.log_softmax(1)
    assert (rough - exact).mean(1).abs().max() > 5e-6
    assert (log_softmax(logits) - exact).mean(1).abs().max() < 1e-6


def test_windows_of_a_long_text_are_read_as_alone_by_words() -> None:
    model = random_model(TransformerConfig(width=8, layers=2, heads=2, context=8, positions="learned"))
    text = np.random.default_rng(3).integers(3, model.vocabulary_size, 300).astype(np.int32)
    [found, alone] = (np.concatenate([*model.text_rows([text], 50)]) for model.network.alone in (False, True))
    assert found.tobytes() == alone.tobytes()


def test_large_networks_are_read_alone_where_that_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_model(MODERN).network
    assert not reads_alone(network)
    monkeypatch.setattr("chainrule.neural.scoring.ALONE_FROM", 100)
    assert reads_alone(network)
    network.alone = False
    assert not reads_alone(network)


@pytest.mark.parametrize("tokens", ["word", "character"])
@pytest.mark.parametrize("by", ["words", "tokens"])
def test_words_have_the_same_bits_whatever_stands_beside_them(tokens: str, by: str) -> None:
    config = chainrule.RecurrentConfig(width=8, layers=1)
    model = chainrule.train(chainrule.Lines(LINES * 40), config, tokenizer=tokens, training=TRAINING)
    texts = ["ab a", "", "b", "ab abb a b", "a"] * 13
    rows = chainrule.surprisal(chainrule.Lines(texts), model, by=by, ends=True, entropy=True).to_records()
    for number in range(5):
        alone = chainrule.surprisal(chainrule.Lines([texts[number]]), model, by=by, ends=True, entropy=True)
        assert [row for row in rows if row["sentence"] == number + 61] == [
            row | {"sentence": number + 61} for row in alone
        ]
    for others in ({"nats": False}, {"word_ends": False}, {"word_entropy": 2}):  # whatever columns stand beside them
        if by == "words" or "nats" in others:
            few = chainrule.surprisal(chainrule.Lines(texts), model, by=by, ends=True, **others)  # type: ignore[arg-type]
            for row, full in zip(few, rows, strict=True):
                shared = [name for name in full if name.startswith(("surprisal", "uncorrected")) and name in row]
                assert shared
                assert [row[name] for name in shared] == [full[name] for name in shared]
    plain = model.score(texts[:5])
    for number, log_prob in enumerate(plain.tolist(), 1):
        name = "uncorrected_bits" if by == "words" else "surprisal_bits"
        bits = [row[name] for row in rows if row["sentence"] == number]
        assert -math.fsum(bits) * math.log(2) == pytest.approx(log_prob, abs=1e-5)


def naive(model: NeuralModel, text: np.ndarray, context: int, stride: int) -> list[float]:
    """Each token in the first window, beginning at a multiple of the stride, that has it: one token at a time."""
    inputs, scores = [2, *text.tolist()], []
    for i, token in enumerate([*text.tolist(), 2]):
        begin = 0
        while begin + context <= i:
            begin += stride
        with torch.inference_mode():
            hidden, _ = model.network.read(torch.tensor([inputs[begin : i + 1]]))
            scores.append(float(model.network.output.log_probs(hidden[0, -1])[token]))
    return scores


@pytest.mark.parametrize("stride", [None, 1, 3, 7, 8])
def test_long_texts_are_scored_in_windows_by_the_stride(stride: int | None) -> None:
    model = random_model(TransformerConfig(width=8, layers=2, heads=2, context=8, positions="learned"))
    model.network.stride = stride
    text = np.random.default_rng(3).integers(3, model.vocabulary_size, 30).astype(np.int32)
    expected = naive(model, text, 8, stride or 4)
    np.testing.assert_allclose(model.score([text])[0], expected, atol=1e-5)
    rows = np.concatenate([*model.stream_rows(np.append(text, 2).astype(np.int32), 5)])
    np.testing.assert_allclose(rows[np.arange(31), [*text, 2]], expected, atol=1e-5)
    assert f"stride:{stride or 4}" in model.stream_signature


def test_a_stride_beyond_the_context_is_refused(tmp_path: Path) -> None:
    config = chainrule.TransformerConfig(width=8, layers=1, heads=2, context=16)
    chainrule.train(chainrule.Lines(LINES * 40), config, training=TRAINING).save(tmp_path / "lm")
    with pytest.raises(chainrule.SettingError, match=r"lm: window_stride is 17; expected 1 to 16, the tokens that"):
        chainrule.load(tmp_path / "lm", window_stride=17)
    opened = chainrule.load(tmp_path / "lm", chainrule.CausalModel, window_stride=4, alone=True)
    assert opened.engine.stream_signature.endswith("stride:4|alone")


@pytest.fixture(scope="module")
def letters() -> chainrule.CausalModel:
    return chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3), tokenizer="character")


def test_the_convention_of_minicons_by_hand(letters: chainrule.CausalModel) -> None:
    """A word ends before a space alone, not before the end of the text."""

    def space(prefix: str) -> float:
        return dict(letters.next(prefix, 20))["␠"]

    rows = chainrule.surprisal(chainrule.Lines(["ab a"]), letters, nats=True, convention="minicons").to_records()
    corrections = [row["uncorrected_nats"] - row["surprisal_minicons_nats"] for row in rows]
    expected = [math.log(space("ab")), math.log(space("ab a")) - math.log(space("ab"))]
    assert corrections == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("convention", ["chainrule", "minicons"])
def test_the_convention_of_minicons_has_the_whole_softmax_of_a_file(convention: str) -> None:
    """Here <s> never comes; minicons gives it what its logit says, and all others so much less."""
    config = TransformerConfig(width=32, layers=1, heads=2, context=64)
    model = chainrule.train(chainrule.Lines(LINES * 40), config, tokenizer="character", training=TRAINING)
    network, ids = model.engine.network, model.tokenizer.encode_texts(["ab a"]).ids.tolist()
    with torch.inference_mode():
        network.output.weight[1] = 2 * network.output.weight[3]
        hidden, _ = network.read(torch.tensor([[2, *ids[:-1]]]))
        logits = (hidden[0] @ network.output.weight.T).double()
    logits = logits.clone()
    if network.output.bias is not None:
        logits += network.output.bias.detach()
    if convention == "chainrule":
        logits[:, 1] = -math.inf
    tokens = -logits.log_softmax(1)[range(len(ids)), ids]
    rows = chainrule.surprisal(chainrule.Lines(["ab a"]), model, nats=True, convention=convention)
    expected = [float(tokens[:2].sum()), float(tokens[2:4].sum())]
    assert [row["uncorrected_nats"] for row in rows] == pytest.approx(expected, abs=1e-5)


def test_the_entropy_of_the_next_word_against_linear_equations(letters: chainrule.CausalModel) -> None:
    """A trigram model sees two letters: H(two) = h(it ends, or which letter comes) + the mean of H(next two)."""

    def known(prefix: str) -> tuple[float, dict[str, float]]:
        """P(the word ends), and that of each letter; z is unknown."""
        tokens = dict(letters.next(prefix, 20))
        return tokens["␠"] + tokens["</s>"], {"a": tokens["a"], "b": tokens["b"], "z": tokens["<unk>"]}

    table, waiting = {}, ["ab "]
    while waiting:
        prefix = waiting.pop()
        if prefix[-2:] not in table:
            table[prefix[-2:]] = known(prefix)
            waiting += [prefix + letter for letter in "abz"]
    rest = dict.fromkeys(table, 0.0)
    for _ in range(500):
        rest = {
            two: -end * math.log(end) + sum(p * (rest[two[1] + letter] - math.log(p)) for letter, p in own.items())
            for two, (end, own) in table.items()
        }
    first = dict(letters.next("ab", 20))
    stop = first["</s>"] / (first["␠"] + first["</s>"])
    expected = -stop * math.log(stop) + (1 - stop) * (rest["b "] - math.log(1 - stop))
    ids = letters.tokenizer.encode_texts(["ab a"]).ids[:-1]
    borders = word_borders(letters.tokenizer)
    assert borders is not None
    found = word_entropies(letters.language_model, ids, [0, 2, 4], borders, 4000)
    assert found.values[1] == pytest.approx(expected, abs=4 * found.errors[1])
    again = word_entropies(letters.language_model, ids, [0, 2, 4], borders, 4000)
    assert found.values.tolist() == again.values.tolist()
    rows = chainrule.surprisal(chainrule.Lines(["ab a"]), letters, entropy=True, word_entropy=50).to_records()
    assert all(row["word_entropy_bits"] > row["entropy_bits"] > 0 for row in rows[1:])
    assert all(0 < row["word_entropy_error_bits"] < 1 for row in rows)
