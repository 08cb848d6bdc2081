"""The registry: the kinds of models that there are, in one static table of names.

Nothing that a row names is imported before it is used, so the core knows of features without importing one. The rows of
plug-ins are the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Lazy(NamedTuple):
    """A name in a module, which is imported when the name is first used.

    good:  Lazy("chainrule.features.speech.model:SpeechModel").get()
    """

    target: str

    def get(self) -> Any:
        """Return what the name stands for. Raises ImportError, AttributeError."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)

    def names(self, value: type) -> bool:
        """Return whether this is the name of a class, without importing anything."""
        return self.target == f"{value.__module__}:{value.__qualname__}"


class Kind(NamedTuple):
    """A family of models: what the program knows of it before it opens one.

    family: as config.json has it; never renamed. title: with its article, for messages. model: the class that users
    hold. engine: its `Family`, by which it is trained, saved and restored, also inside of mixtures and classifiers;
    None where models are more than an engine and a tokenizer. configs: its classes of settings; the first that knows
    all settings of a folder is taken. learns_from: what its models are made of, where that is not plain text, and the
    way.
    """

    family: str
    title: str
    model: Lazy
    engine: Lazy | None = None
    configs: tuple[Lazy, ...] = ()
    learns_from: str = ""


CAUSAL_MODEL = Lazy("chainrule.models.language_models:CausalModel")
CAUSAL_NETWORK = Lazy("chainrule.models.language_models:CausalNetwork")
MASKED_MODEL = Lazy("chainrule.models.language_models:MaskedModel")

_NETWORKS = "chainrule.models.families.networks"
_SETTINGS = "chainrule.neural.config"


def _network(family: str, title: str, config: str, model: Lazy = CAUSAL_NETWORK, opened: str = "") -> Kind:
    """A row of the core's networks. config: the module and class of its settings, below `chainrule.neural.config`.
    opened: the class of settings of checkpoints that others trained, where these may have more.
    """
    engine = Lazy(f"{_NETWORKS}:{family.replace('-', '_').upper()}")
    return Kind(family, title, model, engine, (Lazy(f"{_SETTINGS}.{config}"), *_opened(opened)))


def _opened(name: str) -> tuple[Lazy, ...]:
    return (Lazy(f"chainrule.features.open.network.config:{name}"),) if name else ()


KINDS = (
    Kind(
        "uniform",
        "a uniform model",
        CAUSAL_MODEL,
        Lazy("chainrule.models.families.mixtures:UNIFORM"),
        (Lazy("chainrule.mixture.uniform:UniformConfig"),),
    ),
    Kind(
        "cache",
        "a cache",
        CAUSAL_MODEL,
        Lazy("chainrule.models.families.mixtures:CACHE"),
        (Lazy("chainrule.mixture.config:CacheConfig"),),
    ),
    Kind(
        "mixture",
        "a mixture",
        CAUSAL_MODEL,
        Lazy("chainrule.models.families.mixtures:MIXTURE"),
        (Lazy("chainrule.mixture.config:MixtureConfig"),),
        "other models: chainrule mix, or chainrule.mix(models)",
    ),
    Kind(
        "ngram",
        "an n-gram model",
        CAUSAL_MODEL,
        Lazy("chainrule.models.families.ngram:NGRAM"),
        (Lazy("chainrule.ngram.config:NGramConfig"),),
    ),
    _network("bilinear", "a log-bilinear network", "language_models:BilinearConfig"),
    _network("bag", "a deep averaging network", "language_models:BagConfig"),
    _network("feedforward", "a feed-forward network", "language_models:FeedforwardConfig"),
    _network("convolution", "a convolutional network", "language_models:ConvolutionConfig"),
    _network("recurrent", "a recurrent network", "language_models:RecurrentConfig"),
    Kind(
        "grid",
        "a two-dimensional LSTM",
        CAUSAL_NETWORK,
        Lazy("chainrule.features.vision.family:GRID"),
        (Lazy("chainrule.features.vision.network.grid_config:GridConfig"),),
    ),
    _network("transformer", "a Transformer", "transformer:TransformerConfig", opened="OpenTransformerConfig"),
    _network("masked", "a masked Transformer", "bidirectional:MaskedConfig", MASKED_MODEL, "OpenMaskedConfig"),
    _network("masked-recurrent", "a masked recurrent network", "bidirectional:MaskedRecurrentConfig", MASKED_MODEL),
    _network("two-sided", "a bidirectional recurrent network", "bidirectional:BidirectionalConfig", MASKED_MODEL),
    Kind(
        "text-encoder",
        "a text encoder",
        Lazy("chainrule.models.embedding_model:EmbeddingModel"),
        Lazy(f"{_NETWORKS}:TEXT_ENCODER"),
        (Lazy(f"{_SETTINGS}.bidirectional:TextEncoderConfig"), *_opened("OpenTextEncoderConfig")),
        "networks that others trained: chainrule finetune and embed take it",
    ),
    Kind(
        "tree",
        "a language model of trees",
        CAUSAL_MODEL,
        Lazy("chainrule.features.trees.family:TREE"),
        (Lazy("chainrule.features.trees.config:TreeConfig"),),
    ),
    Kind(
        "classifier",
        "a classifier",
        Lazy("chainrule.features.classify.model:ClassifierModel"),
        Lazy("chainrule.features.classify.family:CLASSIFIER"),
        (Lazy("chainrule.training.config:FineTuningConfig"),),
        "labelled inputs: chainrule train classifier, or chainrule finetune",
    ),
    Kind(
        "conditional",
        "a seq2seq model",
        Lazy("chainrule.features.seq2seq.model:Seq2SeqModel"),
        Lazy("chainrule.features.seq2seq.family:GIVEN"),
        (Lazy("chainrule.features.seq2seq.network.config:Seq2SeqConfig"),),
        "pairs: chainrule train seq2seq, or chainrule.train_pairs",
    ),
    Kind(
        "caption",
        "a captioner",
        Lazy("chainrule.features.vision.model:CaptionModel"),
        Lazy("chainrule.features.seq2seq.family:GIVEN"),
        (Lazy("chainrule.features.seq2seq.network.config:CaptionConfig"),),
        "pictures: chainrule train caption, or chainrule.train_captions",
    ),
    Kind(
        "speech",
        "a speech model",
        Lazy("chainrule.features.speech.model:SpeechModel"),
        None,
        (Lazy("chainrule.features.speech.network_config:SpeechConfig"),),
        "sounds: chainrule train speech, or chainrule.train_speech",
    ),
    Kind("vectors", "word vectors", Lazy("chainrule.features.vectors.model:WordVectors")),
)


def kinds() -> dict[str, Kind]:
    """Return all kinds of models by their families."""
    return {kind.family: kind for kind in KINDS}


def kind_of_config(config: object) -> Kind:
    """Return the kind of models that have these settings. Raises TypeError if no kind has."""
    for kind in KINDS:
        if any(own.names(type(config)) for own in kind.configs):
            return kind
    known = ", ".join(own.target.partition(":")[2] for kind in KINDS for own in kind.configs)
    raise TypeError(f"{config!r} is not a configuration of a model; expected one of {known}")


def configs_of(*models: Lazy) -> dict[str, type]:
    """Return the first class of settings of each family whose models are of these classes."""
    return {kind.family: kind.configs[0].get() for kind in KINDS if kind.model in models}
