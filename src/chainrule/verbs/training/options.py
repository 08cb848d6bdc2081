"""The options of training: keywords in Python, flags on the command line. Imports nothing heavy.

The model and its text are options, too; they stand first, and need no names.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.options import Options, changed, option
from chainrule.models.run_options import MemoryOptions, RunOptions, TokenOptions, VectorOptions
from chainrule.training.config import AdapterConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    from _typeshed import DataclassInstance

    from chainrule.decoding.options import ReadyChannel
    from chainrule.errors import TextError
    from chainrule.features.classify.labelled_pairs import LabelledPair
    from chainrule.features.classify.labelled_texts import Labelled, LabelledUnit
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.seq2seq.network.config import CaptionConfig, Seq2SeqConfig
    from chainrule.features.seq2seq.options import Regions
    from chainrule.features.speech.network_config import SpeechConfig
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.features.vision.picture_encoder import EncoderLike, PictureEncoder
    from chainrule.features.vision.pictures.captions import CaptionedPicture
    from chainrule.mixture.config import CacheConfig
    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption
    from chainrule.neural.config import BidirectionalConfig, MaskedConfig, MaskedRecurrentConfig, NetworkConfig
    from chainrule.neural.config.network import LabellingConfig
    from chainrule.ngram.config import NGramConfig
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.parallel import Pairs
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig, TrainingConfig

    AnyPath = str | PathLike[str]


@dataclass(frozen=True, kw_only=True)
class TextRunOptions(RunOptions):
    """How a network learns from a text."""

    training: TrainingConfig | None = option(None, "how long and how a network is trained", flag=None)
    validation: Source | Paths | None = option(
        None,
        "a validation text, to choose the best weights and to report progress; by default the end of the training text",
        flag="valid",
        reads="file",
    )


@dataclass(frozen=True)
class AdaptOptions(AdapterConfig, TextRunOptions):
    """The text, or the pairs, that a network is trained on further. model: the folder of the network."""

    model: AnyPath
    source: Source | Paths | None = option(None, "the text", flag=None)
    _: KW_ONLY
    preferred: AnyPath | None = option(
        None,
        "train on pairs of answers in place of a text, by DPO: a file of JSON lines with the fields prompt, chosen and "
        "rejected, texts or messages",
        reads="file",
    )
    beta: float = option(
        0.1, "how much the network may move away from what it was, in DPO: less for more", above=0, needs="preferred"
    )
    markers: Markers = changed(TokenOptions, "markers")


@dataclass(frozen=True)
class TrainOptions(MemoryOptions, TextRunOptions, VectorOptions, TokenOptions):
    """The model to train, the text, and how it is read."""

    source: Source | Paths
    config: DataclassInstance | None = option(None, "its settings, whose class names the family", flag=None)
    _: KW_ONLY
    start: AnyPath | None = option(None, "the folder of a network to train further", flag=None)
    adapter: AdapterConfig | None = option(None, "adapters that are trained, and nothing else of `start`", flag=None)
    tune: Source | Paths | None = option(
        None, "choose weights, discounts or the constant that make this held-out text likeliest", reads="file"
    )
    residual_of: int | NGramConfig | AnyPath | None = option(
        None,
        "train the network on what an n-gram model leaves to be learned: its order, such as 6, to estimate it from the "
        "training text in folds; or what any model leaves, a folder that has not seen that text. The result is a "
        "log-linear mixture of both",
        reads=str,
    )


@dataclass(frozen=True)
class TrainMaskedOptions(TrainOptions):
    """As `TrainOptions`, of a network that fills gaps."""

    config: MaskedConfig | MaskedRecurrentConfig | BidirectionalConfig


@dataclass(frozen=True)
class TrainNetworkOptions(TrainOptions):
    """As `TrainOptions`, of a network that continues texts."""

    config: NetworkConfig


@dataclass(frozen=True)
class TrainNGramOptions(TrainOptions):
    """As `TrainOptions`, of a model that is estimated from counts."""

    config: NGramConfig | CacheConfig | None = changed(TrainOptions, "config")


@dataclass(frozen=True)
class CountOptions(MemoryOptions, TokenOptions):
    """The text whose n-grams are counted, and the file for the counts."""

    source: Source | Paths
    path: AnyPath
    _: KW_ONLY
    order: int = option(5, "the longest n-grams to count: 5 by default", shown=False)
    progress: ProgressOption = changed(RunOptions, "progress")


@dataclass(frozen=True)
class TrainCountsOptions(Options):
    """The files of counts that an n-gram model is trained on."""

    files: Sequence[AnyPath]
    config: NGramConfig | None = option(None, "its settings", flag=None)
    _: KW_ONLY
    tokenizer: TokenizerConfig | str | None = option(
        None, "that of the counted text; by default as the marks in the words show", flag=None
    )
    tune: Source | Paths | None = changed(TrainOptions, "tune")
    progress: ProgressOption = changed(RunOptions, "progress")


@dataclass(frozen=True)
class TrainPairsOptions(RunOptions, VectorOptions, TokenOptions):
    """The seq2seq model to train, the pairs, and how they are read."""

    pairs: Pairs
    config: Seq2SeqConfig | None = option(None, "its settings", flag=None)
    _: KW_ONLY
    training: TrainingConfig | None = changed(TextRunOptions, "training")
    validation: Pairs | None = option(
        None, "pairs to choose the best weights by; by default the last training pairs", flag=None
    )
    source_tokenizer: TokenizerConfig | str | None = option(
        None,
        "a separate tokenizer for sources, of the same --vocabulary-size; by default one is learned from both sides",
        reads=str,
    )
    vectors: AnyPath | None = option(
        None, "initialise the token vectors of targets from word vectors: a folder or a file", reads=str
    )
    source_vectors: AnyPath | None = option(
        None, "initialise the token vectors of sources from word vectors: a folder or a file", reads=str
    )
    fixed_vectors: bool = changed(
        VectorOptions, "fixed_vectors", help="keep these token vectors as initialised; do not train them"
    )


@dataclass(frozen=True)
class TrainClassifierOptions(RunOptions, VectorOptions):
    """The classifier to train from scratch, and its examples."""

    examples: Iterable[Any]
    network: LabellingConfig | str | None = option(None, "its settings, or the name of a network", flag=None)
    _: KW_ONLY
    unit: str | None = option(
        None,
        "what is labelled: text or word; tree or node; graph or node; by default the whole. pair: two texts or trees "
        "have one label; rating: they have a number. picture, pixel; or box: where things are in pictures",
    )
    training: ClassifierTrainingConfig | None = option(None, "how long and how it is trained", flag=None)
    tokenizer: TokenizerConfig | str | None = changed(TokenOptions, "tokenizer", None)
    markers: Markers = changed(TokenOptions, "markers", "keep")


@dataclass(frozen=True)
class FinetuneOptions(RunOptions):
    """The network that gets a classification head, and the examples."""

    model: Model
    examples: Iterable[Labelled] | Iterable[LabelledPair]
    unit: LabelledUnit | Literal["pair"] = option("text", "what is labelled", flag=None)
    config: FineTuningConfig | None = option(None, "how it is trained", flag=None)


@dataclass(frozen=True)
class TrainCaptionsOptions(RunOptions, TokenOptions):
    """The captioner to train, and its pictures."""

    pictures: Sequence[CaptionedPicture]
    config: CaptionConfig | None = option(None, "its settings", flag=None)
    _: KW_ONLY
    encoder: EncoderLike | PictureEncoder = option(
        "resnet",
        "what gives the vectors of a picture's places: the folder of a classifier of pictures, kept as it is; resnet, "
        "vit or another network of train classifier, trained with the rest; or a file .npy with the vectors of each "
        "line's picture",
    )
    tuned: bool | None = option(None, "train the classifier's network with the rest")
    features: AnyPath | None = option(
        None, "keep the vectors of pictures in this file (.safetensors), so that they are computed once"
    )
    regions: Regions = option(
        "grid",
        "what gets a vector. grid: the places of the encoder's last maps; given: the boxes in each line, "
        '"boxes": [{"box": [left, top, right, bottom], "phrase": "a brown dog"}]; proposed: boxes that the encoder '
        "finds, a classifier with --unit box",
    )
    phrases: bool = option(False, "learn a phrase for each region first, and attend to it, too")
    discriminator: float = option(
        0.0,
        "weight of the rewards, in a second phase of a quarter of the budget, for sentences that a discriminator takes "
        "for given ones, by their words and after those before them (Liang 2017); 0: no such phase",
    )
    training: TrainingConfig | None = changed(TextRunOptions, "training")
    validation: Sequence[CaptionedPicture] | None = option(
        None,
        "captioned pictures to choose the best weights by; by default the last training pictures",
        flag="valid",
        reads="file",
    )


@dataclass(frozen=True)
class TrainSpeechOptions(RunOptions):
    """The network that hears to train, and its transcripts."""

    transcripts: Sequence[Transcript]
    config: SpeechConfig | None = option(None, "its settings", flag=None)
    _: KW_ONLY
    training: TrainingConfig | None = changed(TextRunOptions, "training")
    validation: Sequence[Transcript] | None = option(
        None,
        "sounds with transcripts to choose the best weights by; by default the last of those to train on",
        flag="valid",
        reads="file",
    )
    on_error: Callable[[TextError], object] | None = option(
        None, "a callback for transcripts that cannot be learned from, which are left out", flag=None
    )


@dataclass(frozen=True)
class TrainChannelOptions(Options):
    """The examples of a channel of misspellings. pairs: (wrong, right), or a file of them."""

    pairs: Iterable[tuple[str, str]] | AnyPath
    output: AnyPath | None = option(None, "the JSON file to write", flag=None)
    _: KW_ONLY
    rounds: int = option(8, "rounds of EM, without --grammar; by default 8", shown=False)
    prior: ReadyChannel | Channel | PathLike[str] | None = option(
        None,
        "what to expect where the pairs say little: english, keyboard, ocr, or a file of an earlier channel",
        flag="channel",
        reads=str,
    )
    progress: ProgressOption = changed(RunOptions, "progress")


@dataclass(frozen=True)
class TrainGrammarOptions(Options):
    """The examples of a channel of grammatical errors. pairs: (wrong, right) texts, or a file of them."""

    pairs: Iterable[tuple[str, str]] | AnyPath
    output: AnyPath | None = changed(TrainChannelOptions, "output")
    _: KW_ONLY
    inflections: AnyPath | None = option(
        None,
        "with --grammar: the forms of a word in each line, or AGID; by default from rules of English",
        reads=Path,
        needs="grammar",
    )
