"""Words of a text as ids, for word vectors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.api.tokenizers import tokenized
from chainrule.errors import SettingError
from chainrule.text.tokenization.build import keep_tokens
from chainrule.text.tokenization.config import LEARNED, TokenizerConfig
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Markers

WORDS = TokenizerConfig(kind="word", min_count=5)  # word2vec.c's least count


def read_words(
    source: Source, tokenizer: TokenizerConfig, markers: Markers, progress: Progress, file: Any = None
) -> tuple[Tokenizer, Int32[ndarray, " tokens"]]:
    """Encodes a text as ids of words, numbered from the most frequent on. Raises TextError, SettingError."""
    if os.fspath(tokenizer.kind) in LEARNED:
        raise SettingError(
            f"{tokenizer.kind} splits words into pieces, but vectors are of whole words; choose word or whitespace"
        )
    learner, stream, _ = tokenized(source, tokenizer, markers, progress, file=file)
    tokens = learner.vocabulary.tokens()
    counts = count_words(stream, len(tokens))
    order = FIRST_ORDINARY + np.argsort(-counts[FIRST_ORDINARY:], kind="stable")
    ordered = keep_tokens([tokens[token] for token in order.tolist()], learner, stream)
    return ordered.tokenizer, ordered.stream


def count_words(stream: Int32[ndarray, " tokens"], size: int) -> ndarray:
    """How often each token occurs."""
    counts = np.zeros(size, np.int64)
    for start in range(0, stream.size, 1 << 22):  # np.bincount copies its input
        counts += np.bincount(stream[start : start + (1 << 22)], minlength=size)
    return counts
