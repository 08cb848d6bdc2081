"""Neural caches and nearest neighbours, against the formulas written out one position at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from random_networks import DOCUMENT_NETWORKS, STREAM_NETWORKS, random_model

import chainrule as library
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.neighbours.model import NeighbourModel
from chainrule.features.neighbours.options import NeighbourSettings
from chainrule.features.neighbours.states import Datastore, Recent
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

STREAM = np.array([3, 4, 5, END, 6, 3, 4, 5, 4, END, 3, 4, 5, 6, 6, END, 7], np.int32)
NETWORKS = {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def by_hand(name: str, settings: NeighbourSettings, store: Datastore | None) -> np.ndarray:
    """The scores of STREAM, with the states that stepping gives."""
    network: Any = random_model(NETWORKS[name])
    state, scores = network.start([np.empty(0, np.int32)]), []
    keys: list[np.ndarray] = []
    tokens: list[int] = []
    for token in STREAM.tolist():
        hidden = state.next.hidden[0].numpy().astype(np.float64)
        probs = np.exp(network.next_log_probs(state)[0].astype(np.float64))
        mixed, rest = np.zeros_like(probs), 1.0
        if settings.neural_cache is not None and keys:
            shares = softmax(np.array([settings.neural_cache_theta * (hidden @ key) for key in keys]))
            for own, share in zip(tokens, shares, strict=True):
                mixed[own] += settings.neural_cache_weight * share
            rest -= settings.neural_cache_weight
        if store is not None:
            distances = ((store.keys.astype(np.float64) - hidden) ** 2).sum(1)
            near = np.argsort(distances)[: settings.neighbours_count]
            for own, share in zip(
                store.tokens[near], softmax(-distances[near] / settings.neighbours_temperature), strict=True
            ):
                mixed[own] += settings.neighbours_weight * share
            rest -= settings.neighbours_weight
        scores.append(np.log((mixed + rest * probs)[token]))
        keys, tokens = [*keys, hidden], [*tokens, token]
        if settings.neural_cache is not None:
            keys, tokens = keys[-settings.neural_cache :], tokens[-settings.neural_cache :]
        if settings.neural_cache_forgets and token == END:
            keys, tokens = [], []
        state = network.advance(state, np.array([token], np.int32))
    return np.array(scores)


def random_store(name: str, size: int) -> Datastore:
    network: Any = random_model(NETWORKS[name])
    rng = np.random.default_rng(2)
    keys = rng.normal(size=(size, network.network.encoder.width)).astype(np.float16)
    return Datastore(keys, rng.integers(2, network.vocabulary_size, size).astype(np.int32))


def looking(name: str, settings: NeighbourSettings, store: Datastore | None = None) -> NeighbourModel:
    return NeighbourModel("recurrent", random_model(NETWORKS[name]), settings, store)  # type: ignore[arg-type]


CACHE = {"neural_cache_theta": 3.0, "neural_cache_weight": 0.4}
STORE = {"neighbours_count": 9, "neighbours_temperature": 2.0, "neighbours_weight": 0.3}


@pytest.mark.parametrize(
    ("name", "settings", "size"),
    [
        ("LSTM, tied", {"neural_cache": 5, **CACHE}, 0),
        ("LSTM, tied", {"neural_cache": 1, **CACHE, "neural_cache_theta": 0.0}, 0),
        ("Transformer, relative positions, grouped", {"neural_cache": 100, **CACHE, "neural_cache_forgets": True}, 0),
        ("feed-forward, of documents", {"neural_cache": 6, **CACHE, **STORE}, 30),
        ("Transformer, gpt2", STORE, 50),
    ],
)
def test_scores_are_the_formula(name: str, settings: dict[str, Any], size: int) -> None:
    chosen, store = NeighbourSettings(**settings), random_store(name, size) if size else None
    expected = by_hand(name, chosen, store)
    np.testing.assert_allclose(looking(name, chosen, store).score_stream(STREAM), expected, atol=2e-5)
    still = random_model(NETWORKS[name]).score_stream(STREAM)  # type: ignore[union-attr]
    assert np.abs(expected - still).max() > 0.01


def test_long_streams_are_read_in_parts_of_any_size() -> None:
    stream = np.random.default_rng(3).integers(2, 8, 700).astype(np.int32)
    model = looking("LSTM, tied", NeighbourSettings(neural_cache=40, **CACHE))
    scores = model.score_stream(stream)
    rows = np.concatenate([*model.stream_rows(stream, 37)])
    np.testing.assert_allclose(rows[np.arange(700), stream], scores, atol=1e-5)
    np.testing.assert_allclose(np.exp(rows.astype(np.float64)).sum(1), 1, atol=1e-5)
    other = stream.copy()
    other[650:] = 5
    np.testing.assert_array_equal(model.score_stream(other)[:640], scores[:640])
    state = model.start([stream[:-1]])  # whose cache has grown from a prefix
    np.testing.assert_allclose(model.next_log_probs(state)[0], rows[-1], atol=1e-5)


def test_one_that_forgets_reads_each_document_as_if_it_were_the_first() -> None:
    model = looking("LSTM of documents", NeighbourSettings(neural_cache=50, **CACHE, neural_cache_forgets=True))
    apart = np.concatenate([model.score_stream(part) for part in (STREAM[:4], STREAM[4:10], STREAM[10:])])
    np.testing.assert_allclose(model.score_stream(STREAM), apart, atol=1e-5)


def test_the_nearest_are_those_of_sorting_whatever_the_blocks() -> None:
    rng = np.random.default_rng(4)
    keys = rng.integers(-2, 3, (40_000, 3)).astype(np.float16)  # of which many are equal
    store = Datastore(keys, rng.integers(3, 9, 40_000).astype(np.int32))
    queries = torch.from_numpy(rng.integers(-2, 3, (5, 3)).astype(np.float32))
    for nearest in (1, 100, 3000, 40_000):
        found = store.similar(queries, nearest)
        for query, places in zip(queries.numpy(), found.places.numpy(), strict=True):
            expected = np.lexsort((np.arange(40_000), ((keys.astype(np.float32) - query) ** 2).sum(1)))[:nearest]
            np.testing.assert_array_equal(np.sort(places), np.sort(expected))


def test_rows_of_a_cache_share_memory_and_do_not_change() -> None:
    empty = Recent(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    rows, row = [empty], empty
    for i in range(200):
        row = row.after(torch.tensor([float(i), 0.0]), i, 7)
        rows.append(row)
    other = rows[100].after(torch.zeros(2), 9, 7)
    for i, own in enumerate(rows):
        assert own.tokens.tolist() == [*range(max(0, i - 7), i)]
        assert own.keys[:, 0].tolist() == own.tokens.tolist()
    assert other.tokens.tolist() == [94, 95, 96, 97, 98, 99, 9]


def test_unknown_words_are_no_evidence_of_each_other(corpus: Path, tmp_path: Path) -> None:
    """Each <unk> of a text is another of many unseen types: P(<unk>) is never more than the network's."""
    text = library.Lines(["the xylo sat on the zeb", "a quag ran to the fjor", "the plim", "zorn and veld"] * 6)
    training = library.TrainingConfig(steps=30)
    network = library.train(corpus, library.RecurrentConfig(width=16, layers=1), training=training)
    assert network.speller.unseen_types > 1
    cached = library.with_neighbours(network, neural_cache=50, neural_cache_theta=1.0, neural_cache_weight=0.3)
    around = library.with_neighbours(
        network, neighbours=text, neighbours_count=9, neighbours_temperature=2.0, neighbours_weight=0.3
    )
    cached.save(tmp_path / "cached")
    stream = np.array([0, 0, 3, 0, END, 0], np.int32)
    alone = network.engine.score_stream_with_unknown(stream)[1]
    for model in (cached, library.load(tmp_path / "cached"), around):
        scores, unknown = model.engine.score_stream_with_unknown(stream)
        assert (unknown <= alone + 1e-6).all()
        np.testing.assert_array_equal(scores[stream == 0], unknown[stream == 0])
        [row] = model.engine.next_log_probs(model.engine.start([stream]))
        assert np.exp(row.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_begin_never_comes_from_a_cache() -> None:
    model = looking("LSTM, tied", NeighbourSettings(neural_cache=9, **CACHE))
    state = model.start([np.array([3, BEGIN, 4], np.int32)])
    [row] = model.next_log_probs(state)
    assert row[BEGIN] == -np.inf
    assert np.exp(row.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_a_datastore_of_another_network_is_refused() -> None:
    store = Datastore(np.zeros((3, 5), np.float16), np.array([3, 4, 5], np.int32))
    with pytest.raises(ModelFormatError, match="width 5, and tokens up to 5; the network has 8, and"):
        looking("LSTM, tied", NeighbourSettings(**STORE), store)
    store = Datastore(np.zeros((3, 12), np.float16), np.array([3, 4, 500], np.int32))
    with pytest.raises(ModelFormatError, match="tokens up to 500"):
        looking("RNN", NeighbourSettings(**STORE), store)
    with pytest.raises(ModelFormatError, match="damaged"):
        Datastore(np.zeros((3, 12), np.float16), np.array([3, 4], np.int32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, a network and an n-gram model."""
    folder = tmp_path_factory.mktemp("neighbours")
    (folder / "text.txt").write_text("the cat sat on the mat\na dog ran to the cat\n" * 20, encoding="utf-8")
    (folder / "tune.txt").write_text("the dog sat on the dog\nthe dog sat on the dog\n" * 12, encoding="utf-8")
    (folder / "test.txt").write_text("a mat ran to a mat\na mat ran to a mat\n" * 8, encoding="utf-8")
    network = library.train(
        folder / "text.txt",
        library.RecurrentConfig(width=16, layers=1, context=8),
        training=library.TrainingConfig(steps=30),
    )
    network.save(folder / "net")
    library.train(folder / "text.txt", library.NGramConfig(order=2), tokenizer=str(folder / "net")).save(folder / "lm")
    return folder


def test_verbs_make_and_take_networks_with_neighbours(
    chainrule: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    network, test = library.load(folder / "net"), folder / "test.txt"
    still = network.evaluate(test).perplexity
    shown = chainrule(
        "mix",
        folder / "net",
        *("--neural-cache", "30", "--neighbours", folder / "text.txt", "--neighbours-count", "50"),
        *("--tune", folder / "tune.txt", "-o", tmp_path / "knn"),
    )
    assert [line.split()[0] for line in shown.lines[:4]] == ["model", "network", "cache", "neighbours"]
    model = library.load(tmp_path / "knn", library.CausalModel)
    measured = model.evaluate(test)
    assert measured.perplexity < 0.8 * still
    assert "neural-cache:30,theta=" in measured.signature
    assert "neighbours:" in measured.signature
    assert f"{measured.perplexity:,.4f}" in chainrule("evaluate", tmp_path / "knn", test).out
    same = library.with_neighbours(
        network, neural_cache=30, neighbours=folder / "text.txt", neighbours_count=50, heldout=folder / "tune.txt"
    )
    assert same.evaluate(test).perplexity == pytest.approx(measured.perplexity, rel=1e-6)
    assert chainrule("verify", tmp_path / "knn", "--distribution", "--text", test).status == 0
    assert chainrule("generate", tmp_path / "knn", "the cat", "-n", "2", "--seed", "1").status == 0
    assert len(chainrule("score", tmp_path / "knn", test, "--running").lines) == 16
    assert "neighbours" in chainrule("info", tmp_path / "knn").out

    passages = json.loads(chainrule("next", tmp_path / "knn", "the cat sat on", "--passages", "3", "--json").out)
    text = (folder / "text.txt").read_text(encoding="utf-8")
    assert all(f"{row['context']} {row['token']}".replace(" </s>", "\n") in text for row in passages)
    assert all((row["document"] is None) != (row["tokens_ago"] is None) for row in passages)
    assert [row["weight"] for row in passages] == sorted((row["weight"] for row in passages), reverse=True)

    chainrule("mix", tmp_path / "knn", folder / "lm", "--tune", folder / "tune.txt", "-o", tmp_path / "mix")
    mixed = library.load(tmp_path / "mix", library.CausalModel)
    assert mixed.evaluate(test).perplexity < still
    found = library.passages(mixed, "the cat sat on", 100)
    assert sum(row.weight for row in found.rows) == pytest.approx(found.counted, rel=1e-4)


def test_theta_that_is_set_needs_no_text(chainrule: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    options = "--neural-cache", "9", "--neural-cache-theta", "0.5", "--neural-cache-weight", "0.2"
    shown = chainrule("mix", folder / "net", *options, "-o", tmp_path / "cache")
    assert "0.2000" in shown.out
    [row] = library.load(tmp_path / "cache").record["weights"]
    assert row == [0.8, 0.2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lm", "--neural-cache", "9", "--tune", "tune.txt"), "lm is an n-gram model"),
        (
            ("net", "--neural-cache", "9"),
            "--neural-cache-theta and --neural-cache-weight have to be set, or tuned on a text",
        ),
        (("net", "--neural-cache", "0", "--tune", "tune.txt"), "expected 1 to 1,048,576"),
        (("net", "--neural-cache-theta", "1"), "--neural-cache"),
        (("net", "--neural-cache", "9", "--neural-cache-theta", "-1", "--neural-cache-weight", "0.1"), "0 or more"),
        (("net", "--neighbours", "text.txt", "--neighbours-weight", "1", "--tune", "tune.txt"), "less than 1"),
        (
            ("net", "--neighbours", "text.txt", "--neighbours-count", "9000", "--tune", "tune.txt"),
            "--neighbours-count is 9,000, and the text has only 280 tokens",
        ),
        (("net", "--neighbours", "tune.txt", "--tune", "tune.txt"), "each token would find itself"),
        (("net", "--neighbours", "none.txt", "--tune", "tune.txt"), "none.txt"),
        (("net", "--neural-cache", "9", "--tune", "tune.txt", "--adaptive"), "is one model"),
        (("net", "lm", "--neural-cache", "9", "--static"), "--static"),
    ],
)
def test_wrong_settings_are_one_line(
    chainrule: Callable[..., Result], folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    named = [folder / word if (folder / word).exists() or word.endswith(".txt") else word for word in arguments]
    error = chainrule("mix", *named, "-o", tmp_path / "x").error
    assert message in error
    assert error.count("\n") <= 1


def test_wrong_calls_are_errors(folder: Path) -> None:
    network = library.load(folder / "net")
    for settings, message in (
        ({}, "nothing to look for"),
        ({"neural_cache": 5, "neighbours_temperature": 1.0}, "neighbours_temperature is 1.0, which needs neighbours"),
        (
            {"neural_cache": 5, "neural_cache_weight": 0.5, "neighbours": "x", "neighbours_weight": 0.6},
            "less than 1 in all",
        ),
    ):
        with pytest.raises(SettingError, match=message):
            library.with_neighbours(network, **settings)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="has no neighbours"):
        library.passages(network, "the")
    settings = {"neural_cache": 5, "neural_cache_theta": 1.0, "neural_cache_weight": 0.1}
    cached = library.with_neighbours(network, **settings)  # type: ignore[arg-type]
    with pytest.raises(
        SettingError,
        match="look for neighbours, and this is a network with neighbours; take the",
    ):
        library.with_neighbours(cached, **settings)  # type: ignore[arg-type]
