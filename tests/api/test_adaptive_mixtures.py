"""Caches against naive counts; weights that adapt follow the model that knows more."""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule import CacheConfig, Lines, MixtureConfig, NGramConfig, UniformConfig
from chainrule.errors import ModelFormatError, SettingError
from chainrule.mixture.adaptive import gate_of
from chainrule.mixture.adaptive_kernels import describe_rows
from chainrule.mixture.cache import NGramCache
from chainrule.mixture.tuning import learn_gate, linear_weights
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def models(fixtures: Path) -> list[chainrule.Model]:
    configs: list[Any] = [NGramConfig(order=3), NGramConfig(order=1), UniformConfig()]
    return [chainrule.train(fixtures / "train.txt", config, tokenizer="whitespace") for config in configs]


def naive_cache(documents: list[list[int]], vocabulary_size: int, words: int, order: int) -> list[float]:
    found = []
    for document in documents:
        recent: deque[int] = deque(maxlen=words)
        for token in [*document, END]:
            kept = [word for word in recent if word not in (UNKNOWN, END)]
            p = (Counter(kept)[token] + 1 / (vocabulary_size - 1)) / (len(kept) + 1)
            seen = list(recent)
            for length in range(1, min(order, len(seen) + 1)):
                context = seen[len(seen) - length :]
                pairs = [(seen[i - length : i], seen[i]) for i in range(length, len(seen))]
                after = Counter(word for before, word in pairs if before == context and word not in (UNKNOWN, END))
                if after:
                    p = (after[token] + 2 * len(after) * p) / (sum(after.values()) + 2 * len(after))
            found.append(p)
            recent.append(token)
    return found


DOCUMENTS = st.lists(st.lists(st.sampled_from([0, 3, 4, 5, 6]), max_size=24), min_size=1, max_size=4)


@given(DOCUMENTS, st.integers(1, 12), st.integers(1, 5))
def test_a_cache_counts_the_ngrams_of_its_window(documents: list[list[int]], words: int, order: int) -> None:
    stream = np.array([token for document in documents for token in [*document, END]], np.int32)
    cache = NGramCache(7, words, order)
    found = cache.score_stream(stream)
    np.testing.assert_allclose(np.exp(found), naive_cache(documents, 7, words, order), rtol=1e-5)
    state, evidence = cache.start([np.empty(0, np.int32)]), cache.stream_evidence(stream)
    for token, score, own in zip(stream.tolist(), found, evidence, strict=True):
        [row] = cache.next_log_probs(state)
        assert np.exp(row, dtype=np.float64).sum() == pytest.approx(1)
        assert row[token] == pytest.approx(score, abs=1e-5)
        np.testing.assert_array_equal(cache.evidence(state), [own])
        state = cache.advance(state, np.array([token], np.int32))


def test_a_cache_forgets_what_left_its_window_however_long_the_document() -> None:
    """The table of counts is made anew many times, and grows."""
    rng = np.random.default_rng(1)
    document = rng.integers(3, 40, 6000).astype(np.int32)
    cache = NGramCache(40, 700, 4)
    found, rows = cache.score_stream(document), np.concatenate(list(cache.stream_rows(document, 1000)))
    for i in (1, 699, 700, 701, 2500, 5999):
        [alone] = cache.next_log_probs(cache.start([document[:i]]))
        assert found[i] == pytest.approx(alone[document[i]], abs=1e-5)
        np.testing.assert_allclose(rows[i], alone, rtol=0, atol=1e-5)


def test_a_cache_helps_where_words_come_back(models, tmp_path: Path) -> None:
    tokens = models[1].tokenizer.vocabulary.tokens()
    texts = [b" ".join([*tokens[i : i + 4]] * 6).decode() for i in range(10, 60, 4)]
    (tmp_path / "bursts.txt").write_text("\n".join(texts[::2]) + "\n")
    mixture = chainrule.mix(models[1:2], cache=CacheConfig(words=30), heldout=tmp_path / "bursts.txt")
    assert mixture.perplexity(Lines(texts[1::2])) < models[1].perplexity(Lines(texts[1::2])) / 2


def test_weights_that_adapt_follow_the_model_that_knows_the_document(tmp_path: Path) -> None:
    """Each document is of one of two languages with the same words; a model knows the order of words of one."""
    rng = np.random.default_rng(1)

    def text(step: int, name: str, lines: int) -> Path:
        (tmp_path / name).write_text(
            "".join(
                " ".join(f"w{(start + step * i) % 30}" for i in range(30)) + "\n"
                for start in rng.integers(30, size=lines)
            )
        )
        return tmp_path / name

    first = chainrule.train(text(1, "first.txt", 30), NGramConfig(order=2))
    first.save(tmp_path / "first")
    second = chainrule.train(text(7, "second.txt", 30), NGramConfig(order=2), tokenizer=str(tmp_path / "first"))
    both = "".join(text(step, f"{step}.txt", 6).read_text() for step in (1, 7) * 5)
    (tmp_path / "tune.txt").write_text(both)
    tests = Lines(both.splitlines()[::9])
    linear, adaptive = (
        chainrule.mix([first, second], MixtureConfig(adaptive=is_adaptive), heldout=tmp_path / "tune.txt")
        for is_adaptive in (False, True)
    )
    assert adaptive.perplexity(tests) < linear.perplexity(tests) * 0.8
    assert adaptive.record["gate_gain"] > 0.1
    engine, rows = adaptive.language_model, []
    for step in (1, 7):
        text = " ".join(f"w{step * i % 30}" for i in range(12))
        state = engine.start([adaptive.tokenizer.encode_texts([text]).ids[:-1]])
        rows.append(engine.weights_of(state)[0])
    assert rows[0][0] > 0.8
    assert rows[1][1] > 0.8


def test_a_gate_is_dropped_where_its_gain_may_be_chance() -> None:
    """Features say nothing of which model is right, but on a tenth of few tokens it may look as if they did."""
    chosen, tokens = 0, 130
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores = np.log(rng.beta(0.3, 0.6, (2, tokens)).clip(1e-4)).astype(np.float32)
        features = np.column_stack([np.ones(tokens), rng.normal(size=(tokens, 2))])
        chosen += learn_gate(scores, features, linear_weights(scores))[1] > 0
    assert chosen <= 1  # of 7 that gain anything on that tenth
    known = np.column_stack([features, np.sign(scores[0] - scores[1])])
    assert learn_gate(scores, known, linear_weights(scores))[1] > 0.1


def test_a_gate_that_sees_distributions_follows_the_model_that_is_sure(tmp_path: Path) -> None:
    """Each model knows what follows one of two words, and both know as much of the context: the evidence is alike."""
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(20)]

    def text(name: str, lines: int, known: tuple[bool, bool]) -> Path:
        rows = []
        for _ in range(lines):
            pairs = [
                (word, words[7 * i] if knows else words[rng.integers(20)])
                for i, (word, knows) in ((i, (["x", "y"][i], known[i])) for i in rng.integers(2, size=10))
            ]
            rows.append(" ".join(f"{first} {second}" for first, second in pairs) + "\n")
        (tmp_path / name).write_text("".join(rows))
        return tmp_path / name

    first = chainrule.train(text("first.txt", 60, (True, False)), NGramConfig(order=2))
    first.save(tmp_path / "first")
    second = chainrule.train(
        text("second.txt", 60, (False, True)), NGramConfig(order=2), tokenizer=str(tmp_path / "first")
    )
    tune, test = text("tune.txt", 50, (True, True)), text("test.txt", 30, (True, True))
    mixtures = {
        gate: chainrule.mix([first, second], MixtureConfig(adaptive=True, gate=gate), heldout=tune)  # type: ignore[arg-type]
        for gate in ("evidence", "default")
    }
    assert mixtures["default"].record["gate_sees"] == "distributions"
    assert mixtures["evidence"].record["gate_sees"] == "evidence"
    assert mixtures["default"].perplexity(test) < mixtures["evidence"].perplexity(test) * 0.8
    engine = mixtures["default"].language_model
    for known, word in enumerate("xy"):
        state = engine.start([mixtures["default"].tokenizer.encode_texts([word]).ids[:-1]])
        assert engine.weights_of(state)[0][known] > 0.9
    mixtures["default"].save(tmp_path / "mix")
    loaded = chainrule.load(tmp_path / "mix")
    np.testing.assert_array_equal(loaded.score([test.read_text()]), mixtures["default"].score([test.read_text()]))
    # Of equal models, no gate gains anything.
    for gate, sees in (("default", "evidence"), ("distributions", "distributions")):
        config = MixtureConfig(adaptive=True, gate=gate)  # type: ignore[arg-type]
        assert chainrule.mix([first, first], config, heldout=tune).record["gate_sees"] == sees


def test_what_a_gate_sees_of_distributions() -> None:
    """By hand: (1/2, 1/2) and (1, 0), whose mean is (3/4, 1/4), after an <unk> and a <s> without probability."""
    with np.errstate(divide="ignore"):
        rows = np.log(np.array([[[0, 0, 0.5, 0.5]], [[0, 0, 1, 0]]], np.float32))
    shapes = np.empty((1, 6))
    describe_rows(rows, shapes)
    half = math.log(1 / 2)
    expected = [half, -half, (math.log(2 / 3) + math.log(2)) / 2, 0, 0, math.log(4 / 3)]
    np.testing.assert_allclose(shapes[0], expected, rtol=0, atol=1e-7)


def test_a_cache_gives_its_distributions_along_a_stream() -> None:
    """In parts of any size, over ends of documents and where the window slides, they are those of its steps."""
    rng = np.random.default_rng(3)
    stream = np.where(rng.random(700) < 0.01, END, rng.integers(0, 9, size=700)).astype(np.int32)
    stream[stream == BEGIN] = 8
    for words, order in ((5, 1), (40, 4), (600, 20)):
        cache = NGramCache(9, words, order)
        state, expected = cache.start([stream[:0]]), []
        for token in stream.tolist():
            expected.append(cache.next_log_probs(state)[0])
            state = cache.advance(state, np.array([token], np.int32))
        for size in (1, 64, 1000):
            found = np.concatenate(list(cache.stream_rows(stream, size)))
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("gate", ["evidence", "distributions"])
def test_an_adaptive_mixture_reads_its_cache_once(gate: str, models, fixtures: Path, monkeypatch) -> None:
    """Counting takes longer than all else: scores, distributions and evidence come of one reading."""
    config = MixtureConfig(adaptive=True, gate=gate)  # type: ignore[arg-type]
    cache = CacheConfig(words=50, order=3)
    mixture = chainrule.mix(models[:1], config, cache=cache, heldout=fixtures / "heldout.txt")
    stream = mixture.tokenizer.encode_texts((fixtures / "heldout.txt").read_text().splitlines()[:3]).ids
    read, readings = NGramCache._parts, []

    def counted(self: NGramCache, *arguments: Any, **options: Any) -> Any:
        readings.append(arguments)
        return read(self, *arguments, **options)

    monkeypatch.setattr(NGramCache, "_parts", counted)
    engine = mixture.language_model
    for score in (engine.score_stream, engine.score_stream_with_unknown, lambda text: engine.score([text[:-1]])):
        score(stream)
        assert len(readings) == 1
        readings.clear()


def test_what_adaptive_weights_need() -> None:
    for arrays in ({"gate": np.zeros(3)}, {"gate": np.zeros((3, 2)), "gate.inner": np.zeros((3, 1))}):
        with pytest.raises(ModelFormatError, match="the gate of the mixture is no matrix, or lacks one"):
            gate_of(arrays)
    with pytest.raises(SettingError, match="gate is evidence, but only adaptive weights have a gate"):
        MixtureConfig(gate="evidence")
    with pytest.raises(SettingError, match="gate is 'entropy'; choose default, evidence, distributions"):
        MixtureConfig(adaptive=True, gate="entropy")  # type: ignore[arg-type]
    for settings in ({"kind": "log-linear"}, {"buckets": 3}, {"weights": (0.5, 0.5)}):
        with pytest.raises(SettingError, match="adaptive=True does not go with "):
            MixtureConfig(adaptive=True, **settings)
    with pytest.raises(SettingError, match="order is 0; expected 1 to 32"):
        CacheConfig(order=0)


def test_a_mixture_with_a_stream_is_measured_as_a_stream_once_as_a_whole(models, fixtures: Path) -> None:
    from random_networks import random_model

    ngram = models[0]
    network = random_model(chainrule.RecurrentConfig(width=8, layers=1), ngram.vocabulary_size)
    recurrent = chainrule.CausalNetwork("recurrent", network, ngram.tokenizer, speller=ngram.speller)
    config = MixtureConfig(weights=(0.6, 0.4))
    lines = Lines(["ka vi nin", "nin ka", "vi"])
    stream = ngram.tokenizer.encode_texts(["ka vi nin", "nin ka", "vi"]).ids
    scores = [ngram.language_model.score_stream(stream), network.score_stream(stream)]
    expected = np.log(0.6 * np.exp(scores[0]) + 0.4 * np.exp(scores[1])).sum()
    for mixture in (
        chainrule.mix([ngram, recurrent], config),
        chainrule.mix([chainrule.mix([ngram, recurrent], config), ngram], MixtureConfig(weights=(1.0, 0.0))),
    ):
        found = mixture.evaluate(lines)
        assert found.log_prob == pytest.approx(expected, rel=1e-5)
        assert "|context:document+context:stream|warm-up:512" in found.signature
