"""Mixes models of any families into one (`mix`); merges n-gram models into one that interpolates them (`merge`); puts
another known distribution beside a network (`exchange`).
"""

from __future__ import annotations

import datetime
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.base.arguments import as_list
from chainrule.base.tables import count_of
from chainrule.errors import EstimationError, SettingError, prefix_errors
from chainrule.mixture.adaptive import AdaptiveMixture, can_see_rows, features_for_tuning, shapes_for_tuning
from chainrule.mixture.cache import NGramCache
from chainrule.mixture.components import Components, RescaledUnknown
from chainrule.mixture.config import MixtureConfig
from chainrule.mixture.interpolation import LinearMixture, LogLinearMixture
from chainrule.mixture.tuning import (
    GATE_TOKENS,
    HIDDEN,
    MAX_PROBS,
    classes_of_tokens,
    gate_weights,
    learn_gate,
    linear_weights,
    log_linear_weights,
)
from chainrule.models.any_model import check_kind, check_model
from chainrule.models.families.table import FAMILIES, why_no_table
from chainrule.models.files.tokenizers import difference_of
from chainrule.models.language_models import CausalModel
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.models.run import digests_read
from chainrule.ngram.config import COMPACT
from chainrule.ngram.editing.merging import merge_tables, renumber, scale_unknown
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.speller import Speller, mixed_speller
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.corpus import source_of
from chainrule.text.corpus.reading import document_in
from chainrule.text.tokenization.tokenizer import documents_of, encode_stream
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.mixture.config import CacheConfig
    from chainrule.models.model import Model
    from chainrule.ngram.speller import MixedSpeller
    from chainrule.ngram.trie.table import Table
    from chainrule.protocol import LanguageModel
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.tokenizer import Tokenizer


@shows_progress
def mix(
    models: Sequence[Model],
    config: MixtureConfig | None = None,
    *,
    heldout: Source | Paths | None = None,
    cache: CacheConfig | None = None,
    names: Sequence[str] | None = None,
    progress: ProgressOption = None,
) -> CausalModel:
    """Return a mixture of models of any families that share tokenizer and vocabulary.

    heldout: a text to tune the weights on, if the configuration has none. cache: adds a cache of recent words. names:
    the names of the models, for errors and the record. Adapters are merged with their bases. The speller is a mixture
    of theirs. <unk> stands for as many unseen types as in the model that expects the fewest; models that expect more
    are rescaled.
    Raises SettingError, TextError, EstimationError.

    good:  chainrule.mix([chainrule.load("a/"), chainrule.load("b/")], heldout="valid.txt").save("mix/")
    """
    progress = callback(progress)
    models = as_list("models", models)
    config = MixtureConfig() if config is None else config
    names = [f"model {i}" for i in range(1, len(models) + 1)] if names is None else list(names)
    components = _components(models, names, cache)
    names = [*names, *(["cache"] if cache is not None else [])]
    if config.weights is not None and len(config.weights) != len(names):
        listed = ", ".join(names)
        given = count_of(len(config.weights), "weight")
        raise SettingError(f"{given} for {len(names)} models ({listed}); give one for each")
    if config.weights is not None and heldout is not None:
        raise SettingError("weights and heldout are both given; give weights, or a text to tune them on")
    if (config.buckets > 1 or config.adaptive) and heldout is None:
        which = f"buckets is {config.buckets}" if config.buckets > 1 else "adaptive is set"
        raise SettingError(f"{which}, and such weights are tuned on a text; give one with heldout=...")
    tokenizer = models[0].tokenizer
    document = document_in(*(model.record for model in models))
    source = None if heldout is None else source_of(heldout, document)
    stream = None if source is None else heldout_stream(source, tokenizer, progress)
    record: dict[str, Any] = {
        "family": "mixture",
        "settings": asdict(config),
        "mixed": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "chainrule": __version__,
        "models": [{"name": name, "family": family} for name, family in zip(names, components.families, strict=True)],
        "data_of_models": digests_read(*(model.record for model in models)),
        **({} if document is None else {"reading": {"document": document}}),
    }
    if stream is not None and source is not None:
        unknown = int(np.count_nonzero(stream == UNKNOWN))
        record["tuned_on"] = {**source.record, "tokens": int(stream.size), "unknown_tokens": unknown}
    mixture = _mixture(components, config, stream, progress)
    record["weights"] = mixture.weights.tolist()
    if isinstance(mixture, AdaptiveMixture):
        record["gate_gain"], record["gate_sees"] = mixture.gain, mixture.sees
    return CausalModel("mixture", mixture, tokenizer, record, speller_of(models, mixture.weights))


def _components(models: Sequence[Model], names: Sequence[str], cache: CacheConfig | None) -> Components:
    """Return the models as components. Raises SettingError if there are too few, or they are not compatible."""
    for model in models:
        check_model(model)
    if len(models) + (cache is not None) < 2:
        raise SettingError("a mixture needs two models, or one and a cache")
    for name, model in zip(names, models, strict=True):
        with prefix_errors(name):
            is_distribution = check_kind(model, CausalModel).is_distribution
        if not is_distribution:
            raise SettingError(f"{name} cannot be mixed: it uses stupid backoff, whose scores are not a distribution")
    first = models[0].tokenizer
    for name, model in zip(names[1:], models[1:], strict=True):
        difference = difference_of(first, model.tokenizer)
        if difference:
            kept = name if models[0].family == "ngram" else names[0]
            advice = f"for example, chainrule train ngram TEXT --tokenizer {kept}"
            raise SettingError(f"{names[0]} and {name} cannot be mixed: {difference}; {advice}")
    fewest = fewest_unseen(models)
    families = [model.family for model in models]
    parts = [_with_unseen_types(model.merge(), fewest) for model in models]  # a mixture stands on no other folder
    if cache is not None:
        families.append("cache")
        parts.append(NGramCache(first.vocabulary_size, cache.words, cache.order))
    return Components(tuple(families), tuple(parts))


def fewest_unseen(models: Sequence[Model]) -> int:
    """Return the unseen types that <unk> stands for in a mixture: the fewest that any model expects."""
    return min(model.speller.unseen_types for model in models)


def _with_unseen_types(model: Model, types: int) -> LanguageModel[Any]:
    expected = model.speller.unseen_types
    return RescaledUnknown(model.language_model, expected / types) if expected > types > 0 else model.language_model


def speller_of(
    models: Sequence[Model], weights: Float64[ndarray, " models"] | Float64[ndarray, "classes models"]
) -> Speller | MixedSpeller:
    """Return a mixture of the models' spellers, with the same weights; a cache has no speller."""
    shares = np.atleast_2d(weights).mean(axis=0)[: len(models)]
    shares = shares if shares.any() else np.ones(len(models))
    vocabulary = models[0].tokenizer.vocabulary
    spellers = [model.speller for model in models]
    return mixed_speller(spellers, shares.tolist(), vocabulary, unseen_types=fewest_unseen(models))


def heldout_stream(source: Source, tokenizer: Tokenizer, progress: Progress) -> Int32[ndarray, " tokens"]:
    """Return the ids of a text to tune on. Raises TextError; EstimationError if the models know none of its tokens."""
    stream = encode_stream(tokenizer, source, progress)
    if np.all(stream == END):
        raise EstimationError(f"{', '.join(source.sources)}: has empty lines only, so no weights can be tuned on it")
    if np.all((stream == UNKNOWN) | (stream == END)):
        raise EstimationError(
            f"{', '.join(source.sources)}: the models know none of its tokens, so no weights can be tuned on it"
        )
    return stream


def _mixture(
    components: Components, config: MixtureConfig, stream: Int32[ndarray, " tokens"] | None, progress: Progress
) -> LinearMixture | LogLinearMixture | AdaptiveMixture:
    count = len(components.models)
    given = config.weights if config.weights is not None else (1 / count,) * count
    if config.kind == "log-linear":
        weights = np.array(given)
        if stream is not None:
            weights = log_linear_weights(components, _some_documents(stream, components.vocabulary_size), progress)
        return LogLinearMixture(components, weights)
    if stream is None:
        return LinearMixture(components, np.array([given]) / sum(given))
    scores = []
    for done, (name, model) in enumerate(zip(components.families, components.models, strict=True)):
        progress("scoring", done, count)
        scoring = None if isinstance(model, RescaledUnknown) else FAMILIES[name].stream_scoring(model)
        if scoring is None:
            scores.append(model.score_stream(stream))
            continue
        score = scoring.score_known or scoring.score
        scores.append(score(stream, lambda share, done=done: progress("scoring", done + share, count))[0])  # type: ignore[misc]
    scored = np.stack(scores)
    if config.adaptive:
        return _adaptive_mixture(components, config, scored[:, :GATE_TOKENS], stream[:GATE_TOKENS], progress)
    if config.buckets == 1:
        return LinearMixture(components, linear_weights(scored, progress=progress))
    classes = classes_of_tokens(stream, components.vocabulary_size, config.buckets)
    previous = np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])
    weights = linear_weights(scored, classes[previous], config.buckets + 1, progress)
    return LinearMixture(components, weights, classes)


_LEAST_GAIN = 0.001  # nats a token by which a gate that sees distributions, which costs more, has to be better


def _adaptive_mixture(
    components: Components,
    config: MixtureConfig,
    scores: Float32[ndarray, "models tokens"],
    stream: Int32[ndarray, " tokens"],
    progress: Progress,
) -> AdaptiveMixture:
    constant = linear_weights(scores, progress=progress)
    features = features_for_tuning(components, scores, stream)
    gate, gain = learn_gate(scores, features, constant, progress)
    is_asked = config.gate == "distributions"
    if is_asked or (config.gate == "default" and can_see_rows(components)):
        seeing = features_for_tuning(components, scores, stream, shapes_for_tuning(components, stream))
        other, other_gain = learn_gate(scores, seeing, constant, progress, hidden=HIDDEN)
        if is_asked or other_gain > gain + _LEAST_GAIN:
            gate, gain, features = other, other_gain, seeing
    return AdaptiveMixture(components, gate, gate_weights(gate, features).mean(axis=0, keepdims=True), gain)


def _some_documents(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> list[Int32[ndarray, " tokens"]]:
    """Return as many documents as fit as whole distributions, evenly spread over the text."""
    documents = documents_of(stream)
    most = max(200, MAX_PROBS // vocabulary_size)
    every = max(1, -(-stream.size // most))
    return documents[::every] if every > 1 else documents


@shows_progress
def merge(
    models: Sequence[Model],
    weights: Sequence[float] | None = None,
    *,
    heldout: Source | Paths | None = None,
    names: Sequence[str] | None = None,
    progress: ProgressOption = None,
) -> CausalModel:
    """Merge n-gram models into one that stores their linear interpolation (SRILM's -mix-lm).

    All must have the same kind of tokenizer. The vocabulary is the union; a model gives probability 0 to words that it
    lacks, and keeps its probability of <unk>. weights: one for each model; by default tuned on the held-out text, or
    equal without one. <unk> and the speller are as in `mix`; if vocabularies differ, a speller is trained on the union.
    Raises SettingError, TextError, EstimationError, ModelFormatError.
    """
    progress = callback(progress)
    names = [f"model {i}" for i in range(1, len(models) + 1)] if names is None else names
    if weights is not None and heldout is not None:
        raise SettingError("weights and heldout are both given; give weights, or a text to tune them on")
    if weights is not None:
        MixtureConfig(weights=tuple(weights))
        if len(weights) != len(models):
            given, listed = count_of(len(weights), "weight"), ", ".join(names)
            raise SettingError(f"{given} for {len(models)} models ({listed}); give one for each")
    models = [model.unpack(progress) if model.layout == COMPACT else model for model in models]
    tokenizer, tables = _over_one_vocabulary(models, names)
    fewest = fewest_unseen(models)
    ratios = [model.speller.unseen_types / max(fewest, 1) for model in models]
    tables = [scale_unknown(table, ratio) if ratio > 1 else table for table, ratio in zip(tables, ratios, strict=True)]
    document = document_in(*(model.record for model in models))
    source = None if heldout is None else source_of(heldout, document)
    if source is not None:
        stream = heldout_stream(source, tokenizer, progress)
        scores = np.stack([NGramModel(table).score_stream(stream) for table in tables])
        [tuned] = linear_weights(scores, progress=progress)
        weights = tuned.tolist()
    weights = [1 / len(models)] * len(models) if weights is None else list(weights)
    table = merge_tables(tables, [weight / sum(weights) for weight in weights], progress)
    record: dict[str, Any] = {
        "family": "ngram",
        "merged": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "chainrule": __version__,
        "models": [
            {"name": name, "family": "ngram", "ngrams": list(part.level_sizes)}
            for name, part in zip(names, tables, strict=True)
        ],
        "weights": [weights],
        "ngrams": list(table.level_sizes),
        "data_of_models": digests_read(*(model.record for model in models)),
        **({} if document is None else {"reading": {"document": document}}),
        **({} if source is None else {"tuned_on": source.record}),
    }
    if tokenizer.vocabulary is models[0].tokenizer.vocabulary:
        speller = speller_of(models, np.array(weights))
    else:
        literal_share = speller_of(models, np.array(weights)).literal_share
        learned = Speller.of_vocabulary(tokenizer, literal_share=literal_share)
        speller = mixed_speller([learned], [1.0], tokenizer.vocabulary, unseen_types=fewest)
    return CausalModel("ngram", NGramModel(table), tokenizer, record, speller)


def exchange(model: Model, known: Model, *, names: Sequence[str] | None = None) -> CausalModel:
    """Return a network with another n-gram model in place of the one whose residual it learned; nothing is trained.

    model: what `train` made with residual_of. known: an n-gram model with its tokenizer and vocabulary, such as one of
    the texts to come. names: of both, for the record. Raises SettingError.

    good:  chainrule.exchange(chainrule.load("plays/"), chainrule.train("law.txt", tokenizer="plays/"))
    """
    names = ["the model", "the known distribution"] if names is None else names
    engine = check_kind(model, CausalModel).language_model
    if not isinstance(engine, LogLinearMixture) or "residual_of" not in model.record:
        raise SettingError(f"{names[0]}: is no network on a residual; expected what train --residual-of has made")
    if difference := difference_of(model.tokenizer, known.tokenizer):
        raise SettingError(f"{names[0]} and {names[1]} cannot be joined: {difference}")
    with prefix_errors(names[1]):
        other = check_kind(known, CausalModel)
    if known.family != "ngram":
        raise SettingError(f"{names[1]}: is of family {known.family!r}; expected an n-gram model")
    if not other.is_distribution:
        raise SettingError(f"{names[1]}: uses stupid backoff; expected an n-gram model whose probabilities sum to one")
    families, models = engine.components.families, engine.components.models
    components = Components((families[0], known.family), (models[0], other.language_model))
    record = {
        **model.record,
        "exchanged": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "models": [model.record["models"][0], {"name": names[1], "family": known.family}],
        "residual_of": names[1],
        "data_of_models": digests_read(model.record, known.record),
    }
    return CausalModel("mixture", LogLinearMixture(components, engine.weights), model.tokenizer, record, model.speller)


def _over_one_vocabulary(models: Sequence[Model], names: Sequence[str]) -> tuple[Tokenizer, list[Table]]:
    """Return a tokenizer with the union of the vocabularies, and the tables in its ids. Raises SettingError."""
    if len(models) < 2:
        raise SettingError("merging needs two models or more")
    tables = []
    for name, model in zip(names, models, strict=True):
        with prefix_errors(name):
            language_model = model.language_model
        if not isinstance(language_model, NGramModel):
            raise SettingError(
                f"{name} cannot be merged into an n-gram model: {why_no_table(model.family, language_model)}"
            )
        tables.append(language_model.table)
    first = models[0].tokenizer
    if all(difference_of(first, model.tokenizer) is None for model in models[1:]):
        return first, tables
    vocabulary = Vocabulary()
    new_ids = []
    for name, model in zip(names, models, strict=True):
        difference = difference_of(first, model.tokenizer.with_vocabulary(first.vocabulary))
        if difference:
            raise SettingError(f"{names[0]} and {name} cannot be merged: {difference}")
        new_ids.append(vocabulary.absorb(model.tokenizer.vocabulary))
    size = len(vocabulary)
    return first.with_vocabulary(vocabulary), [
        renumber(table, own, size) for table, own in zip(tables, new_ids, strict=True)
    ]
