"""Query likelihood: documents ranked by P(query | a unigram model of the document) (Ponte and Croft 1998).

The model of a document is smoothed by that of all documents, P(w | C) = c(w, C) / |C| (Zhai and Lafferty 2004):

    dirichlet        P(w | d) = (c(w, d) + mu P(w | C)) / (|d| + mu)
    jelinek-mercer   P(w | d) = (1 - lambda) c(w, d) / |d| + lambda P(w | C)

Only documents that share a token with the query are counted up: the others have the score of the smoothing alone. A
token that no document has says nothing about which of them is better, and is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.features.corpus.options import RankConfig


class DocumentIndex:
    """Which documents hold each token, and how often."""

    def __init__(self, documents: Sequence[Int32[ndarray, " T"]], vocabulary_size: int) -> None:
        """Count the tokens of the documents. Raises TextError if no document has a token."""
        self.lengths: Int64[ndarray, " documents"] = np.array([len(document) for document in documents], np.int64)
        self.size = int(self.lengths.sum())
        if not self.size:
            raise TextError("the documents are empty; expected text in at least one")
        tokens = np.concatenate(documents).astype(np.int64)
        numbers = np.repeat(np.arange(len(documents)), self.lengths)
        pairs, counts = np.unique(tokens * len(documents) + numbers, return_counts=True)
        self._tokens, self._documents = np.divmod(pairs, len(documents))
        self._counts = counts
        self._collection = np.bincount(tokens, minlength=vocabulary_size) / self.size

    def scores(self, query: Int32[ndarray, " T"], config: RankConfig) -> Float64[ndarray, " documents"]:
        """Return log P(query | document) in nats, tokens that no document has left out; zeros if none is left."""
        totals = np.zeros(len(self.lengths))
        tokens, times = np.unique(query, return_counts=True)
        dirichlet = config.smoothing == "dirichlet"
        prior = config.mu if dirichlet else config.share
        for token, count in zip(tokens.tolist(), times.tolist(), strict=True):
            background = float(self._collection[token]) if token < self._collection.size else 0.0
            if background == 0:
                continue
            counts = np.zeros(len(self.lengths))
            own = slice(*np.searchsorted(self._tokens, [token, token + 1]))
            counts[self._documents[own]] = self._counts[own]
            if dirichlet:
                probs = (counts + prior * background) / (self.lengths + prior)
            else:
                probs = (1 - prior) * counts / np.maximum(self.lengths, 1) + prior * background
            totals += count * np.log(probs)
        return totals
