"""Stupid backoff: relative frequencies, times a fixed factor for every word of context that is dropped.

Its scores do not sum to one: they can rank text, and no more. Source: Brants, Popat, Xu, Och and Dean, Large language
models in machine translation (EMNLP 2007), equation 5.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from chainrule.base.arguments import as_tokens
from chainrule.errors import SettingError
from chainrule.ngram.counting.counts import history_lengths
from chainrule.protocol import END, UNKNOWN, StreamScores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.ngram.models.table_models import NGramModel
    from chainrule.ngram.trie.table import Table


class StupidBackoff:
    """A Scorer over a table of relative frequencies.

    Not a LanguageModel: anything that needs a distribution raises SettingError.
    """

    end = END
    is_distribution = False
    why_no_table = "it uses stupid backoff, whose scores are not a distribution; train one with another smoothing"

    def __init__(self, frequencies: NGramModel | PaddedModel | ShardedModel, weight: float) -> None:
        """Store the frequencies and the weight. weight: the factor for each word of context that is dropped."""
        self.frequencies, self.weight = frequencies, weight
        self.vocabulary_size = frequencies.vocabulary_size

    @property
    def order(self) -> int:
        return self.frequencies.order

    @property
    def begins(self) -> int:
        return self.frequencies.begins

    @property
    def settings(self) -> Mapping[str, Any]:
        """As `StreamScorer.settings`."""
        return {**self.frequencies.settings, "backoff_weight": self.weight}

    @property
    def table(self) -> Table:
        """The table of a model that is not in shards."""
        return self.frequencies.table  # type: ignore[union-attr]

    def score(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `Scorer.score`."""
        return self.score_with_lengths(sequences, prefixes=prefixes, end=end)[0]

    def score_with_lengths(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> tuple[list[Float32[ndarray, " tokens"]], list[Int[ndarray, " tokens"]]]:
        """Return the results of `score`, and the lengths of the n-grams that gave them."""
        scores, lengths = self.frequencies.score_with_lengths(sequences, prefixes=prefixes, end=end)
        before = [self.frequencies.begins + (len(prefixes[i]) if prefixes else 0) for i in range(len(scores))]
        rows = zip(scores, lengths, before, strict=True)
        return [self._weighted(row, matched, np.arange(row.size) + 1 + start) for row, matched, start in rows], lengths

    def score_stream(self, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, " tokens"]:
        """Implement `Scorer.score_stream`."""
        return self._score_stream(stream)[0]

    def score_stream_in_full(self, stream: Int32[ndarray, " tokens"]) -> StreamScores:
        """Return the same as `StreamScorer.score_stream_in_full`."""
        documents = np.split(stream, np.flatnonzero(stream == END) + 1)
        unknown = self.unknown_log_probs(documents, end=False)
        return StreamScores(*self._score_stream(stream), np.concatenate(unknown))

    def _score_stream(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        scores, lengths = self.frequencies.score_stream_with_lengths(stream)
        longest = (
            history_lengths(stream, self.order) if self.frequencies.begins == 1 else np.full(stream.size, self.order)
        )
        return self._weighted(scores, lengths, longest), lengths

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """Return log S(<unk> | context) at every position where `score` gives log S(token | context)."""
        scores = []
        unknown = np.array([UNKNOWN], np.int32)
        for i, sequence in enumerate(map(as_tokens, sequences)):
            history = sequence if prefixes is None else np.concatenate([as_tokens(prefixes[i]), sequence])
            first = history.size - sequence.size
            positions = range(first, history.size + end)
            windows = [history[max(0, position - self.order + 1) : position] for position in positions]
            scores.append(
                np.concatenate(
                    [np.empty(0, np.float32), *self.score([unknown] * len(windows), prefixes=windows, end=False)]
                )
            )
        return scores

    def start(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Raise SettingError, as every method that needs a distribution does."""
        raise SettingError(
            "the scores of stupid-backoff do not sum to one, so it can score and rank text but not predict or draw "
            "words; train with another smoothing for that"
        )

    next_log_probs = log_probs_of = top = draw = advance = select = join = start

    def _weighted(
        self,
        scores: Float32[ndarray, " tokens"],
        lengths: Int[ndarray, " tokens"],
        longest: Int[ndarray, " tokens"],
    ) -> Float32[ndarray, " tokens"]:
        """Return the scores, times a factor for each word of context that the document had and the n-gram lacked."""
        dropped = np.minimum(longest, self.order) - lengths.astype(np.int64)
        return (scores + dropped * math.log(self.weight)).astype(np.float32)
