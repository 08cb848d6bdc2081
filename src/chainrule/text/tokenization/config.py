"""The settings of tokenizers, and the steps that normalise text before them; flags are made from it, so it is light."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

BUILT_IN = ("word", "whitespace", "character", "byte")
LEARNED = ("bpe", "unigram", "wordpiece")
OF_WORDS = ("word", "whitespace")  # of whole words, and not of pieces or characters
SUBWORD_VOCABULARY = 8000

Normalisation = Literal["nfc", "nfkc", "lower"]
NORMAL_FORMS: dict[Normalisation, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
_STEPS = (*NORMAL_FORMS, "lower")


def steps_in_order(steps: tuple[Normalisation, ...]) -> tuple[Normalisation, ...]:
    """Return the steps of a normalisation, in the order in which they are taken. Raises SettingError."""
    for step in steps:
        if step not in _STEPS:
            raise SettingError(f"there is no normalisation called {step!r}; choose among {', '.join(_STEPS)}")
    if len(set(steps)) < len(steps):
        raise SettingError(f"a normalisation is named twice: {', '.join(steps)}")
    if set(NORMAL_FORMS) <= set(steps):
        raise SettingError("nfc and nfkc are alternatives; choose one of them")
    return tuple(step for step in _STEPS if step in steps)


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Options):
    """How text is tokenized, and which tokens a model knows.

    kind: one of BUILT_IN or LEARNED, or the path of a tokenizer.json, or of a model folder, to use its tokenizer.
    normalise: nfc or nfkc, and lower; applied to all text before tokenization.
    vocabulary_size: the largest number of tokens, markers included. Subword kinds learn this many, 8,000 by default; of
    others, the most frequent are kept, and of equally frequent ones those that occur first.
    min_count: tokens that occur less often are left out.
    vocabulary: a file of the tokens to keep, one a line. Tokens left out become <unk>, in training, too.
    Raises SettingError if settings contradict each other.
    """

    kind: str | os.PathLike[str] = option(
        "word",
        "word (the default): words and punctuation; whitespace: as KenLM; character; byte; bpe, unigram, wordpiece: "
        "subwords learned from the text; or the path of a tokenizer.json or a model folder",
        flag="tokenizer",
        reads=str,
        shown=False,
    )
    normalise: tuple[Normalisation, ...] = option(
        (),
        "normalise all text first: nfc or nfkc, lower; or two with a comma: nfc,lower",
        reads=str,
        parse=lambda steps: tuple(steps.split(",")),
    )
    vocabulary_size: int | None = option(
        None, "at most this many tokens, <unk>, <s> and </s> included; for subwords 8000 by default"
    )
    min_count: int = option(
        1,
        "tokens seen less often become <unk>, in training too; by default 1, for word vectors 5",
        least=1,
        flag="vocabulary-min-count",
        shown=False,
    )
    vocabulary: str | os.PathLike[str] | None = option(
        None, "a file with the vocabulary, one token a line, as the tokenizer writes them", reads=str
    )

    def __post_init__(self) -> None:
        if isinstance(self.kind, os.PathLike):
            object.__setattr__(self, "kind", os.fspath(self.kind))
        if isinstance(self.normalise, tuple | list):
            steps_in_order(tuple(self.normalise))
        super().__post_init__()
        if self.vocabulary_size is not None and self.vocabulary_size < 4:
            raise SettingError(f"vocabulary_size is {self.vocabulary_size}; expected 4 or more: three are markers")
        if self.vocabulary is not None and (self.min_count > 1 or self.vocabulary_size is not None):
            raise SettingError("the vocabulary is that of the file; leave out min_count and vocabulary_size")
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
    """Return a configuration unchanged; a kind or path as the configuration of it."""
    return tokenizer if isinstance(tokenizer, TokenizerConfig) else TokenizerConfig(kind=tokenizer)
