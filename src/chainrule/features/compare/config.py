"""What comparisons train, and on which texts.

Imports nothing heavy: the flags of `chainrule compare` are made from it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, changed, option
from chainrule.models.run_options import CheckpointOptions, TokenOptions
from chainrule.ngram.config import SMOOTHINGS

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from chainrule.models.progress_line import ProgressOption
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import ClassifierTrainingConfig

Abscissa = Literal["step", "seconds"]


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
    """Which models are trained.

    minutes: the training time of each network; None for no networks and no mixture. families: by the names of `train`;
    None for all.
    """

    _: KW_ONLY
    families: Sequence[str] | None = option(
        None,
        "train these alone, by the names of train: ngram, uniform, and networks such as recurrent. Put texts before it",
        reads=tuple[str, ...],
    )
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
        "with --labels: word vectors, to compare tuned and fixed ones with those learned from scratch",
        reads=str,
        needs="labels",
    )
    unit: str | None = option(None, "what is labelled", flag=None)
    training: ClassifierTrainingConfig | None = option(None, "how each network is trained", flag=None)
    tokenizer: TokenizerConfig | str | None = changed(TokenOptions, "tokenizer", None)
    progress: ProgressOption = changed(CheckpointOptions, "progress")
