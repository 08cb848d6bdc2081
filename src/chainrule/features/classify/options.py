"""The options of training classifiers: keywords in Python, flags on the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.options import changed, option
from chainrule.models.run_options import RunOptions, TokenOptions, VectorOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.features.classify.labelled.pairs import LabelledPair
    from chainrule.features.classify.labelled.texts import Labelled, LabelledUnit
    from chainrule.models.model import Model
    from chainrule.neural.config.network import LabellingConfig
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig


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
