"""The table of model families: how to configure, train, save and restore each.

Importing this module loads no engine: the functions below import what they need when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chainrule.errors import ChainruleError, ModelFormatError, SettingError
from chainrule.mixture.config import CacheConfig, MixtureConfig
from chainrule.neural.config import NETWORKS, TWO_SIDED, TextEncoderConfig
from chainrule.neural.config.caption import CaptionConfig
from chainrule.neural.config.conditional import ConditionalConfig
from chainrule.neural.config.tree import TreeConfig
from chainrule.ngram.config import COMPACT, NGramConfig
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
    from chainrule.neural.labelling.boxes import BoxDetector
    from chainrule.neural.labelling.classifier import ScratchClassifier
    from chainrule.neural.language_model import NeuralModel
    from chainrule.neural.model_of_network import Engine
    from chainrule.neural.tree_model import TreeModel
    from chainrule.ngram.model_class import AnyNGram
    from chainrule.ngram.models.compact_model import CompactNGramModel
    from chainrule.protocol import LanguageModel
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
    settled: Callable[[Any, Any], Any] = lambda config, tokenizer: config
    stream_scoring: Callable[[Any], StreamScoring | None] = lambda model: None  # for models that see across documents
    measure_options: Callable[[Any], Json] = lambda model: {}  # further arguments of `measure` for a model
    context: Callable[[Any], int | None] = lambda model: None  # the most tokens that a model reads at once, if limited
    embeds: bool = False  # whether its models are Embedders
    job: Job = "continue"  # what its models do
    layout: Callable[[Any], str | None] = lambda model: None  # how an n-gram table lies in memory and on disk
    compaction: Compaction | None = None
    why_no_table: Callable[[Any], str | None] = lambda model: None  # why a model is more than an n-gram table, in words


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
) -> tuple[Engine, Json]:
    from chainrule.neural.model_of_network import engine_of
    from chainrule.training.run import train_network

    network, record = train_network(stream, vocabulary_size, config, options, run)
    return engine_of(network), record


def _take_apart_network(model: Engine) -> tuple[Json, Arrays]:
    from chainrule.neural.saving import take_apart

    return take_apart(model)


def _putting_together(config: type[NetworkConfig]) -> Callable[[Json, Arrays, int], Engine]:
    def put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> Engine:
        from chainrule.neural import saving

        return saving.put_together(settings, arrays, vocabulary_size, config)

    return put_together


def _compact_network(model: Engine, progress: Progress) -> Engine:
    from chainrule.neural.compact import compact

    return compact(model, progress)


def _unpack_network(model: Engine, progress: Progress) -> Engine:
    from chainrule.neural.compact import unpack

    return unpack(model, progress)


def _is_compact_network(model: Engine) -> bool:
    from chainrule.neural.compact import is_compact

    return is_compact(model)


def _network_stream_scoring(model: NeuralModel) -> StreamScoring:
    from chainrule.evaluation.likelihood import StreamScoring

    return StreamScoring(model.score_stream_with_unknown, model.stream_signature)


def _network_family(config: type[NetworkConfig], job: Job, **fields: Any) -> Family:
    """A family of networks that predict tokens."""
    return Family(
        config=config,
        token_bytes=0,
        train=_train_network,
        take_apart=_take_apart_network,
        put_together=_putting_together(config),
        trains_in_steps=True,
        context=lambda model: model.network.encoder.context,
        embeds=True,
        compaction=Compaction(_compact_network, _unpack_network, _is_compact_network),
        job=job,
        **fields,
    )


def _with_brackets(config: TreeConfig, tokenizer: Any) -> TreeConfig:
    from chainrule.neural.tree_network import with_brackets

    return with_brackets(config, tokenizer)


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
    from chainrule.neural.tree_saving import take_apart

    return take_apart(model)


def _put_together_tree(settings: Json, arrays: Arrays, vocabulary_size: int) -> TreeModel:
    from chainrule.neural.tree_saving import put_together

    return put_together(settings, arrays, vocabulary_size)


def _take_apart_classifier(model: Classifier | ScratchClassifier) -> tuple[Json, Arrays]:
    from chainrule.neural.classifier_saving import take_apart

    return take_apart(model, family_of)


def _put_together_classifier(
    settings: Json, arrays: Arrays, vocabulary_size: int
) -> Classifier | ScratchClassifier | BoxDetector:
    from chainrule.neural.classifier_saving import put_together

    bases = {name: family.config for name, family in FAMILIES.items() if family.embeds}
    return put_together(settings, arrays, vocabulary_size, bases)


def _refuse(kind: type[ChainruleError], message: str) -> Callable[..., Any]:
    """What a family does where it cannot: raise an error."""

    def refuse(*args: object, **options: object) -> Any:
        raise kind(message)

    return refuse


FAMILIES: dict[str, Family] = {
    "uniform": Family(
        UniformConfig,
        token_bytes=4,
        train=lambda stream, vocabulary_size, config, progress: (UniformModel(vocabulary_size), {}),
        take_apart=lambda model: ({}, {}),
        put_together=lambda settings, arrays, vocabulary_size: UniformModel(vocabulary_size),
    ),
    "cache": Family(
        CacheConfig,
        token_bytes=4,
        train=_train_cache,
        take_apart=lambda model: ({"words": model.words}, {}),
        put_together=_put_together_cache,
    ),
    "mixture": Family(
        MixtureConfig,
        token_bytes=4,
        train=_refuse(
            SettingError,
            "a mixture is not trained on a text but made of models: chainrule mix, or chainrule.mix(models)",
        ),
        take_apart=_take_apart_mixture,
        put_together=_put_together_mixture,
        stream_scoring=_mixture_stream_scoring,
        context=_mixture_context,
        measure_options=lambda model: {"row_sums_of": model},
        why_no_table=lambda model: "it is a mixture; take the models that it was made from",
    ),
    "ngram": Family(
        NGramConfig,
        token_bytes=20,
        train=_train_ngram,
        take_apart=_take_apart_ngram,
        put_together=_put_together_ngram,
        measure_options=_ngram_measure_options,
        layout=_ngram_layout,
        compaction=Compaction(_compact_ngram, _unpack_ngram, lambda model: _ngram_layout(model) == COMPACT),
        why_no_table=lambda model: model.why_no_table,
    ),
    # A language model only once it is given a source: chainrule.api.pair_model trains, saves and opens it.
    "conditional": Family(
        ConditionalConfig,
        token_bytes=0,
        train=_refuse(
            SettingError,
            "a conditional model learns from pairs: chainrule train translation, or chainrule.train_pairs",
        ),
        take_apart=_refuse(
            SettingError, "a conditional model is not saved together with its source; save the model of pairs itself"
        ),
        put_together=_refuse(
            ModelFormatError,
            "is a model of pairs and needs a source: chainrule translate, or chainrule.load(path).write",
        ),
        trains_in_steps=True,
    ),
    # The same, once it is given a picture: chainrule.api.caption_model.
    "caption": Family(
        CaptionConfig,
        token_bytes=0,
        train=_refuse(
            SettingError, "a captioner learns from pictures: chainrule train caption, or chainrule.train_captions"
        ),
        take_apart=_refuse(
            SettingError, "a captioner is not saved together with its picture; save the caption model itself"
        ),
        put_together=_refuse(
            ModelFormatError,
            "captions pictures and needs one: chainrule caption, or chainrule.load(path).caption",
        ),
        trains_in_steps=True,
    ),
    **{
        name: _network_family(config, "continue", stream_scoring=_network_stream_scoring)
        for name, config in NETWORKS.items()
    },
    **{name: _network_family(config, "fill") for name, config in TWO_SIDED.items()},
    "tree": Family(
        TreeConfig,
        token_bytes=0,
        train=_train_tree,
        take_apart=_take_apart_tree,
        put_together=_put_together_tree,
        trains_in_steps=True,
        settled=_with_brackets,
    ),
    "text-encoder": Family(
        TextEncoderConfig,
        token_bytes=0,
        train=_refuse(
            SettingError,
            "a text encoder predicts no tokens, so plain text cannot train it; finetune takes labelled texts",
        ),
        take_apart=_take_apart_network,
        put_together=_putting_together(TextEncoderConfig),
        embeds=True,
        job="embed",
    ),
    "classifier": Family(
        FineTuningConfig,
        token_bytes=4,
        train=_refuse(
            SettingError, "a classifier learns from labelled inputs: chainrule train classifier, or chainrule finetune"
        ),
        take_apart=_take_apart_classifier,
        put_together=_put_together_classifier,
        job="classify",
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
