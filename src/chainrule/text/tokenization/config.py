"""The settings of tokenizers."""

from __future__ import annotations

import os
from dataclasses import dataclass

from chainrule.errors import SettingError
from chainrule.text.tokenization.splitters import Normalisation, Normaliser

BUILT_IN = ("word", "whitespace", "character", "byte")
LEARNED = ("bpe", "unigram", "wordpiece")
OF_WORDS = ("word", "whitespace")  # of whole words, and not of pieces or characters
SUBWORD_VOCABULARY = 8000


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How text is tokenized, and which tokens a model knows.

    kind: one of BUILT_IN or LEARNED, or the path of a tokenizer.json, or of a model folder, to use its tokenizer.
    normalise: nfc or nfkc, and lower; applied to all text before tokenization.
    vocabulary_size: the largest number of tokens, markers included. Subword kinds learn this many, 8,000 by default; of
    others, the most frequent are kept, and of equally frequent ones those that occur first.
    min_count: tokens that occur less often are left out.
    vocabulary: a file of the tokens to keep, one a line. Tokens left out become <unk>, in training, too.
    Raises SettingError if settings contradict each other.
    """

    kind: str | os.PathLike[str] = "word"
    normalise: tuple[Normalisation, ...] = ()
    vocabulary_size: int | None = None
    min_count: int = 1
    vocabulary: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", os.fspath(self.kind))
        if self.min_count < 1:
            raise SettingError(f"min_count is {self.min_count}; expected 1 or more")
        if self.vocabulary_size is not None and self.vocabulary_size < 4:
            raise SettingError(f"vocabulary_size is {self.vocabulary_size}; expected 4 or more: three are markers")
        if self.vocabulary is not None and (self.min_count > 1 or self.vocabulary_size is not None):
            raise SettingError("the file vocabulary is used as it is; leave out min_count and vocabulary_size")
        Normaliser(self.normalise)
        if not self.learns_words and (self.min_count > 1 or self.vocabulary is not None):
            raise SettingError(f"{self.kind} has a vocabulary of its own; leave out min_count and vocabulary")
        if not self.learns_words and self.kind not in LEARNED and self.vocabulary_size is not None:
            raise SettingError(f"{self.kind} has a vocabulary of its own; leave out vocabulary_size")

    @property
    def learns_words(self) -> bool:
        """Whether its vocabulary is that of the training text."""
        return self.kind in BUILT_IN and self.kind != "byte"

    @property
    def is_limited(self) -> bool:
        """Whether only some words of the training text are kept."""
        limits = (self.min_count > 1, self.vocabulary_size is not None, self.vocabulary is not None)
        return self.learns_words and any(limits)


def as_config(tokenizer: TokenizerConfig | str) -> TokenizerConfig:
    """A configuration as it is; a kind or path as the configuration of it."""
    return tokenizer if isinstance(tokenizer, TokenizerConfig) else TokenizerConfig(kind=tokenizer)
