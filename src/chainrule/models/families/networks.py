"""The families of networks: language models, those that need a source, and classifiers.

No engine is loaded before a function here is called. Families that need a source are no language models by themselves.
Each classifier rests on a model of another family, or on a network of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from chainrule.drawing.diagrams import draw_feedforward, draw_recurrent, draw_seq2seq, draw_transformer
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.seq2seq.network.config import CaptionConfig, Seq2SeqConfig
from chainrule.features.speech.network_config import SpeechConfig
from chainrule.models.families.family import Family, Quantization, name_of_family, unsupported
from chainrule.neural.config import BIDIRECTIONAL, NETWORKS, TextEncoderConfig
from chainrule.neural.config.language_models import TreeConfig
from chainrule.training.config import FineTuningConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.features.classify.network.classifier import FineTunedClassifier, ScratchClassifier
    from chainrule.features.trees.language_model import TreeModel
    from chainrule.features.vision.network.detector import BoxDetector
    from chainrule.models.families.family import Arrays, DrawNetwork, Json, Task
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.language_model import NeuralModel
    from chainrule.neural.saving import Engine
    from chainrule.training.config import TrainingRun
    from chainrule.training.job import StreamOptions


def _train(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: NetworkConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[Engine, Json]:
    from chainrule.neural.saving import engine_of
    from chainrule.training.run import train_network

    network, record = train_network(stream, vocabulary_size, config, options, run)
    return engine_of(network), record


def _take_apart(model: Engine) -> tuple[Json, Arrays]:
    from chainrule.neural.saving import to_state

    return to_state(model)


def _putting_together(config: type[NetworkConfig]) -> Callable[[Json, Arrays, int], Engine]:
    def from_state(settings: Json, arrays: Arrays, vocabulary_size: int) -> Engine:
        from chainrule.neural import saving

        return saving.from_state(settings, arrays, vocabulary_size, config)

    return from_state


def _compact(model: Engine, progress: Progress, bits: int | None = None) -> Engine:
    from chainrule.neural.saving import compact

    return compact(model, progress, bits)


def _unpack(model: Engine, progress: Progress) -> Engine:
    from chainrule.neural.saving import unpack

    return unpack(model, progress)


def _is_compact(model: Engine) -> bool:
    from chainrule.neural.saving import is_compact

    return is_compact(model)


def _stream_scoring(model: NeuralModel) -> StreamScoring:
    from chainrule.evaluation.likelihood import StreamScoring

    score = model.score_stream_with_unknown
    return StreamScoring(score, model.stream_signature, partial(score, unknown=False))


_DIAGRAMS: dict[str, DrawNetwork] = {
    "transformer": draw_transformer,
    "masked": draw_transformer,
    "recurrent": draw_recurrent,
    "masked-recurrent": draw_recurrent,
    "two-sided": draw_recurrent,
    "feedforward": draw_feedforward,
}


def _network_family(name: str, config: type[NetworkConfig], job: Task, **fields: Any) -> Family:
    """A family of networks that predict tokens."""
    return Family(
        config=config,
        token_bytes=0,
        train=_train,
        to_state=_take_apart,
        from_state=_putting_together(config),
        trains_in_steps=True,
        context=lambda model: model.network.encoder.context,
        embeds=True,
        compaction=Quantization(_compact, _unpack, _is_compact),
        job=job,
        diagram=_DIAGRAMS.get(name),
        **fields,
    )


def _with_brackets(config: TreeConfig, tokenizer: Any) -> TreeConfig:
    from chainrule.features.trees.language_model import with_brackets

    return with_brackets(config, tokenizer)


def _train_tree(
    stream: Int32[ndarray, " T"],
    vocabulary_size: int,
    config: TreeConfig,
    progress: Progress,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[TreeModel, Json]:
    from chainrule.features.trees.language_model import TreeModel
    from chainrule.features.trees.objective import tree_job
    from chainrule.training.config import TrainingRun
    from chainrule.training.job import StreamOptions
    from chainrule.training.run import run_job

    network, record = run_job(
        tree_job(stream, vocabulary_size, config, options or StreamOptions()), run or TrainingRun()
    )
    return TreeModel(network), record


def _take_apart_tree(model: TreeModel) -> tuple[Json, Arrays]:
    from chainrule.features.trees.language_model import to_state

    return to_state(model)


def _put_together_tree(settings: Json, arrays: Arrays, vocabulary_size: int) -> TreeModel:
    from chainrule.features.trees.language_model import from_state

    return from_state(settings, arrays, vocabulary_size)


LANGUAGE_MODELS = {
    name: _network_family(name, config, "continue", stream_scoring=_stream_scoring) for name, config in NETWORKS.items()
}
MASKED = {name: _network_family(name, config, "fill") for name, config in BIDIRECTIONAL.items()}
TREE = Family(
    TreeConfig,
    token_bytes=0,
    train=_train_tree,
    to_state=_take_apart_tree,
    from_state=_put_together_tree,
    trains_in_steps=True,
    resolved_for=_with_brackets,
)
TEXT_ENCODER = Family(
    TextEncoderConfig,
    token_bytes=0,
    train=unsupported(
        SettingError,
        "a text encoder predicts no tokens, so plain text cannot train it; finetune takes labelled texts",
    ),
    to_state=_take_apart,
    from_state=_putting_together(TextEncoderConfig),
    embeds=True,
    job="embed",
    diagram=draw_transformer,
)


def classifier_family(families: Mapping[str, Family]) -> Family:
    """The family of classifiers that rest on models of these families."""

    def to_state(model: FineTunedClassifier | ScratchClassifier) -> tuple[Json, Arrays]:
        from chainrule.features.classify.network import build as classifier_saving

        return classifier_saving.to_state(model, lambda config: name_of_family(config, families))

    def from_state(
        settings: Json, arrays: Arrays, vocabulary_size: int
    ) -> FineTunedClassifier | ScratchClassifier | BoxDetector:
        from chainrule.features.classify.network import build as classifier_saving

        bases = {name: family.config for name, family in families.items() if family.embeds}
        return classifier_saving.from_state(settings, arrays, vocabulary_size, bases)

    return Family(
        FineTuningConfig,
        token_bytes=4,
        train=unsupported(
            SettingError, "a classifier learns from labelled inputs: chainrule train classifier, or chainrule finetune"
        ),
        to_state=to_state,
        from_state=from_state,
        job="classify",
    )


# A language model only once it is given a source: chainrule.features.seq2seq.model trains, saves and opens it.
CONDITIONAL = Family(
    Seq2SeqConfig,
    token_bytes=0,
    train=unsupported(
        SettingError,
        "a seq2seq model learns from pairs: chainrule train seq2seq, or chainrule.train_pairs",
    ),
    to_state=unsupported(
        SettingError, "a seq2seq model is not saved together with its source; save the seq2seq model itself"
    ),
    from_state=unsupported(
        ModelFormatError,
        "is a seq2seq model and needs a source: chainrule translate, or chainrule.load(path).write",
    ),
    trains_in_steps=True,
    diagram=draw_seq2seq,
)
# The same, once it is given a picture: chainrule.features.vision.model.
CAPTION = Family(
    CaptionConfig,
    token_bytes=0,
    train=unsupported(
        SettingError, "a captioner learns from pictures: chainrule train caption, or chainrule.train_captions"
    ),
    to_state=unsupported(
        SettingError, "a captioner is not saved together with its picture; save the caption model itself"
    ),
    from_state=unsupported(
        ModelFormatError,
        "is a model of captions, not of texts: it needs pictures (chainrule caption, or chainrule.load(path).caption)",
    ),
    trains_in_steps=True,
    diagram=draw_seq2seq,
)
# No language model: chainrule.features.speech.model trains, saves and opens it.
SPEECH = Family(
    SpeechConfig,
    token_bytes=0,
    train=unsupported(
        SettingError, "a network that hears learns from sounds: chainrule train speech, or chainrule.train_speech"
    ),
    to_state=unsupported(SettingError, "a network that hears is no language model; save the speech model itself"),
    from_state=unsupported(
        ModelFormatError,
        "hears, and is no model of texts: it needs sounds (chainrule transcribe, or chainrule.load(path).transcribe)",
    ),
    trains_in_steps=True,
)
