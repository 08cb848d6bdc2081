"""Asked before the work: whether memory will do."""

from __future__ import annotations

import re
import weakref
from typing import Any

import numpy as np
import pytest

import chainrule
from chainrule.base import memory as system_memory
from chainrule.base.memory import available_memory
from chainrule.errors import EstimationError, SettingError
from chainrule.models.files import tokenizers
from chainrule.ngram.counting import count as memory
from chainrule.ngram.counting.count import check_memory, count_ngrams, expected_ngrams
from chainrule.text.corpus import plain_text


@pytest.fixture(scope="module")
def stream() -> np.ndarray:
    chance = np.random.default_rng(4)
    return np.append(np.minimum(chance.zipf(1.3, 200_000), 5000) + 1, 2).astype(np.int32)


def test_where_memory_will_not_do_it_is_reported_how_much_is_needed_and_which_order_fits(stream, monkeypatch) -> None:
    monkeypatch.setenv("CHAINRULE_MEMORY", "12M")
    with pytest.raises(EstimationError, match="counting 5-grams of 200,001 tokens needs about") as caught:
        check_memory(stream, 5002, 5)
    fitting = int(re.search(r"take order=(\d), or a shorter text", str(caught.value))[1])
    assert 1 <= fitting < 5
    check_memory(stream, 5002, fitting)
    with pytest.raises(EstimationError):
        check_memory(stream, 5002, fitting + 1)
    monkeypatch.setenv("CHAINRULE_MEMORY", "1K")
    with pytest.raises(EstimationError, match="are free; take a shorter text"):
        check_memory(stream, 5002, 2)


def test_a_model_whose_probabilities_take_the_place_of_counts_needs_less(stream, monkeypatch) -> None:
    grams = sum(expected_ngrams(stream, 5002, 5).at(stream.size))
    monkeypatch.setenv("CHAINRULE_MEMORY", str(16 * stream.size + 20 * grams))
    check_memory(stream, 5002, 5, keeps_counts=False)
    with pytest.raises(EstimationError):
        check_memory(stream, 5002, 5)
    monkeypatch.setenv("CHAINRULE_MEMORY", str(16 * stream.size + 20 * grams - 1))
    with pytest.raises(EstimationError):
        check_memory(stream, 5002, 5, keeps_counts=False)


def test_what_is_expected_of_a_sample_is_about_right(stream, monkeypatch) -> None:
    monkeypatch.setattr(memory, "SAMPLE", 20_000)
    expected = expected_ngrams(stream, 5002, 4).at(stream.size)
    actual = count_ngrams(stream, 5002, 4).level_sizes
    assert expected[0] == actual[0]
    assert all(0.9 * size <= guess <= 2 * size for size, guess in zip(actual, expected, strict=True))


def test_training_asks_before_it_counts(monkeypatch) -> None:
    monkeypatch.setenv("CHAINRULE_MEMORY", "100")
    with pytest.raises(EstimationError, match="CHAINRULE_MEMORY=64G"):
        chainrule.train(chainrule.Lines(["a b c"]))


@pytest.mark.parametrize(("said", "expected"), [("5", 5), ("8G", 8 << 30), ("1.5k", 1536), ("2TB", 2 << 40)])
def test_how_much_there_is_can_be_said(said: str, expected: int, monkeypatch) -> None:
    monkeypatch.setenv("CHAINRULE_MEMORY", said)
    assert available_memory() == expected


def test_an_odd_amount_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("CHAINRULE_MEMORY", "much")
    with pytest.raises(SettingError, match="expected a number of bytes, such as 8G"):
        available_memory()


def test_memory_is_limited_by_the_system_or_the_container(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("CHAINRULE_MEMORY", raising=False)
    free = available_memory()
    assert free is None or free > 1 << 20
    (tmp_path / "limit").write_text("4096\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(system_memory, "_CGROUP_LIMITS", (str(tmp_path / "limit"), str(tmp_path / "none"), "/no/such"))
    assert available_memory() == 4096


def test_a_text_that_cannot_fit_is_reported_before_it_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plain_text, "BLOCK_BYTES", 1000)
    (tmp_path / "text").write_text("a b c d e f g h i j\n" * 2000)  # 22,000 tokens, 20 bytes each
    read: list[float] = []
    monkeypatch.setenv("CHAINRULE_MEMORY", "400K")
    config = chainrule.NGramConfig(smoothing="good-turing")  # which cannot be counted on disk
    with pytest.raises(EstimationError, match=r"training on about 2\d,\d{3} tokens needs at least 4\d\d.\d kB"):
        chainrule.train(tmp_path / "text", config, progress=lambda task, done, total: read.append(done))
    assert max(read) < 20_000  # of 40,000 bytes
    monkeypatch.setenv("CHAINRULE_MEMORY", "1G")
    assert chainrule.train(tmp_path / "text").record["tokens"] == 20_000


@pytest.mark.parametrize(
    "train",
    [
        lambda text, folder, progress: chainrule.train(text, chainrule.NGramConfig(order=3), progress=progress),
        lambda text, folder, progress: chainrule.train(
            text, chainrule.NGramConfig(order=3, smoothing="kneser-ney"), tune=text, progress=progress
        ),
        lambda text, folder, progress: chainrule.count_text(text, folder / "counts", order=3, progress=progress),
    ],
    ids=["train", "tune", "count"],
)
def test_nobody_holds_the_text_once_its_unigrams_are_counted(train, tmp_path, monkeypatch) -> None:
    streams: list[weakref.ref[Any]] = []
    encoded = tokenizers.encode_stream

    def watched(*args: Any, **kwargs: Any) -> np.ndarray:
        stream = encoded(*args, **kwargs)
        streams.append(weakref.ref(stream))
        return stream

    held = []

    def progress(task: str, done: float, total: float | None) -> None:
        if task == "counting n-grams" and done >= 1:
            held.append(streams[0]() is not None)

    monkeypatch.setattr(tokenizers, "encode_stream", watched)
    train(chainrule.Lines(["a b c", "a b"]), tmp_path, progress)
    assert len(held) > 2
    assert not any(held)
