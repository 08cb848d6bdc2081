"""The registry: the kinds of models that there are, in one static table of names.

Nothing that a row names is imported before it is used, so the core knows of features without importing one. The rows of
plug-ins are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


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


class Opener(NamedTuple):
    """What others write, and how it is opened. Openers are asked in their order.

    title: what it is, for the list of what can be opened; empty where a row before it has said so. recognises: of a
    path, whether it is such, by its name or a few bytes. opened: of a path, `OpenOptions` and a progress callback, the
    model. model: of a path, the class of the model, or None where only opening it tells. tokenizer: of a path, its
    tokenizer alone. contents: of a path, names and values that say what is in it, also where it cannot be opened.
    adapter: of a path, a network's configuration, the record of the files that it came with and the shapes of its
    arrays, an adapter to put on it; None where it is no adapter.
    """

    title: str
    recognises: Lazy
    opened: Lazy
    model: Lazy | None = None
    tokenizer: Lazy | None = None
    contents: Lazy | None = None
    adapter: Lazy | None = None


class Writer(NamedTuple):
    """A format of others that a model is written in.

    name: the ending of a file, or what `convert --to` names. write: of a model, a path, settings or None, overwrite and
    progress. check: of a path and overwrite, before the work. settings: the class of what `convert` may set.
    """

    name: str
    write: Lazy
    check: Lazy
    settings: Lazy | None = None


CAUSAL_MODEL = Lazy("chainrule.models.language_models:CausalModel")
CAUSAL_NETWORK = Lazy("chainrule.models.language_models:CausalNetwork")
MASKED_MODEL = Lazy("chainrule.models.language_models:MaskedModel")

_NETWORKS = "chainrule.models.families.networks"
_SETTINGS = "chainrule.neural.config"


def _network(family: str, title: str, config: str, model: Lazy = CAUSAL_NETWORK) -> Kind:
    """A row of the core's networks. config: the module and class of its settings, below `chainrule.neural.config`."""
    engine = Lazy(f"{_NETWORKS}:{family.replace('-', '_').upper()}")
    return Kind(family, title, model, engine, (Lazy(f"{_SETTINGS}.{config}"),))


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
    _network("transformer", "a Transformer", "transformer:TransformerConfig"),
    _network("masked", "a masked Transformer", "bidirectional:MaskedConfig", MASKED_MODEL),
    _network("masked-recurrent", "a masked recurrent network", "bidirectional:MaskedRecurrentConfig", MASKED_MODEL),
    _network("two-sided", "a bidirectional recurrent network", "bidirectional:BidirectionalConfig", MASKED_MODEL),
    Kind(
        "text-encoder",
        "a text encoder",
        Lazy("chainrule.models.embedding_model:EmbeddingModel"),
        Lazy(f"{_NETWORKS}:TEXT_ENCODER"),
        (Lazy(f"{_SETTINGS}.bidirectional:TextEncoderConfig"),),
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

_OPEN = "chainrule.features.open"
_OPENING = f"{_OPEN}.openers"
OPENERS = (
    Opener(
        "a file whose name ends in .arpa, .arpa.gz, .arpa.zst, .arpa.xz, .arpa.bz2",
        Lazy("chainrule.models.files.ngram_files:is_arpa"),
        Lazy("chainrule.models.files.ngram_files:open_arpa"),
    ),
    Opener(
        "a binary of KenLM's",
        Lazy("chainrule.models.files.ngram_files:is_kenlm"),
        Lazy("chainrule.models.files.ngram_files:open_kenlm"),
    ),
    Opener(
        "",
        Lazy(f"{_OPEN}.adapters:is_peft"),
        Lazy(f"{_OPENING}:open_peft"),
        adapter=Lazy(f"{_OPEN}.adapters:read_peft"),
    ),
    Opener(
        "",
        Lazy(f"{_OPEN}.gguf.adapters:is_gguf_adapter"),
        Lazy(f"{_OPENING}:refuse_gguf_adapter"),
        adapter=Lazy(f"{_OPEN}.gguf.adapters:read_gguf_adapter"),
    ),
    Opener(
        "",
        Lazy("chainrule.storage.hugging_face:is_hugging_face"),
        Lazy(f"{_OPENING}:open_hugging_face"),
        Lazy(f"{_OPENING}:class_of_folder"),
        Lazy(f"{_OPENING}:tokenizer_of_folder"),
        Lazy(f"{_OPEN}.contents:contents_of"),
    ),
    Opener(
        "a GGUF file",
        Lazy("chainrule.storage.gguf:is_gguf"),
        Lazy(f"{_OPENING}:open_gguf"),
        Lazy(f"{_OPENING}:class_of_gguf"),
        Lazy(f"{_OPENING}:tokenizer_of_gguf"),
        Lazy(f"{_OPEN}.contents:contents_of"),
    ),
    Opener(
        "one of llama2.c",
        Lazy(f"{_OPEN}.llama2c:is_llama2c"),
        Lazy(f"{_OPENING}:open_karpathy"),
        None,
        Lazy(f"{_OPENING}:tokenizer_of_karpathy"),
    ),
    Opener(
        "the .safetensors file of a ResNet",
        Lazy(f"{_OPENING}:is_of_pictures"),
        Lazy(f"{_OPENING}:open_picture_network"),
    ),
    Opener("", Lazy(f"{_OPEN}.llama2c:describe_wrong_size"), Lazy(f"{_OPENING}:refuse_wrong_size")),
    Opener(
        "a file of word vectors",
        Lazy("chainrule.features.vectors.model:is_vectors_file"),
        Lazy("chainrule.features.vectors.model:open_vectors_file"),
        Lazy("chainrule.features.vectors.model:class_of_file"),
    ),
)

_WRITING = f"{_OPEN}.writers"
_EXPORTS = "chainrule.features.exports"
_NGRAM_FILES = "chainrule.models.files.ngram_files"
WRITERS = (
    Writer(".arpa", Lazy(f"{_NGRAM_FILES}:write_arpa_file"), Lazy(f"{_NGRAM_FILES}:check_ngram_file")),
    Writer(".fst.txt", Lazy(f"{_EXPORTS}.writers:write_automaton"), Lazy(f"{_EXPORTS}.writers:check_automaton")),
    Writer(
        ".combined",
        Lazy(f"{_EXPORTS}.writers:write_words"),
        Lazy(f"{_NGRAM_FILES}:check_ngram_file"),
        Lazy(f"{_EXPORTS}.config:WordListConfig"),
    ),
    Writer("hugging-face", Lazy(f"{_WRITING}:write_hugging_face"), Lazy(f"{_WRITING}:check_hugging_face")),
    Writer("peft", Lazy(f"{_WRITING}:write_peft"), Lazy(f"{_WRITING}:check_peft")),
    Writer("gguf-adapter", Lazy(f"{_WRITING}:write_gguf_adapter"), Lazy("chainrule.base.files:check_new_file")),
)

_TREES, _VISION = "chainrule.features.trees", "chainrule.features.vision"

# Rows of tables that features have: the table, the name of the row, and what it stands for.
ROWS = (
    ("documents", "tree", Lazy("chainrule.features.trees.structures.linearized:Treebank")),
    ("evaluate", "vectors", Lazy("chainrule.features.vectors.shell_evaluate:EVALUATE")),
    ("evaluate", "conditional", Lazy("chainrule.features.seq2seq.shell_evaluate:EVALUATE")),
    ("evaluate", "caption", Lazy("chainrule.features.vision.shell_evaluate:EVALUATE")),
    ("evaluate", "speech", Lazy("chainrule.features.speech.shell:EVALUATE")),
    ("evaluate", "classifier", Lazy("chainrule.features.classify.shell:EVALUATE")),
    ("count", "together", Lazy("chainrule.features.vectors.shell_count:COUNT")),
    ("train ngram", "spark", Lazy("chainrule.features.spark.shell:TRAIN")),
    ("complete", "typing", Lazy("chainrule.features.correct.shell_typing:TypingOptions")),
    ("attention", "conditional", Lazy("chainrule.features.seq2seq.attend:attend_pair")),
    ("attention", "caption", Lazy("chainrule.features.vision.attend:attend_caption")),
    ("attention", "speech", Lazy("chainrule.features.speech.draw_alignment:attend_sound")),
    ("attention", "tree", Lazy("chainrule.features.trees.draw_trees:attend_tree")),
    ("attention", "classifier", Lazy("chainrule.features.trees.draw_trees:attend_tree")),
    ("attention beside", "caption", Lazy("chainrule.features.vision.attend:attend_picture")),
    ("classify.inspect", "picture", Lazy("chainrule.features.vision.inspect:inspect_pictures")),
    ("classify.inputs", "tree", Lazy(f"{_TREES}.inputs:TREE")),
    ("classify.inputs", "graph", Lazy(f"{_TREES}.inputs:GRAPH")),
    ("classify.inputs", "picture", Lazy(f"{_VISION}.labels.inputs:PICTURE")),
    ("classify.sides", "tree", Lazy(f"{_TREES}.inputs:SIDE")),
    ("classify.units", "box", Lazy(f"{_VISION}.labels.units:BOX")),
    ("classify.units", "pixel", Lazy(f"{_VISION}.labels.units:PIXEL")),
    ("classify.boxes", "detect", Lazy(f"{_VISION}.labels.boxes:detect")),
    ("classify.boxes", "assess", Lazy(f"{_VISION}.labels.boxes:assess_boxes")),
    ("classify.networks", "tree", Lazy(f"{_TREES}.config:TreeLabelling")),
    ("classify.networks", "graph", Lazy(f"{_TREES}.config:GraphLabelling")),
    ("classify.networks", "lenet", Lazy(f"{_VISION}.network.config:LeNetLabelling")),
    ("classify.networks", "grid", Lazy(f"{_VISION}.network.config:GridLabelling")),
    ("classify.networks", "alexnet", Lazy(f"{_VISION}.network.config:AlexNetLabelling")),
    ("classify.networks", "vgg", Lazy(f"{_VISION}.network.config:VGGLabelling")),
    ("classify.networks", "googlenet", Lazy(f"{_VISION}.network.config:GoogLeNetLabelling")),
    ("classify.networks", "resnet", Lazy(f"{_VISION}.network.config:ResNetLabelling")),
    ("classify.networks", "vit", Lazy(f"{_VISION}.network.config:ViTLabelling")),
    ("classify.networks", "efficientnet", Lazy(f"{_VISION}.network.config:EfficientNetLabelling")),
    ("embed", "classifier", Lazy("chainrule.features.classify.shell:embed_inputs")),
)


def rows(table: str) -> dict[str, Lazy]:
    """Return the rows of a table of a feature, by name."""
    return {name: lazy for own, name, lazy in ROWS if own == table}


class Table(Mapping[str, T]):
    """A table of a feature by name: its own rows, then those of the registry, which are imported when they are used."""

    def __init__(self, table: str, own: Mapping[str, T]) -> None:
        self._table, self._own = table, own

    def __getitem__(self, name: str) -> T:
        return self._own[name] if name in self._own else rows(self._table)[name].get()

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in rows(self._table)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from rows(self._table)

    def __len__(self) -> int:
        return len(self._own) + len(rows(self._table))


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
