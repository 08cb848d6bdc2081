"""What comparisons train, and on which texts.

Imports nothing heavy: the flags of `chainrule compare` are made from it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, changed, option
from chainrule.models.run_options import CheckpointOptions, TokenOptions
from chainrule.ngram.config import SMOOTHINGS
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import ClassifierTrainingConfig


@dataclass(frozen=True)
class ComparisonOptions(Options):
    """The texts, and how they are read.

    source: to train on; by default Python's own documentation. heldout: to measure on; by default a tenth of the
    source. order: the highest of the n-gram models.
    """

    source: Source | Paths | None = None
    heldout: Source | Paths | None = None
    _: KW_ONLY
    order: int = option(5, "the highest n-gram order")
    tokenizer: TokenizerConfig | str = changed(TokenOptions, "tokenizer")
    markers: Markers = changed(TokenOptions, "markers", flag=None)
    progress: ProgressOption = changed(CheckpointOptions, "progress")


@dataclass(frozen=True)
class FamiliesOptions(ComparisonOptions):
    """Which models are trained. minutes: the training time of each network; None for no networks and no mixture."""

    _: KW_ONLY
    minutes: float | None = option(
        None,
        "also train every family of networks for this many minutes each, and mix them with the best n-grams",
        above=0,
    )


@dataclass(frozen=True)
class SmoothingsOptions(ComparisonOptions):
    """Which smoothings are compared."""

    _: KW_ONLY
    smoothings: Sequence[str] = option(
        SMOOTHINGS,
        "compare n-gram models with these smoothings, or all, at every order. Put texts before it",
        flag="smoothing",
        reads=tuple[str, ...],
    )


@dataclass(frozen=True)
class LabelsOptions(Options):
    """Which networks that label are compared.

    vectors: word vectors; each network is then trained three times: with these tuned, with these fixed, and without
    them. The rest is as for `train_classifier`.
    """

    networks: Sequence[str] = option(
        ("bag", "lstm", "convolution", "transformer"),
        "with --labels: those of train classifier; by default bag, lstm, convolution and transformer. Put the file to "
        "train on before it",
        reads=tuple[str, ...],
        needs="labels",
    )
    _: KW_ONLY
    vectors: str | os.PathLike[str] | None = option(
        None,
        "with --labels: word vectors, to compare tuned and fixed ones with those learned from nothing",
        reads=str,
        needs="labels",
    )
    unit: str | None = option(None, "what is labelled", flag=None)
    training: ClassifierTrainingConfig | None = option(None, "how each network is trained", flag=None)
    tokenizer: TokenizerConfig | str | None = changed(TokenOptions, "tokenizer", None)
    progress: ProgressOption = changed(CheckpointOptions, "progress")


@dataclass(frozen=True, kw_only=True)
class ReadingTimesOptions(Options):
    """How reading times are explained.

    frequencies: a file of counts, a dictionary of these, or a unigram model or its folder. word: the column of words.
    time: that of times, in ms. key: the columns that both tables share, and that name a word; by default all of the
    same name but words, times and row numbers. story: the column that says which words are one text, in which a word's
    context is all that comes before; by default, of the key's columns whose values are contiguous, that of the fewest
    values. by: the column of groups that folds and intervals
    are made of: a story or sentence; by default the story. shift: the words that times come too early: with 1, a time
    is that of the next word. previous: how many words before have predictors, too. log: whether ln of the times is
    predicted. surprisals: columns of the text that are surprisals in bits, and stand beside the models. word_ends,
    convention: see `SurprisalOptions`.
    """

    frequencies: str | os.PathLike[str] | Mapping[str, float] | Model | None = option(
        None, "how frequent words are (required): a file of counts (word, tab, count), or a unigram model", reads=Path
    )
    word: str = option("word", "the column of words")
    time: str = option("time", "the column of times, in ms")
    key: tuple[str, ...] = option((), "the columns that name a word in both tables; by default all that they share")
    story: str | None = option(
        None, "the column that says which words are one text; by default a contiguous one of the key"
    )
    by: str | None = option(None, "the column whose groups are held out and resampled; by default the story")
    shift: int = option(0, "times are those of the word this many places later", least=-10, most=10)
    previous: int = option(2, "how many words before have predictors, too: 1 for eye movements", least=0, most=10)
    folds: int = option(10, "the folds of cross-validation", least=2, most=1000)
    log: bool = option(False, "predict ln of the times", is_switch=True)
    surprisals: tuple[str, ...] = option((), "columns of the text that are surprisals in bits, beside the models")
    word_ends: bool = changed(SurprisalOptions, "word_ends")
    convention: Literal["chainrule", "minicons"] = changed(SurprisalOptions, "convention")
    progress: ProgressOption = changed(CheckpointOptions, "progress")
