"""What a network's vectors of tokens begin as: word vectors of our own folders, or of any file that we read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.vectors.load_vectors import load_vectors
from chainrule.errors import SettingError
from chainrule.text.tokenization.splitters import JOINER
from chainrule.text.tokenization.vocabulary import Vocabulary
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.text.vector_files import Vectors, read_vectors, words_of_file
from chainrule.training.config import InitialVectors
from chainrule.vectors.fasttext import is_fasttext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.base.progress import Progress
    from chainrule.text.tokenization.tokenizer import Tokenizer

_OF_WORDS = ("word", "whitespace")  # tokenizers


def check_fixed(*sources: str | os.PathLike[str] | None, fixed: bool) -> None:
    """Raises SettingError where vectors are to be kept and none are given."""
    if fixed and all(source is None for source in sources):
        raise SettingError("fixed_vectors is given without vectors; name word vectors, or leave fixed_vectors out")


def initial_vectors(
    source: str | os.PathLike[str] | None, tokens: Sequence[bytes], progress: Progress, *, fixed: bool
) -> InitialVectors | None:
    """What the vectors of a vocabulary's tokens begin as; None where no source is given.

    fixed: whether none of them is trained. Raises TextError, ModelFormatError.
    """
    return None if source is None else InitialVectors(vectors_of_tokens(source, tokens, progress), fixed)


def with_words_of(tokenizer: Tokenizer, source: str | os.PathLike[str], progress: Progress) -> Tokenizer:
    """The tokenizer with all words of some vectors at the end of its vocabulary, unless it cuts words into pieces.

    So words that have a vector are known, whether or not the training text has them. Raises TextError,
    ModelFormatError.
    """
    if tokenizer.name not in _OF_WORDS:
        return tokenizer
    name = os.fspath(source)
    if not Path(source).is_dir() and not is_fasttext(source):
        words = words_of_file(name, progress)
    else:
        words = [word.encode() for word in load_vectors(source).words]
    tokens = dict.fromkeys(tokenizer.vocabulary.tokens())
    tokens |= dict.fromkeys(word for word in words if len(word.split()) == 1)
    return tokenizer.with_vocabulary(Vocabulary(list(tokens)[FIRST_ORDINARY:]))


def vectors_of_tokens(source: str | os.PathLike[str], tokens: Sequence[bytes], progress: Progress) -> Vectors:
    """By the ids of tokens. Of vectors with n-grams, unknown words have theirs, too.

    Raises TextError, ModelFormatError.
    """
    name = os.fspath(source)
    if not Path(source).is_dir() and not is_fasttext(source):
        return read_vectors(name, tokens, progress)
    vectors = load_vectors(source)
    ids, rows = [], []
    for token_id, token in enumerate(tokens[FIRST_ORDINARY:], FIRST_ORDINARY):
        word = token.decode(errors="replace")
        vector = vectors.vector_of(word)
        if vector is None and JOINER in word:
            vector = vectors.vector_of(word.removeprefix(JOINER).removesuffix(JOINER))
        if vector is not None:
            ids.append(token_id)
            rows.append(vector)
    found = np.array(rows, np.float32).reshape(len(rows), vectors.vectors.shape[1])
    return Vectors(name, np.array(ids, np.int64), found)
