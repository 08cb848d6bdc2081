"""Every kind of model in every kind of mixture: what is saved opens again, with the same numbers."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from samples import sampled

import chainrule
from chainrule import CacheConfig, Lines, MixtureConfig, NGramConfig, TrainingConfig
from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = ["ka vi nin", "sa man ka", "ka vi sa", "nin nin man", "vi sa ka man"]
STEPS = TrainingConfig(steps=2, batch=2, compile="no", precision="float32", seed=3)
NETWORKS = {
    "transformer": chainrule.TransformerConfig(layers=1, width=16, heads=2, context=16),
    "recurrent": chainrule.RecurrentConfig(width=8, layers=1, context=8),
    "feedforward": chainrule.FeedforwardConfig(width=8, context=2),
}


def counted(**settings: Any) -> Callable[[Path], Any]:
    return lambda home: chainrule.train(Lines(TEXTS * 8), NGramConfig(**settings), tokenizer="whitespace")


def trained(name: str) -> Callable[[Path], Any]:
    return lambda home: chainrule.train(Lines(TEXTS * 8), NETWORKS[name], tokenizer="whitespace", training=STEPS)


def converted(make: Callable[[Path], Any], **settings: Any) -> Callable[[Path], Any]:
    def model(home: Path) -> Any:
        make(home).save(home / "made")
        chainrule.convert(home / "made", home / "converted", **settings)
        return chainrule.load(home / "converted")

    return model


def adapted(home: Path, *, bits: int | None = None) -> Any:
    """A network with an adapter that is not merged, which changes its numbers."""
    base = trained("transformer")(home)
    (base if bits is None else base.compact(bits=bits)).save(home / "base")
    training = TrainingConfig(steps=4, batch=2, learning_rate=0.1, compile="no", precision="float32", seed=1)
    chainrule.adapt(home / "base", Lines(TEXTS), lora=2, training=training).save(home / "adapter")
    return chainrule.load(home / "adapter")


def residual(home: Path) -> Any:
    network = NETWORKS["recurrent"]
    return chainrule.train(Lines(TEXTS * 8), network, tokenizer="whitespace", training=STEPS, residual_of=2)


def residual_of_an_adapter(home: Path) -> Any:
    adapted(home)
    network, known = NETWORKS["recurrent"], home / "adapter"
    return chainrule.train(Lines(TEXTS[::-1]), network, tokenizer=str(known), training=STEPS, residual_of=known)


KINDS: dict[str, Callable[[Path], Any]] = {
    "uniform": lambda home: chainrule.train(Lines(TEXTS * 8), chainrule.UniformConfig(), tokenizer="whitespace"),
    "cache": lambda home: chainrule.train(Lines(TEXTS * 8), CacheConfig(words=9, order=2), tokenizer="whitespace"),
    "trigram": counted(order=3),
    "after two <s>": counted(order=3, begins="all", smoothing="witten-bell"),
    "compact trigram": converted(counted(order=3), compact=True),
    "trigram in shards": converted(counted(order=3), shards=2),
    **{name: trained(name) for name in NETWORKS},
    "compact network": converted(trained("transformer"), compact=True),
    "adapter": adapted,
    "adapter on int8": lambda home: adapted(home, bits=8),
    "residual": residual,
    "residual of an adapter": residual_of_an_adapter,
    "mixture": lambda home: chainrule.mix([counted(order=2)(home), adapted(home)]),
}
MIXTURES: dict[str, dict[str, Any]] = {
    "linear": {"config": MixtureConfig(weights=(0.4, 0.6))},
    "log-linear": {"config": MixtureConfig(kind="log-linear", weights=(0.4, 0.6))},
    "buckets": {"config": MixtureConfig(buckets=2), "heldout": Lines(TEXTS)},
    "adaptive": {"config": MixtureConfig(adaptive=True), "heldout": Lines(TEXTS)},
    "with a cache": {"config": MixtureConfig(weights=(0.4, 0.3, 0.3)), "cache": CacheConfig(words=9)},
}


# All pairs; make test takes two mixtures for each kind of model.
PAIRS = list(product(KINDS, MIXTURES))
QUICK = [pair for number, pair in enumerate(PAIRS) if number % len(MIXTURES) in (number // len(MIXTURES) % 5, 3)]


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return KINDS[request.param](tmp_path_factory.mktemp("kind"))


@pytest.fixture(scope="module")
def bigram(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return counted(order=2)(tmp_path_factory.mktemp("bigram"))


@pytest.mark.spread(9)
@pytest.mark.parametrize(
    ("model", "kind"),
    [pytest.param(*pair.values[0], marks=pair.marks) for pair in sampled(PAIRS, QUICK)],
    indirect=["model"],
)
def test_what_is_saved_opens_with_the_same_numbers(kind: str, model: Any, bigram: Any, tmp_path: Path) -> None:
    mixture = chainrule.mix([bigram, model], **MIXTURES[kind])
    mixture.save(tmp_path / "mixture")
    assert chainrule.verify(tmp_path / "mixture").has_card
    opened = chainrule.load(tmp_path / "mixture")
    np.testing.assert_array_equal(opened.score(TEXTS), mixture.score(TEXTS))
    if kind == "linear":  # by hand, of the first word
        words = [bigram.tokenizer.encode_texts(["man"]).ids[:-1]]
        one, other, both = (np.exp(part.language_model.score(words, end=False)[0]) for part in (bigram, model, opened))
        np.testing.assert_allclose(both, 0.4 * one + 0.6 * other, rtol=1e-3)


def test_verify_opens_what_it_checks(tmp_path: Path) -> None:
    """Also where all bytes are as they were written: an adapter needs its base."""
    adapted(tmp_path)
    chainrule.verify(tmp_path / "adapter")
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelFormatError, match="no such model is here"):
        chainrule.verify(tmp_path / "adapter")
    vectors = chainrule.train_vectors(Lines(TEXTS * 8), chainrule.VectorsConfig(dimensions=4, epochs=1))
    vectors.save(tmp_path / "vectors")
    assert chainrule.verify(tmp_path / "vectors").bytes
