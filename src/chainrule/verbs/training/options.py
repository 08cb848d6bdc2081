"""The options of training: keywords in Python, flags on the command line. Imports nothing heavy.

The model and its text are options, too; they stand first, and need no names.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from os import PathLike
from typing import TYPE_CHECKING, Any

from chainrule.base.options import Options, changed, option
from chainrule.models.run_options import MemoryOptions, RunOptions, TokenOptions, VectorOptions
from chainrule.text.corpus.bad_records import BadRecordsOption
from chainrule.training.config import AdapterConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance

    from chainrule.mixture.config import CacheConfig
    from chainrule.models.progress_line import ProgressOption
    from chainrule.neural.config import BidirectionalConfig, MaskedConfig, MaskedRecurrentConfig, NetworkConfig
    from chainrule.ngram.config import NGramConfig
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import TrainingConfig

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


@dataclass(frozen=True, kw_only=True)
class TeacherOptions(Options):
    """The models that a network learns from besides the text."""

    teacher: int | AnyPath | Sequence[int | AnyPath] | None = option(
        None,
        "also learn from the probabilities of this model, with the same vocabulary (distillation); of several, from "
        "their mean. A number is the order of an n-gram model, which is estimated from the training text in folds. Put "
        "texts before it",
        reads=tuple[str, ...],
    )
    teacher_weight: float = option(
        0.5, "the share of the teacher in the loss; the text has the rest", above=0, most=1, needs="teacher"
    )
    teacher_temperature: float = option(
        1.0, "the logarithms of both models' probabilities are divided by this", above=0, needs="teacher"
    )
    teacher_tokens: int = option(
        32, "how many of the teacher's likeliest tokens are kept at each position", least=1, needs="teacher"
    )

    @property
    def teacher_record(self) -> dict[str, Any]:
        """Return what records say of the teachers; None of each option without one."""
        names = [self.teacher] if isinstance(self.teacher, int | str | PathLike) else self.teacher
        values = {field.name: getattr(self, field.name) if names else None for field in fields(TeacherOptions)}
        return {**values, "teacher": [str(name) for name in names] if names else None}


@dataclass(frozen=True)
class AdaptOptions(AdapterConfig, TeacherOptions, TextRunOptions, BadRecordsOption):
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
        0.1, "the beta of DPO: the lower, the further the network may move", above=0, needs="preferred"
    )
    markers: Markers = changed(TokenOptions, "markers")


@dataclass(frozen=True)
class TrainOptions(MemoryOptions, TeacherOptions, TextRunOptions, VectorOptions, TokenOptions):
    """The model to train, the text, and how it is read."""

    source: Source | Paths
    config: DataclassInstance | None = option(None, "its settings, whose class names the family", flag=None)
    _: KW_ONLY
    start: AnyPath | None = option(None, "the folder of a network to train further", flag=None)
    adapter: AdapterConfig | None = option(None, "adapters that are trained, and nothing else of `start`", flag=None)
    tune: Source | Paths | None = option(
        None, "tune the weights, the discounts or the constant for this held-out text", reads="file"
    )
    residual_of: int | NGramConfig | AnyPath | None = option(
        None,
        "train the network on the residual of an n-gram model: the order, such as 6, of one that is estimated from "
        "the training text in folds; or the folder of any model that was not trained on that text. The result is a "
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
