"""Counts and relative frequencies of n-grams in a text, before any smoothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.corpus import source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig

_ROOT = 0


class Frequencies:
    """Counts of n-grams, and relative frequencies: the estimates of maximum likelihood, which are 0 for the unseen.

    count_markers: whether <s> and </s> count as words, once for each document.
    Raises TextError, SettingError.

    good:  Frequencies("corpus.txt", order=2).prob("dog", "the")          # count(the dog) / count(the)
    """

    def __init__(
        self,
        source: Source | Paths,
        *,
        order: int = 3,
        tokenizer: TokenizerConfig | str = "word",
        count_markers: bool = True,
        progress: Progress = silent,
    ) -> None:
        from chainrule.ngram.config import NGramConfig
        from chainrule.ngram.counting.count import count_ngrams

        order = NGramConfig(order=order).order  # checks it
        self._tokenizer, stream, *_ = tokenize_source(source_of(source), tokenizer, progress=progress)
        self._counts = count_ngrams(stream, self._tokenizer.vocabulary_size, order, progress)
        self._documents = int(np.count_nonzero(stream == END))
        self._count_markers = count_markers
        ends = 2 * self._documents if count_markers else 0
        self.total = stream.size - self._documents + ends  # number of words

    def count(self, *words: str) -> int:
        """Return how often these words follow one another.

        Raises SettingError if there are more of them than the order.
        """
        if not 1 <= len(words) <= self._counts.order:
            raise SettingError(f"{len(words)} words cannot be counted; expected 1 to {self._counts.order}, the order")
        ids = self._ids(words)
        if ids == [BEGIN] and self._count_markers:
            return self._documents
        node = self._node(ids)
        return 0 if node is None else int(self._counts.counts[node])

    def prob(self, word: str, *context: str) -> float:
        """Return count(context word) / count(context), or without a context count(word) / total; 0 for 0 / 0."""
        denominator = self.count(*context) if context else self.total
        return self.count(*context, word) / denominator if denominator else 0.0

    def followers(self, *context: str) -> dict[str, int]:
        """Return how often each token follows this context, the most frequent first. Raises as `count`."""
        if len(context) >= self._counts.order:
            raise SettingError(f"{len(context)} words of context; expected at most {self._counts.order - 1}, order - 1")
        node = self._node(self._ids(context))
        first, last = (0, 0) if node is None else self._counts.begin[node : node + 2].tolist()
        pairs = zip(self._counts.words[first:last].tolist(), self._counts.counts[first:last].tolist(), strict=True)
        counts = {token: count for token, count in pairs if count and (self._count_markers or token != END)}
        ordered = sorted(counts, key=lambda token: -counts[token])
        return {self._tokenizer.vocabulary.token(token): counts[token] for token in ordered}

    def _ids(self, words: Sequence[str]) -> list[int]:
        return [self._tokenizer.vocabulary.id_of(word) for word in words]

    def _node(self, ids: Sequence[int]) -> int | None:
        """Return the node of these tokens; None if they were not seen."""
        if UNKNOWN in ids or (not self._count_markers and {BEGIN, END} & set(ids)):
            return None
        node = _ROOT
        for token in ids:
            first, last = self._counts.begin[node : node + 2].tolist()
            child = first + int(np.searchsorted(self._counts.words[first:last], np.int32(token)))
            if child == last or self._counts.words[child] != token:
                return None
            node = child
        return node
