"""What can be said about a tokenizer before there is one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from chainrule.errors import SettingError
from chainrule.text.normalising import Normalisation, Normaliser

BUILT_IN = ("word", "whitespace", "character", "byte")
LEARNT = ("bpe", "unigram", "wordpiece")
SUBWORD_VOCABULARY = 8000


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How text is cut into tokens, and which of them a model knows. Raises SettingError.

    kind: one of BUILT_IN or LEARNT, or the path of a tokenizer.json, or of a model folder, whose own is taken.
    normalise: nfc or nfkc, and lower; done to all text before it is cut.
    vocabulary_size: how many tokens at most, markers counted. Subword kinds learn so many, 8,000 by default; of others
    the most frequent are kept, of equals those that came first. min_count: tokens seen less often are left out.
    vocabulary: a file with the tokens to be known, one a line. What is left out is <unk>, in training, too.
    """

    kind: str | os.PathLike[str] = "word"
    normalise: tuple[Normalisation, ...] = ()
    vocabulary_size: int | None = None
    min_count: int = 1
    vocabulary: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", os.fspath(self.kind))
        if self.min_count < 1:
            raise SettingError(f"the smallest count of a token is {self.min_count}; expected 1 or more")
        if self.vocabulary_size is not None and self.vocabulary_size < 4:
            raise SettingError(f"the vocabulary size is {self.vocabulary_size}; expected the three markers and more")
        if self.vocabulary is not None and (self.min_count > 1 or self.vocabulary_size is not None):
            raise SettingError("a given vocabulary is taken as it is; leave out the smallest count and the size")
        Normaliser(self.normalise)
        if not self.learns_words and (self.min_count > 1 or self.vocabulary is not None):
            raise SettingError(f"{self.kind} has a vocabulary of its own; it takes no smallest count and no list")
        if not self.learns_words and self.kind not in LEARNT and self.vocabulary_size is not None:
            raise SettingError(f"{self.kind} has a vocabulary of its own; its size cannot be chosen")

    @property
    def learns_words(self) -> bool:
        """Whether its vocabulary is what it finds in a text."""
        return self.kind in BUILT_IN and self.kind != "byte"

    @property
    def is_limited(self) -> bool:
        """Whether a model shall know only some of the words that it finds."""
        limits = (self.min_count > 1, self.vocabulary_size is not None, self.vocabulary is not None)
        return self.learns_words and any(limits)


def as_config(tokenizer: TokenizerConfig | str) -> TokenizerConfig:
    return tokenizer if isinstance(tokenizer, TokenizerConfig) else TokenizerConfig(kind=tokenizer)
