"""The language model of a table whose documents begin with order - 1 times <s>."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_tokens, check_tokens
from chainrule.ngram.counting.counts import pad_documents
from chainrule.ngram.models.stream_scorer import StreamScorer
from chainrule.ngram.models.table_models import NGramModel
from chainrule.protocol import BEGIN, END, StreamScores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.ngram.models.table_models import Contexts
    from chainrule.ngram.trie.table import Table


class PaddedModel(StreamScorer):
    """A model trained on padded documents; pads every query in the same way."""

    why_no_table = "its documents begin with several <s>"
    settings: Mapping[str, Any] = MappingProxyType({"begins": "all"})

    def __init__(self, base: NGramModel | ShardedModel) -> None:
        """Store the model, and the padding of a document.

        base: the model of padded documents, which does not pad by itself; what asks nothing of documents is its.
        """
        self.base = base
        self._padding = np.full(max(0, base.order - 2), BEGIN, np.int32)
        self._start = base.start([self._padding])[0]
        self.vocabulary_size = base.vocabulary_size
        self.begins = 1 + self._padding.size
        self.next_log_probs, self.log_probs_of = base.next_log_probs, base.log_probs_of
        self.top, self.draw = base.top, base.draw
        self.backoff_chain, self.continuations = base.backoff_chain, base.continuations

    @property
    def order(self) -> int:
        return self.base.order

    @property
    def table(self) -> Table:
        """The table of a model that is not in shards."""
        assert isinstance(self.base, NGramModel)
        return self.base.table

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """Implement `LanguageModel.advance`."""
        new = self.base.advance(state, tokens)
        new[np.flatnonzero(as_tokens(tokens) == END)] = self._start
        return new

    @property
    def _begin_state(self) -> Int64[ndarray, " order-1"]:
        return self._start

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        check_tokens(stream, self.vocabulary_size)
        padded, is_own = pad_documents(stream, self._padding.size)
        scores, lengths, of_unknown = self.base._score(padded, unknown=unknown)
        return StreamScores(scores[is_own], lengths[is_own], of_unknown[is_own] if unknown else of_unknown)
