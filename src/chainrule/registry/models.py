"""The kinds of models that there are, and what opens and writes the files of others."""

from __future__ import annotations

from chainrule.kinds import CAUSAL_MODEL, CAUSAL_NETWORK, MASKED_MODEL, Kind, Lazy, Opener, Writer

_NETWORKS = "chainrule.models.families.networks"
_SPEECH = "chainrule.features.speech"
_LISTENERS = ("network_config:Speech", "acoustic.config:Acoustic", "whisper.config:Whisper")
_SETTINGS = "chainrule.neural.config"


def _network(family: str, title: str, config: str, model: Lazy = CAUSAL_NETWORK) -> Kind:
    """Return a row of the core's networks.

    config: the module and class of its settings, below `chainrule.neural.config`.
    """
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
        "dynamic",
        "a network that learns as it reads",
        CAUSAL_MODEL,
        Lazy("chainrule.features.dynamic.family:DYNAMIC"),
        (Lazy("chainrule.models.config:DynamicOptions"),),
        "other models: chainrule mix --dynamic, or model.dynamic()",
    ),
    Kind(
        "neighbours",
        "a network with neighbours",
        CAUSAL_MODEL,
        Lazy("chainrule.features.neighbours.family:NEIGHBOURS"),
        (Lazy("chainrule.features.neighbours.options:NeighbourSettings"),),
        "networks: chainrule mix --neural-cache or --neighbours, or chainrule.with_neighbours",
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
        Lazy(f"{_SPEECH}.model:SpeechModel"),
        None,
        tuple(Lazy(f"{_SPEECH}.{own}Config") for own in _LISTENERS),
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
        Lazy("chainrule.features.kenlm.opener:is_kenlm"),
        Lazy("chainrule.features.kenlm.opener:open_kenlm"),
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
        Lazy(f"{_OPEN}.gguf.file:is_named_gguf"),
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
_NEW_FILE = Lazy("chainrule.base.files:check_new_file")
WRITERS = (
    Writer(".arpa", Lazy(f"{_NGRAM_FILES}:write_arpa_file"), Lazy(f"{_NGRAM_FILES}:check_ngram_file")),
    Writer(".fst.txt", Lazy(f"{_EXPORTS}.writers:write_automaton"), Lazy(f"{_EXPORTS}.writers:check_automaton")),
    Writer(
        ".combined",
        Lazy(f"{_EXPORTS}.writers:write_words"),
        Lazy(f"{_NGRAM_FILES}:check_ngram_file"),
        Lazy(f"{_EXPORTS}.config:WordListConfig"),
    ),
    Writer(".gguf", Lazy(f"{_OPEN}.gguf.writing:write_gguf_model"), _NEW_FILE, packs=True),
    Writer("hugging-face", Lazy(f"{_WRITING}:write_hugging_face"), Lazy(f"{_WRITING}:check_hugging_face")),
    Writer("peft", Lazy(f"{_WRITING}:write_peft"), Lazy(f"{_WRITING}:check_peft")),
    Writer("gguf-adapter", Lazy(f"{_WRITING}:write_gguf_adapter"), _NEW_FILE),
)
