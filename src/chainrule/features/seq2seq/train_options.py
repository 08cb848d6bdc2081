"""The options of training seq2seq models: keywords in Python, flags on the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from chainrule.base.options import changed, option
from chainrule.models.run_options import RunOptions, TokenOptions, VectorOptions
from chainrule.verbs.training.options import TextRunOptions

if TYPE_CHECKING:
    from os import PathLike

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.text.parallel import Pairs
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.training.config import TrainingConfig

    AnyPath = str | PathLike[str]


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
