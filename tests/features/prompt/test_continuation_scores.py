"""What continuations cost: sums of steps at the waist are the oracle, and greedy search, written out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.evaluation.continuations import Pair
from chainrule.features.prompt.continuations import continuation_log_probs, document_log_probs
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [
    Pair("vi sa man", " ka vi"),
    Pair("vi sa man ", "ka vi"),  # the same
    Pair("", "ka vi zyzzyva"),  # spelled
    Pair("zyzzyva is", " nin"),  # its spelling is not asked
    Pair("vi ma", "n to"),  # for subwords, a token may span the border
    Pair("na", "ïve café"),
    Pair("ga  bo", "\nfi"),
    Pair("ka vi", ""),
]


@pytest.fixture(scope="module", params=["word", "character", "bpe"])
def model(request: pytest.FixtureRequest, fixtures: Path) -> chainrule.Model:
    tokenizer = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=400) if request.param == "bpe" else request.param
    return chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=3), tokenizer=tokenizer)


def steps(model: chainrule.Model, pair: Pair) -> tuple[list[tuple[int, float]], list[int]]:
    """The tokens after the border with their prices, one after the other; and what greedy search takes there.

    The border is found by decoding one token more each time: what decodes to no more than the context is given.
    """
    tokenizer, language_model = model.tokenizer, model.language_model
    context = pair.context.rstrip()
    encoded = tokenizer.encode_texts([pair.context + pair.continuation])
    ids = encoded.ids[:-1]
    shown = tokenizer.decode(tokenizer.encode_texts([context]).ids[:-1])
    surfaces = [encoded.surface(i) for i in range(len(ids))]
    texts = [tokenizer.restore(b" ".join(surfaces[: i + 1])) for i in range(len(ids))]
    border = len(tokenizer.restore(b" ".join(surfaces_of(model, context)))) if shown else 0
    prices, likeliest = [], []
    for i, token in enumerate(ids.tolist()):
        if len(texts[i]) <= border:
            continue
        row = language_model.next_log_probs(language_model.start([ids[:i]]))[0].astype(np.float64)
        share, kinds = np.exp(row[0]), model.speller.unseen_types
        price = row[token] - np.log1p((kinds - 1) * share)
        if token == 0:
            price += np.log(kinds) + model.speller.log_probs([surfaces[i]])[0]
        prices.append((token, float(price)))
        row[0] = -np.inf
        likeliest.append(int(row.argmax()))
    return prices, likeliest


def surfaces_of(model: chainrule.Model, text: str) -> list[bytes]:
    encoded = model.tokenizer.encode_texts([text])
    return [encoded.surface(i) for i in range(encoded.ids.size - 1)]


def test_a_continuation_costs_the_steps_after_the_border(model: chainrule.Model) -> None:
    found, _ = continuation_log_probs(model.language_model, model.speller, model.tokenizer, PAIRS)
    expected = [sum(price for _, price in steps(model, pair)[0]) for pair in PAIRS]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[-1] == 0


def test_greedy_is_what_greedy_search_writes(model: chainrule.Model) -> None:
    asked = [*PAIRS]
    for prompt in ("ka vi", "vi sa", ""):
        sampling, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=6)
        [text] = model.generate(prompt, 1, sampling, limits, seed=1)
        asked += [Pair(prompt, text[len(prompt) :]), Pair(prompt, text[len(prompt) :] + " zebra")]
    _, found = continuation_log_probs(model.language_model, model.speller, model.tokenizer, asked)
    expected = []
    for pair in asked:
        prices, likeliest = steps(model, pair)
        expected.append([token for token, _ in prices] == likeliest)
    assert found.tolist() == expected
    assert found.any()
    assert not found.all()


def test_one_that_ends_costs_the_whole_text(model: chainrule.Model) -> None:
    texts = ["ka vi", "vi sa man ka vi nin"]
    pairs = [Pair("", text) for text in texts]
    found, _ = continuation_log_probs(model.language_model, model.speller, model.tokenizer, pairs, end=True)
    expected = [model.evaluate(chainrule.Lines([text])).text_log_prob for text in texts]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_it_is_what_is_left_of_the_tokens_where_a_tokenizer_cuts_before_spaces(fixtures: Path) -> None:
    """The rule of lm-evaluation-harness's TemplateLM: the tokens of both, without as many as the context has."""
    config = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=400)
    model = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=2), tokenizer=config)
    pairs = [Pair("vi sa man", " ka vi"), Pair("vi sa man  ", "ka vi"), Pair("ka", ", va be")]
    found, _ = continuation_log_probs(model.language_model, model.speller, model.tokenizer, pairs)
    for pair, log_prob in zip(pairs, found, strict=True):
        whole = model.tokenizer.encode_texts([pair.context + pair.continuation]).ids[:-1]
        given = len(model.tokenizer.encode_texts([pair.context.rstrip()]).ids) - 1
        asked = {"prefixes": [whole[:given]], "end": False}
        [scores] = model.language_model.score([whole[given:]], **asked)
        [shares] = model.language_model.unknown_log_probs([whole[given:]], **asked)
        known = np.log1p((model.speller.unseen_types - 1) * np.exp(shares.astype(np.float64)))
        assert log_prob == pytest.approx(float((scores - known).sum()), rel=1e-9)


@pytest.mark.parametrize("text", ["ka vi", "ga\nbo\n\nfi"])
def test_a_document_costs_what_evaluate_says(text: str, model: chainrule.Model, tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text(json.dumps({"text": text}) + "\n")
    [found] = document_log_probs(model.language_model, model.speller, model.tokenizer, [text])
    expected = model.evaluate(tmp_path / "text.jsonl", ends=False)
    assert found == pytest.approx(expected.text_log_prob, rel=1e-9)


@pytest.mark.parametrize("memory", ["document", "stream"])
def test_a_network_reads_each_document_as_evaluate_does(memory: str, fixtures: Path) -> None:
    config = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=8, memory=memory)  # type: ignore[arg-type]
    training = chainrule.TrainingConfig(steps=1, compile="no")
    model = chainrule.train(fixtures / "train.txt", config, training=training)
    texts = ["vi sa man ka vi nin va ka vi , ke be vi nin", "ka vi"]
    running = FAMILIES[model.family].stream_scoring(model.language_model)
    found = document_log_probs(model.language_model, model.speller, model.tokenizer, texts, running=running)
    expected = [model.evaluate(chainrule.Lines([text]), ends=False).text_log_prob for text in texts]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
