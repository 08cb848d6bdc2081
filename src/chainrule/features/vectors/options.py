"""The options of verbs on word vectors: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, changed, option
from chainrule.decoding.options import EmbeddingConfig, Pooling
from chainrule.errors import SettingError
from chainrule.models.run_options import CheckpointOptions, TokenOptions
from chainrule.text.tokenization.config import TokenizerConfig

if TYPE_CHECKING:
    import os

    from chainrule.features.vectors.learning.config import CooccurrenceConfig
    from chainrule.models.progress_line import ProgressOption
    from chainrule.text.corpus.corpus import Paths, Source

WORDS = TokenizerConfig(kind="word", min_count=5)  # word2vec.c's least count


@dataclass(frozen=True, kw_only=True)
class WordOptions(TokenOptions):
    """How a text becomes words; by default, those that occur five times or more."""

    tokenizer: TokenizerConfig | str = changed(TokenOptions, "tokenizer", WORDS)


@dataclass(frozen=True)
class CooccurrenceOptions(WordOptions):
    """The text in which co-occurrences are counted, and how."""

    source: Source | Paths
    config: CooccurrenceConfig | None = option(None, "the window, and the weights of what is in it", flag=None)
    _: KW_ONLY
    progress: ProgressOption = changed(CheckpointOptions, "progress")


@dataclass(frozen=True, kw_only=True)
class VectorsEvaluation(Options):
    """What word vectors are measured on. restrict, rule: of analogies; unknown: of pairs."""

    similarity: str | os.PathLike[str] | None = option(
        None, "pairs of words with ratings, such as WS-353: a file of lines, or a folder of such files", reads=str
    )
    analogies: str | os.PathLike[str] | None = option(
        None, "questions of four words a line, in sections, as word2vec's questions-words.txt", reads=str
    )
    restrict: int | None = option(
        None,
        "ask and answer analogies among this many of the most frequent words; by default all",
        least=1,
    )
    rule: Literal["add", "multiply"] = option(
        "add",
        "how analogies are answered: add, 3CosAdd; multiply, 3CosMul (Levy and Goldberg 2014)",
    )
    unknown: Literal["skip", "zero"] = option(
        "skip", "pairs with an unknown word: skip leaves them out; zero counts their cosine as 0"
    )
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.similarity is None and self.analogies is None:
            raise SettingError(
                "there is nothing to measure with; give similarity, a set of pairs, or analogies, or both"
            )
        for name, is_given in {"restrict": self.restrict is not None, "rule": self.rule != "add"}.items():
            if is_given and self.analogies is None:
                raise SettingError(f"{name} is for analogies; leave it out, or give analogies")
        if self.similarity is None and self.unknown != "skip":
            raise SettingError("unknown is for similarity; leave it out, or give a set of pairs")


@dataclass(frozen=True)
class NearestOptions(Options):
    """Where the nearest words are looked for, and by which vectors. source: the text; without it, the vocabulary.

    layer, pooling: as in `EmbeddingConfig`. restrict: of word vectors, search only this many of the most frequent.
    """

    source: Source | Paths | None = option(None, "the text whose words are compared", flag=None)
    _: KW_ONLY
    top: int = option(10, "how many words to show, nearest first", least=1)
    layer: int | None = changed(EmbeddingConfig, "layer")
    pooling: Pooling | None = changed(EmbeddingConfig, "pooling")
    restrict: int | None = option(None, "compare only this many of the most frequent words; by default all", least=1)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)
