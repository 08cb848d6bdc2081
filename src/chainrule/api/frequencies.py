"""How often n-grams occur in a text, and how often one word follows others: what all smoothing starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.tokenizers import tokenized
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus import source_of

if TYPE_CHECKING:
    from chainrule.text.corpus import Paths, Source
    from chainrule.text.tokenizer_config import TokenizerConfig

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

        order = NGramConfig(order=order).order  # which says what is wrong with it
        self._tokenizer, stream, _ = tokenized(source_of(source), tokenizer, progress=progress)
        self._counts = count_ngrams(stream, self._tokenizer.vocabulary_size, order, progress)
        self._documents = int(np.count_nonzero(stream == END))
        self._count_markers = count_markers
        ends = 2 * self._documents if count_markers else 0
        self.total = stream.size - self._documents + ends  # words in all

    def count(self, *words: str) -> int:
        """How often these words follow each other in a document. Raises SettingError for more than the order."""
        if not 1 <= len(words) <= self._counts.order:
            raise SettingError(f"{len(words)} words cannot be counted; expected 1 to {self._counts.order}, the order")
        ids = [self._tokenizer.vocabulary.id_of(word) for word in words]
        if UNKNOWN in ids or (not self._count_markers and {BEGIN, END} & set(ids)):
            return 0
        if ids == [BEGIN]:
            return self._documents
        node = _ROOT
        for token in ids:
            first, last = self._counts.begin[node : node + 2].tolist()
            place = first + int(np.searchsorted(self._counts.words[first:last], np.int32(token)))
            if place == last or self._counts.words[place] != token:
                return 0
            node = place
        return int(self._counts.counts[node])

    def prob(self, word: str, *context: str) -> float:
        """count(context word) / count(context), or without a context count(word) / total; 0 where that is 0 / 0."""
        below = self.count(*context) if context else self.total
        return self.count(*context, word) / below if below else 0.0
