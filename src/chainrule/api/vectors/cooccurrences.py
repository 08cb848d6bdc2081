"""Counts how often words occur near one another in a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.ids_file import ids_file
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.vectors.cooccurrence_matrix import Together
from chainrule.api.vectors.read_words import WORDS, read_words
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.config import TokenizerConfig, as_config
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.vectors.config import CooccurrenceConfig
from chainrule.vectors.cooccurrences import count_cooccurrences

if TYPE_CHECKING:
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.vocabulary import Markers


@shows_progress
def count_together(
    source: Source | Paths,
    config: CooccurrenceConfig | None = None,
    *,
    tokenizer: TokenizerConfig | str = WORDS,
    markers: Markers = "error",
    progress: ProgressOption = None,
) -> Together:
    """Counts how often words occur within a window of one another; each line is a document.

    Words that are not in the tokenizer's vocabulary are removed from the text first, as GloVe does. Raises TextError,
    SettingError, OutputError.

    >>> text = Lines(["we like deep nets", "we like nets"])
    >>> config = CooccurrenceConfig(window=1, weighting="flat")
    >>> together = count_together(text, config, tokenizer="whitespace")
    >>> together.words
    ['we', 'like', 'nets', 'deep']
    >>> together.matrix().astype(int).tolist()
    [[0, 2, 0, 0], [2, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    """
    on_progress = callback(progress)
    source, config = source_of(source), config or CooccurrenceConfig()
    with ids_file(None) as file:
        learner, stream = read_words(source, as_config(tokenizer), markers, on_progress, file)
        tokens = learner.vocabulary.tokens()
        counted = count_cooccurrences(stream, len(tokens) - FIRST_ORDINARY, config, on_progress)
        occurrences = np.bincount(stream, minlength=len(tokens))[FIRST_ORDINARY:].tolist()
    words = [token.decode(errors="replace") for token in tokens[FIRST_ORDINARY:]]
    return Together(words, occurrences, counted, {**source.record, "counting": asdict(config)})
