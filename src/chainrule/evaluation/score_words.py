"""The words that scores of captions and of summaries compare."""

from __future__ import annotations

import re

_LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")
_CLITIC = re.compile(r"(?<=\w)(?=(?:n't|'(?:s|d|m|re|ve|ll))\b)")
_CAPTION_WORD = re.compile(r"n't\b|'\w+|\d+(?:[.,]\d+)+|[^\W_]+(?:-[^\W_]+)*")


def rouge_words(text: str) -> list[str]:
    """Runs of letters and digits in lower case; those of rouge-score if all letters are ASCII."""
    return _LETTERS_AND_DIGITS.findall(text.lower())


def caption_words(text: str) -> list[str]:
    """Words in lower case without punctuation; clitics are words of their own: don't is do n't, man's is man 's.

    After the tokenizer of the Penn Treebank that scores of captions are usual with, but not a copy of it.
    """
    return _CAPTION_WORD.findall(_CLITIC.sub(" ", text.lower().replace("\u2019", "'")))
