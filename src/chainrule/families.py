"""The table of model families: how to configure, train, save and restore each.

Importing this module loads no engine: the functions below import what they need when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chainrule.errors import ModelFormatError, SettingError
from chainrule.mixture.config import CacheConfig, MixtureConfig
from chainrule.neural.config import NETWORKS, TWO_SIDED, TextEncoderConfig
from chainrule.neural.config.conditional import ConditionalConfig
from chainrule.neural.config.tree import TreeConfig
from chainrule.ngram.config import COMPACT, NGramConfig
from chainrule.protocol import UNKNOWN
from chainrule.training.finetuning_config import FineTuningConfig
from chainrule.uniform import UniformConfig, UniformModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.ownership import MaybeOwned
    from chainrule.base.progress import Progress
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.neural.classifier import Classifier
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.labelling.classifier import ScratchClassifier
    from chainrule.neural.language_model import NeuralModel
    from chainrule.neural.text_encoder import TextEncoder
    from chainrule.neural.tree_model import TreeModel
    from chainrule.neural.two_sided_model import TwoSidedModel
    from chainrule.ngram.model_class import AnyNGram
    from chainrule.ngram.models.compact_model import CompactNGramModel
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenizer import Tokenizer
    from chainrule.training.options import StreamOptions, TrainingRun

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


Job = Literal["continue", "fill", "embed", "classify"]


class Compaction(NamedTuple):
    """How models of a family become compact, quantised so that they take less room, and what undoes it.

    compact, unpack: (model, progress) -> model. Both raise SettingError; unpacking restores no precision.
    """

    compact: Callable[[Any, Progress], Any]
    unpack: Callable[[Any, Progress], Any]
    is_compact: Callable[[Any], bool]


@dataclass(frozen=True)
class Family:
    """What the rest of the program needs to know of a model family.

    train: (token stream, vocabulary size, configuration, progress) -> (model, training record). An owned stream may be
    freed early. A family that trains in steps borrows the stream, and also takes StreamOptions and a TrainingRun.
    take_apart: model -> (settings, arrays), which are saved.
    put_together: (settings, arrays, vocabulary size) -> model. Raises ModelFormatError.
    settled: (configuration, tokenizer) -> configuration, with what only the vocabulary can say. Raises SettingError.
    """

    config: type
    token_bytes: int  # least memory that training needs for each token of the text; 0 if the text can stay on disk
    train: Callable[..., tuple[Any, Json]]
    take_apart: Callable[[Any], tuple[Json, Arrays]]
    put_together: Callable[[Json, Arrays, int], Any]
    trains_in_steps: bool = False
    settled: Callable[[Any, Tokenizer], Any] = lambda config, tokenizer: config
    stream_scoring: Callable[[Any], StreamScoring | None] = lambda model: None  # for models that see across documents
    measure_options: Callable[[Any], Json] = lambda model: {}  # further arguments of `measure` for a model
    context: Callable[[Any], int | None] = lambda model: None  # the most tokens that a model reads at once, if limited
    embeds: bool = False  # whether its models are Embedders
    vectors_advice: str = "networks do"  # what to say where they are not
    job: Job = (
        "continue"  # of LanguageModels; "fill" of TwoSidedModels, "embed" of TextEncoders, "classify" of Classifiers
    )
    layout: Callable[[Any], str | None] = lambda model: None  # how an n-gram table lies in memory and on disk
    compaction: Compaction | None = None
    why_no_table: Callable[[Any], str | None] = lambda model: None  # why a model is more than an n-gram table, in words


def _train_uniform(
    stream: MaybeOwned[Int32[ndarray, " T"]], vocabulary_size: int, config: UniformConfig, progress: Progress
) -> tuple[UniformModel, Json]:
    return UniformModel(vocabulary_size), {}


def _put_together_uniform(settings: Json, arrays: Arrays, vocabulary_size: int) -> UniformModel:
    return UniformModel(vocabulary_size)


def _train_ngram(
    stream: MaybeOwned[Int32[ndarray, " T"]], vocabulary_size: int, config: NGramConfig, progress: Progress
) -> tuple[AnyNGram, Json]:
    from chainrule.ngram.training import train_ngram

    return train_ngram(stream, vocabulary_size, config, progress)


def _take_apart_ngram(model: AnyNGram | CompactNGramModel) -> tuple[Json, Arrays]:
    from chainrule.ngram.saving import take_apart

    return take_apart(model)


def _put_together_ngram(settings: Json, arrays: Arrays, vocabulary_size: int) -> AnyNGram | CompactNGramModel:
    from chainrule.ngram.saving import put_together

    return put_together(settings, arrays, vocabulary_size)


def _train_cache(
    stream: MaybeOwned[Int32[ndarray, " T"]], vocabulary_size: int, config: CacheConfig, progress: Progress
) -> tuple[LanguageModel[Any], Json]:
    from chainrule.mixture.cache import UnigramCache

    return UnigramCache(vocabulary_size, config.words), {}


def _put_together_cache(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    from chainrule.mixture.cache import UnigramCache

    words = settings.get("words")
    return UnigramCache(vocabulary_size, words)  # type: ignore[arg-type]  # UnigramCache checks it


def _train_mixture(
    stream: MaybeOwned[Int32[ndarray, " T"]], vocabulary_size: int, config: MixtureConfig, progress: Progress
) -> tuple[LanguageModel[Any], Json]:
    raise SettingError("a mixture is not trained on a text but made of models: chainrule mix, or chainrule.mix(models)")


def _take_apart_mixture(model: Any) -> tuple[Json, Arrays]:
    from chainrule.mixture.saving import take_apart

    return take_apart(model, lambda family, component: FAMILIES[family].take_apart(component))


def _put_together_mixture(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    from chainrule.mixture.saving import put_together

    continuing = {name: family.put_together for name, family in FAMILIES.items() if family.job == "continue"}
    return put_together(settings, arrays, vocabulary_size, continuing)


def _ngram_measure_options(model: Any) -> Json:
    from chainrule.ngram.model_class import measure_options

    return measure_options(model)


def _ngram_layout(model: Any) -> str:
    from chainrule.ngram.table_layouts import layout_of

    return layout_of(model)


def _compact_ngram(model: Any, progress: Progress) -> Any:
    from chainrule.ngram.table_layouts import compact

    return compact(model, progress)


def _unpack_ngram(model: Any, progress: Progress) -> Any:
    from chainrule.ngram.table_layouts import fast

    return fast(model, progress)


def _mixture_context(model: Any) -> int | None:
    """That of the component which reads least."""
    parts = [
        FAMILIES[name].context(component)
        for name, component in zip(model.components.families, model.components.models, strict=True)
    ]
    return min((part for part in parts if part is not None), default=None)


def _mixture_stream_scoring(model: Any) -> StreamScoring | None:
    """Scores a text in one stream if any component does."""
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.mixture.unseen_words import FewerUnseen

    parts = [
        FAMILIES[name].stream_scoring(component.model if isinstance(component, FewerUnseen) else component)
        for name, component in zip(model.components.families, model.components.models, strict=True)
    ]
    if not any(parts):
        return None
    contexts = dict.fromkeys("context:document" if part is None else part.signature for part in parts)
    return StreamScoring(model.score_stream_with_unknown, "+".join(contexts))


def _train_network(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: NetworkConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[NeuralModel, Json]:
    from chainrule.neural.language_model import NeuralModel
    from chainrule.training.run import train_network

    network, record = train_network(stream, vocabulary_size, config, options, run)
    return NeuralModel(network), record


def _take_apart_network(model: NeuralModel | TwoSidedModel | TextEncoder) -> tuple[Json, Arrays]:
    from chainrule.neural.saving import take_apart

    return take_apart(model)


def _put_together_network(kind: type[NetworkConfig]) -> Callable[[Json, Arrays, int], NeuralModel]:
    def put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> NeuralModel:
        from chainrule.neural import saving

        return saving.put_together(settings, arrays, vocabulary_size, kind)

    return put_together


def _compaction(put_together: Callable[[Json, Arrays, int], Any]) -> Compaction:
    """Of networks: their matrices in eight bits, where there are any that may be."""

    def compact(model: NeuralModel | TwoSidedModel, progress: Progress) -> Any:
        from chainrule.neural.quantising import packed_arrays

        settings, arrays = _take_apart_network(model)
        return put_together(settings, packed_arrays(model.network, arrays, progress), model.vocabulary_size)

    def unpack(model: NeuralModel | TwoSidedModel, progress: Progress) -> Any:
        from chainrule.neural.quantising import unpacked_arrays

        settings, arrays = _take_apart_network(model)
        return put_together(settings, unpacked_arrays(model.network, arrays), model.vocabulary_size)

    def is_compact(model: NeuralModel | TwoSidedModel) -> bool:
        from chainrule.neural.quantising import is_quantised

        return is_quantised(model.network)

    return Compaction(compact, unpack, is_compact)


def _network_context(model: NeuralModel | TwoSidedModel) -> int | None:
    return model.network.encoder.context


def _network_stream_scoring(model: NeuralModel) -> StreamScoring:
    from chainrule.evaluation.likelihood import StreamScoring

    return StreamScoring(model.score_stream_with_unknown, model.stream_signature)


def _train_two_sided(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: NetworkConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[TwoSidedModel, Json]:
    from chainrule.neural.two_sided_model import TwoSidedModel
    from chainrule.training.run import train_network

    network, record = train_network(stream, vocabulary_size, config, options, run)
    return TwoSidedModel(network), record


def _put_together_two_sided(kind: type[NetworkConfig]) -> Callable[[Json, Arrays, int], TwoSidedModel]:
    def put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> TwoSidedModel:
        from chainrule.neural.saving import network_from
        from chainrule.neural.two_sided_model import TwoSidedModel

        return TwoSidedModel(network_from(settings, arrays, vocabulary_size, kind))

    return put_together


def _two_sided_family(config: type[NetworkConfig]) -> Family:
    put_together = _put_together_two_sided(config)
    return Family(
        config=config,
        token_bytes=0,
        train=_train_two_sided,
        take_apart=_take_apart_network,
        put_together=put_together,
        trains_in_steps=True,
        context=_network_context,
        embeds=True,
        compaction=_compaction(put_together),
        job="fill",
    )


def _train_text_encoder(
    stream: Int32[ndarray, " T"], vocabulary_size: int, config: TextEncoderConfig, progress: Progress
) -> tuple[TextEncoder, Json]:
    raise SettingError(
        "a text encoder predicts no tokens, so plain text cannot train it; finetune takes labelled texts"
    )


def _put_together_text_encoder(settings: Json, arrays: Arrays, vocabulary_size: int) -> TextEncoder:
    from chainrule.neural.saving import network_from
    from chainrule.neural.text_encoder import TextEncoder

    return TextEncoder(network_from(settings, arrays, vocabulary_size, TextEncoderConfig))


def _network_family(config: type[NetworkConfig]) -> Family:
    put_together = _put_together_network(config)
    return Family(
        config=config,
        token_bytes=0,
        train=_train_network,
        take_apart=_take_apart_network,
        put_together=put_together,
        trains_in_steps=True,
        stream_scoring=_network_stream_scoring,
        context=_network_context,
        embeds=True,
        compaction=_compaction(put_together),
    )


def _with_brackets(config: TreeConfig, tokenizer: Tokenizer) -> TreeConfig:
    """Raises SettingError where the vocabulary has no brackets."""
    from chainrule.structures.tree_text import CLOSE, OPEN

    ids = tokenizer.vocabulary.id_of(OPEN), tokenizer.vocabulary.id_of(CLOSE)
    if UNKNOWN in ids:
        raise SettingError(
            "the text has no brackets, so it is none of trees; give a Treebank (document='tree'), with the whitespace "
            "tokenizer"
        )
    return replace(config, brackets=ids)


def _train_tree(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: TreeConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[TreeModel, Json]:
    from chainrule.neural.tree_model import TreeModel
    from chainrule.training.options import StreamOptions, TrainingRun
    from chainrule.training.run import run_job
    from chainrule.training.trees import tree_job

    network, record = run_job(
        tree_job(stream, vocabulary_size, config, options or StreamOptions()), run or TrainingRun()
    )
    return TreeModel(network), record


def _take_apart_tree(model: TreeModel) -> tuple[Json, Arrays]:
    from chainrule.neural.config.network import settings_of
    from chainrule.neural.saving import arrays_of

    return {"network": settings_of(model.network.config)}, arrays_of(model.network)


def _put_together_tree(settings: Json, arrays: Arrays, vocabulary_size: int) -> TreeModel:
    from chainrule.neural.saving import tree_network_from
    from chainrule.neural.tree_model import TreeModel

    return TreeModel(tree_network_from(settings, arrays, vocabulary_size))


def _train_conditional(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: ConditionalConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[LanguageModel[Any], Json]:
    raise SettingError("a conditional model learns from pairs: chainrule train translation, or chainrule.train_pairs")


def _take_apart_conditional(model: Any) -> tuple[Json, Arrays]:
    raise SettingError("a conditional model is not saved together with its source; save the model of pairs itself")


def _put_together_conditional(settings: Json, arrays: Arrays, vocabulary_size: int) -> LanguageModel[Any]:
    raise ModelFormatError("is a model of pairs and needs a source: chainrule translate, or chainrule.load(path).write")


def _train_classifier(
    stream: Int32[ndarray, " T"], vocabulary_size: int, config: FineTuningConfig, progress: Progress
) -> tuple[Classifier, Json]:
    raise SettingError("a classifier learns from labelled inputs: chainrule train classifier, or chainrule finetune")


def _take_apart_classifier(model: Classifier | ScratchClassifier) -> tuple[Json, Arrays]:
    """The arrays of the network get the prefix `network.` or `body.`, those of the head the prefix `head.`."""
    from chainrule.neural.classifier import Classifier
    from chainrule.neural.config.labelling import labelling_settings
    from chainrule.neural.saving import arrays_of, network_settings

    labels: Json = {"labels": list(model.labels), "unit": model.unit}
    if isinstance(model, Classifier):
        return {"base": family_of(model.network.config), **network_settings(model.network), **labels}, arrays_of(model)
    return {"scratch": labelling_settings(model.config), **labels}, arrays_of(model)


def _put_together_classifier(settings: Json, arrays: Arrays, vocabulary_size: int) -> Classifier | ScratchClassifier:
    from chainrule.neural.saving import classifier_from, scratch_classifier_from

    if "scratch" in settings:
        return scratch_classifier_from(settings, arrays, vocabulary_size)
    base = settings.get("base")
    if base not in FAMILIES or not FAMILIES[base].embeds:
        raise ModelFormatError(f"the classifier's base is {base!r}, which is no family of networks of this version")
    return classifier_from(settings, arrays, vocabulary_size, FAMILIES[base].config)


FAMILIES: dict[str, Family] = {
    "uniform": Family(UniformConfig, 4, _train_uniform, lambda model: ({}, {}), _put_together_uniform),
    "cache": Family(CacheConfig, 4, _train_cache, lambda model: ({"words": model.words}, {}), _put_together_cache),
    "mixture": Family(
        MixtureConfig,
        4,
        _train_mixture,
        _take_apart_mixture,
        _put_together_mixture,
        stream_scoring=_mixture_stream_scoring,
        context=_mixture_context,
        measure_options=lambda model: {"row_sums_of": model},
        why_no_table=lambda model: "it is a mixture; take the models that it was made from",
    ),
    "ngram": Family(
        NGramConfig,
        20,
        _train_ngram,
        _take_apart_ngram,
        _put_together_ngram,
        measure_options=_ngram_measure_options,
        layout=_ngram_layout,
        compaction=Compaction(_compact_ngram, _unpack_ngram, lambda model: _ngram_layout(model) == COMPACT),
        why_no_table=lambda model: model.why_no_table,
    ),
    # A language model only once it is given a source: chainrule.api.pair_model trains, saves and opens it.
    "conditional": Family(
        ConditionalConfig,
        0,
        _train_conditional,
        _take_apart_conditional,
        _put_together_conditional,
        trains_in_steps=True,
    ),
    **{name: _network_family(config) for name, config in NETWORKS.items()},
    **{name: _two_sided_family(config) for name, config in TWO_SIDED.items()},
    "tree": Family(
        TreeConfig,
        0,
        _train_tree,
        _take_apart_tree,
        _put_together_tree,
        trains_in_steps=True,
        settled=_with_brackets,
    ),
    "text-encoder": Family(
        TextEncoderConfig,
        0,
        _train_text_encoder,
        _take_apart_network,
        _put_together_text_encoder,
        embeds=True,
        job="embed",
    ),
    "classifier": Family(
        FineTuningConfig,
        4,
        _train_classifier,
        _take_apart_classifier,
        _put_together_classifier,
        job="classify",
        vectors_advice="take a language model, or the network that it was fine-tuned from",
    ),
}


def why_no_table(family: str, engine: object) -> str:
    """Why a model does not consist of an n-gram table alone, in words."""
    return FAMILIES[family].why_no_table(engine) or f"it is of family {family!r}, which has no n-grams"


def family_of(config: object) -> str:
    """The name of the family of a configuration. Raises TypeError if it is not a configuration of any."""
    for name, family in FAMILIES.items():
        if type(config) is family.config:
            return name
    known = ", ".join(family.config.__name__ for family in FAMILIES.values())
    raise TypeError(f"{config!r} is not a configuration of a model; expected one of {known}")
