"""A model of every family and kind, by name, for the tests of what every model promises.

A new family is one more line in MODELS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from oracles import random_backoff_grams, table_of
from random_networks import (
    CAPTIONERS,
    DOCUMENT_NETWORKS,
    PAIRS,
    STREAM_NETWORKS,
    given_a_source,
    random_model,
    random_tree_model,
)

import chainrule
from chainrule import CacheConfig, NGramConfig, UniformConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.protocol import LanguageModel


def learned(config: Any, tokenizer: str = "whitespace") -> Callable[[Path], LanguageModel[Any]]:
    return lambda text: chainrule.train(text, config, tokenizer=tokenizer).language_model


def compact(model: Callable[[Path], LanguageModel[Any]]) -> Callable[[Path], LanguageModel[Any]]:
    """An n-gram model in the compact layout."""
    from chainrule.ngram.compact.building import compact_table
    from chainrule.ngram.models.table_models import CompactNGramModel

    return lambda text: CompactNGramModel(compact_table(model(text).table))  # type: ignore[attr-defined]


def in_shards(model: Callable[[Path], LanguageModel[Any]], shards: int) -> Callable[[Path], LanguageModel[Any]]:
    """An n-gram model in shards."""
    from chainrule.base.progress import silent
    from chainrule.ngram.saving import shard_model

    return lambda text: shard_model(model(text), shards, silent)


def with_missing_suffixes(text: Path) -> LanguageModel[Any]:
    from chainrule.ngram.models.table_models import NGramModel

    return NGramModel(table_of(random_backoff_grams(2, 13, 4), 4))


def mixed(
    *configs: Any, kind: str = "linear", classes: bool = False, again: bool = False
) -> Callable[[Path], LanguageModel[Any]]:
    def make(text: Path) -> LanguageModel[Any]:
        models = [chainrule.train(text, config, tokenizer="whitespace") for config in configs]
        config = chainrule.MixtureConfig(kind=kind, buckets=5 if classes else 1)  # type: ignore[arg-type]
        heldout = text.with_name("heldout.txt") if classes or kind == "linear" else None
        mixture = chainrule.mix(models, config, heldout=heldout)
        return (chainrule.mix([models[0], mixture]) if again else mixture).language_model

    return make


def residual(text: Path) -> LanguageModel[Any]:
    """A network that learned what a trigram leaves."""
    config = chainrule.RecurrentConfig(width=8, layers=1, context=8)
    training = chainrule.TrainingConfig(steps=3, batch=2, compile="no", precision="float32")
    return chainrule.train(text, config, tokenizer="whitespace", training=training, residual_of=3).language_model


def adaptive(*, sees_rows: bool = False, begins: str = "one") -> Callable[[Path], LanguageModel[Any]]:
    """With a gate that is drawn, so that weights move a lot, whatever there is to learn."""

    def make(text: Path) -> LanguageModel[Any]:
        from chainrule.mixture.adaptive import AdaptiveMixture, Gate, feature_count, linear_gate, witness

        configs = NGramConfig(order=3), NGramConfig(order=2, begins=begins), CacheConfig(words=9, order=3)  # type: ignore[arg-type]
        mixture = chainrule.mix([chainrule.train(text, config, tokenizer="whitespace") for config in configs])
        components, rng = mixture.language_model.components, np.random.default_rng(1)
        count = feature_count(3, sum(witness(model) is not None for model in components.models), sees_rows=sees_rows)
        gate = linear_gate(rng.normal(size=(count, 3)))
        if sees_rows:
            gate = Gate(gate.linear, rng.normal(size=(count, 4)), rng.normal(size=(4, 3)))
        return AdaptiveMixture(components, gate, np.full((1, 3), 1 / 3))

    return make


def with_a_stream(kind: str) -> LanguageModel[Any]:
    from chainrule.mixture.components import Components
    from chainrule.mixture.interpolation import LinearMixture, LogLinearMixture
    from chainrule.mixture.uniform import UniformModel

    network = random_model(next(iter(STREAM_NETWORKS.values())))
    components = Components(("neural", "uniform"), (network, UniformModel(network.vocabulary_size)))
    if kind == "linear":
        return LinearMixture(components, np.array([[0.7, 0.3]]))
    return LogLinearMixture(components, np.array([0.9, 0.1]))


def learning(name: str, **options: Any) -> Callable[[Path], LanguageModel[Any]]:
    """A network of random weights that learns as it reads."""

    def make(text: Path) -> LanguageModel[Any]:
        from chainrule.features.dynamic.model import DynamicModel
        from chainrule.models.config import DynamicOptions

        network: Any = random_model({**DOCUMENT_NETWORKS, **STREAM_NETWORKS}[name])
        return DynamicModel("recurrent", network, DynamicOptions(**{"segment": 3, "rate": 0.5, **options}))

    return make


def looking(name: str, *, store: int = 0, **settings: Any) -> Callable[[Path], LanguageModel[Any]]:
    """A network of random weights with a neural cache, or a datastore of so many random states, or both."""

    def make(text: Path) -> LanguageModel[Any]:
        from chainrule.features.neighbours.model import NeighbourModel
        from chainrule.features.neighbours.options import NeighbourSettings
        from chainrule.features.neighbours.states import Datastore

        network: Any = random_model({**DOCUMENT_NETWORKS, **STREAM_NETWORKS}[name])
        rng = np.random.default_rng(1)
        keys = rng.normal(size=(store, network.network.encoder.width)).astype(np.float16)
        tokens = rng.integers(2, network.vocabulary_size, store).astype(np.int32)
        near = {"neighbours_count": 7, "neighbours_temperature": 3.0, "neighbours_weight": 0.3} if store else {}
        chosen = NeighbourSettings(**{**near, **settings})
        return NeighbourModel("recurrent", network, chosen, Datastore(keys, tokens) if store else None)

    return make


def fewer_unseen(make: Callable[[Path], LanguageModel[Any]]) -> Callable[[Path], LanguageModel[Any]]:
    from chainrule.mixture.components import RescaledUnknown

    return lambda text: RescaledUnknown(make(text), 7.5)


MODELS: dict[str, Callable[[Path], LanguageModel[Any]]] = {
    "uniform": learned(UniformConfig()),
    "unigram": learned(NGramConfig(order=1)),
    "bigram": learned(NGramConfig(order=2)),
    "trigram": learned(NGramConfig(order=3)),
    "5-gram": learned(NGramConfig(order=5)),
    "trigram without unigram interpolation": learned(NGramConfig(order=3, interpolate_unigrams=False)),
    "pruned 4-gram": learned(NGramConfig(order=4, prune=(0, 1, 1, 2))),
    "5-gram of which the highest orders are empty": learned(NGramConfig(order=5, prune=(0, 0, 10**9))),
    "6-gram of characters": learned(NGramConfig(order=6), "character"),
    "6-gram of bytes, most of them never seen": learned(NGramConfig(order=6), "byte"),
    "4-gram with missing suffixes": with_missing_suffixes,
    "trigram in KenLM's hash tables": lambda text: chainrule.load(text.parent / "kenlm/rest.binary").language_model,
    "maximum likelihood trigram": learned(NGramConfig(order=3, smoothing="maximum-likelihood")),
    "Lidstone trigram": learned(NGramConfig(order=3, smoothing="lidstone")),
    "Jelinek-Mercer 4-gram after three <s>": learned(NGramConfig(order=4, smoothing="jelinek-mercer", begins="all")),
    "Witten-Bell 4-gram, pruned": learned(NGramConfig(order=4, smoothing="witten-bell", prune=(0, 0, 1))),
    "Good-Turing 6-gram of characters": learned(NGramConfig(order=6, smoothing="good-turing"), "character"),
    "Kneser-Ney trigram, backing off": learned(NGramConfig(order=3, smoothing="kneser-ney-backoff")),
    "absolute discounting, closed": learned(NGramConfig(order=3, smoothing="absolute", open_vocabulary=False)),
    "5-gram after four <s>": learned(NGramConfig(order=5, begins="all")),
    "cache": learned(CacheConfig(words=6)),
    "cache of 4-grams": learned(CacheConfig(words=11, order=4)),
    "linear mixture": mixed(NGramConfig(order=3), NGramConfig(order=2), UniformConfig()),
    "linear mixture by the token before, with a cache": mixed(
        NGramConfig(order=3), CacheConfig(words=20), classes=True
    ),
    "adaptive mixture": adaptive(),
    "adaptive mixture by distributions": adaptive(sees_rows=True),
    "adaptive mixture by distributions, step by step": adaptive(sees_rows=True, begins="all"),
    "log-linear mixture": mixed(NGramConfig(order=3), NGramConfig(order=1), kind="log-linear"),
    "mixture of mixtures": mixed(NGramConfig(order=2), UniformConfig(), kind="log-linear", again=True),
    "part of a mixture: trigram with fewer unseen types": fewer_unseen(learned(NGramConfig(order=3))),
    "part of a mixture: 3-gram after two <s> with fewer unseen types": fewer_unseen(
        learned(NGramConfig(order=3, begins="all"))
    ),
    "part of a mixture: compact trigram with fewer unseen types": fewer_unseen(compact(learned(NGramConfig(order=3)))),
    "5-gram in three shards": in_shards(learned(NGramConfig(order=5)), 3),
    "unigram in shards": in_shards(learned(NGramConfig(order=1)), 3),
    "4-gram with missing suffixes in shards": in_shards(with_missing_suffixes, 4),
    "compact unigram": compact(learned(NGramConfig(order=1))),
    "compact 5-gram": compact(learned(NGramConfig(order=5))),
    "compact 6-gram of bytes": compact(learned(NGramConfig(order=6), "byte")),
    "compact 4-gram with missing suffixes": compact(with_missing_suffixes),
}
for name, config in {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}.items():
    MODELS[name] = lambda text, config=config: random_model(config)
MODELS["LSTM of trees"] = lambda text: random_tree_model()
for name, pair in (PAIRS | CAPTIONERS).items():
    MODELS[name] = lambda text, pair=pair: given_a_source(pair)
for kind in ("linear", "log-linear"):
    MODELS[f"{kind} mixture with a stream"] = lambda text, kind=kind: with_a_stream(kind)
    MODELS[f"part of a mixture: {kind} mixture with a stream"] = fewer_unseen(
        lambda text, kind=kind: with_a_stream(kind)
    )
MODELS["mixture of a trigram and an LSTM on its residual"] = residual
DYNAMIC = {
    "LSTM that learns": learning("LSTM, tied"),
    "LSTM that learns from each document": learning("LSTM, tied", forgets=True, decay=0.1),
    "Transformer that learns": learning("Transformer, relative positions, grouped"),
    "Transformer that learns by adapters": learning("Transformer, llama, grouped", rank=2),
    "feed-forward network that learns": learning("feed-forward, deep, tied"),
}
MODELS |= DYNAMIC
NEAR = {"neural_cache_theta": 2.0, "neural_cache_weight": 0.4}
NEIGHBOURS = {
    "LSTM with a neural cache": looking("LSTM, tied", neural_cache=6, **NEAR),
    "Transformer with a cache and neighbours": looking(
        "Transformer, relative positions, grouped", store=40, neural_cache=50, **NEAR
    ),
    "bag with neighbours": looking("bag of a window", store=40),
    "LSTM with a neural cache of each document": looking(
        "LSTM of documents", neural_cache=4, **NEAR, neural_cache_forgets=True
    ),
}
MODELS |= NEIGHBOURS
STREAMS = {
    *DYNAMIC,
    *NEIGHBOURS,
    "mixture of a trigram and an LSTM on its residual",
    *STREAM_NETWORKS,
    "linear mixture with a stream",
    "log-linear mixture with a stream",
    "part of a mixture: linear mixture with a stream",
    "part of a mixture: log-linear mixture with a stream",
}  # what they remember goes on over the ends of documents
