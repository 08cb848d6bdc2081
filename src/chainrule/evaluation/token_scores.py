"""The log-probability of each token or document of a text, with the spelling of unknown tokens: they sum to one.

For a model, P(<unk>) is the probability of one unseen type, as in KenLM, or of all unseen types together, if it saw
<unk> in training. The speller knows the number U of unseen types (1 in the second case). Then

    P'(w | h) = P(w | h) / Z(h),    P'(s | h) = U P(<unk> | h) / Z(h) P(s | unknown),    Z(h) = 1 + (U - 1) P(<unk> | h)

is a distribution over all known tokens w and the spellings s of unknown ones. Perplexity is reported without this, as
in the literature. Scores of documents are whole arrays: there is no Python object for each document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.protocol import END, UNKNOWN, Scorer
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.text.tokenization.vocabulary import Encoded


class Measurable(Scorer, Protocol):
    """The methods of a language model that measuring needs."""

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]: ...


class Speller(Protocol):
    """The probabilities of the spellings of unknown tokens."""

    name: str

    @property
    def unseen_types(self) -> int: ...

    def log_probs(self, tokens: Sequence[bytes]) -> Float64[ndarray, " T"]: ...


@dataclass(frozen=True)
class TokenLogProbs:
    """The log-probabilities of a stream's tokens, </s> included, in nats, in three terms."""

    closed: Float64[ndarray, " T"]  # log P(token | context), unknown tokens as <unk>
    unseen: Float64[ndarray, " T"]  # correction for all unseen types: -log Z, plus log U for an unknown token
    spelling: Float64[ndarray, " T"]  # log P(spelling | unknown); 0 for a known one
    unknown: Bool[ndarray, " T"]

    @property
    def spelled(self) -> Float64[ndarray, " T"]:
        """The model's own log-probability of the token; that of <unk> with the spelling, of an unknown one."""
        return self.closed + self.spelling

    @property
    def total(self) -> Float64[ndarray, " T"]:
        """The log-probability of the token as a part of the text."""
        return self.closed + self.unseen + self.spelling


def score_tokens(
    model: Measurable,
    speller: Speller,
    encoded: Encoded,
    given: Sequence[int] | None = None,
    *,
    end: bool = True,
    alone: bool = False,
) -> TokenLogProbs:
    """Return the log-probabilities of the tokens of encoded documents, each scored by itself.

    given: for each document, how many of its first tokens are context only, and not scored; by default none. end:
    whether </s> is predicted and scored after each document. alone: whether networks, whose last bits depend on what
    else they read in a pass, get each document in a separate call.
    """
    sequences = documents_of(encoded.ids)
    firsts = [0] * len(sequences) if given is None else given
    prefixes = [sequence[:first] for sequence, first in zip(sequences, firsts, strict=True)]
    rest = [sequence[first:] for sequence, first in zip(sequences, firsts, strict=True)]
    is_scored = np.ones(encoded.ids.size, np.bool_)
    is_scored[encoded.ids == END] = end
    starts = np.cumsum([0, *(len(sequence) + 1 for sequence in sequences)])
    for start, first in zip(starts.tolist(), firsts, strict=False):
        is_scored[start : start + first] = False
    closed, log_share = np.zeros(is_scored.size), np.full(is_scored.size, -np.inf)
    calls = [(rest, prefixes)]
    if alone and hasattr(model, "score_stream_with_unknown"):  # which networks have, and mixtures with them
        calls = [([own], [prefix]) for own, prefix in zip(rest, prefixes, strict=True)]
    closed[is_scored] = _join([row for own, first in calls for row in model.score(own, prefixes=first, end=end)])
    if speller.unseen_types != 1:  # with one unseen type, the share of <unk> is not needed
        log_share[is_scored] = _join(
            [row for own, first in calls for row in model.unknown_log_probs(own, prefixes=first, end=end)]
        )
    scored = score_stream_tokens(encoded, speller, closed, log_share)
    unseen, spelling = (np.where(is_scored, column, 0.0) for column in (scored.unseen, scored.spelling))
    return TokenLogProbs(closed, unseen, spelling, scored.unknown)


def score_stream_tokens(
    encoded: Encoded,
    speller: Speller,
    closed: Float64[ndarray, " T"] | Float32[ndarray, " T"],
    log_share: Float64[ndarray, " T"] | Float32[ndarray, " T"] | None = None,
) -> TokenLogProbs:
    """Return the log-probabilities of the tokens of a stream.

    closed: the model's log-probabilities of its tokens. log_share: those of <unk> at their positions; None if `unseen`
    may be anything.
    """
    closed, unknown = closed.astype(np.float64), encoded.ids == UNKNOWN
    types = 1 if log_share is None else speller.unseen_types
    unseen = _unseen_terms(closed if log_share is None else log_share.astype(np.float64), unknown, types)
    spelling = np.zeros(closed.size)
    positions = np.flatnonzero(unknown)
    spelling[positions] = _spelling_log_probs(speller, [encoded.surface(i) for i in positions.tolist()])
    return TokenLogProbs(closed, unseen, spelling, unknown)


def score_documents(
    model: Measurable, speller: Speller, encoded: Encoded, *, given: Sequence[int] | None = None, end: bool = True
) -> tuple[Float64[ndarray, " documents"], Int64[ndarray, " documents"]]:
    """Return the log-probability of each document, in nats, and its number of tokens.

    given: as in `score_tokens`. end: whether </s> is included.
    """
    ends = np.flatnonzero(encoded.ids == END)
    if not ends.size:
        return np.empty(0), np.empty(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    scored = score_tokens(model, speller, encoded, given, end=end).total
    return np.add.reduceat(scored, starts), ends + int(end) - starts


def _join(rows: list[Any]) -> Float64[ndarray, " T"]:
    return np.concatenate(rows, dtype=np.float64) if rows else np.empty(0)


def _unseen_terms(
    log_share: Float64[ndarray, " T"], unknown: Bool[ndarray, " T"], types: int
) -> Float64[ndarray, " T"]:
    """Return -log Z(h), plus log U for unknown tokens. log_share: log P(<unk> | context) at every position."""
    if types == 1:
        return np.zeros(log_share.size)
    with np.errstate(divide="ignore"):
        return np.where(unknown, np.log(types), 0.0) - np.log1p((types - 1) * np.exp(log_share))


def _spelling_log_probs(speller: Speller, tokens: list[bytes]) -> Float64[ndarray, " T"]:
    """Return the log-probability of each token's spelling, computed once for each type."""
    types = list(dict.fromkeys(tokens))
    log_probs = dict(zip(types, speller.log_probs(types).tolist(), strict=True))
    return np.array([log_probs[token] for token in tokens], np.float64)


@dataclass(frozen=True)
class SentenceScores:
    """The scores of documents."""

    log_probs: Float64[ndarray, " documents"]  # nats, </s> included, unknown tokens as <unk>
    tokens: Int64[ndarray, " documents"]  # </s> included
    unknown: Int64[ndarray, " documents"]  # unknown tokens


def score_sentences(model: Scorer, stream: Int32[ndarray, " T"], *, running: bool = False) -> SentenceScores:
    """Score the documents of a stream, each ending with </s>, and each by itself.

    running: whether a network with memory="stream" reads earlier documents as the context of later ones.
    """
    stops = np.flatnonzero(stream == END) + 1
    if not stops.size:
        return SentenceScores(np.empty(0), stops, stops)
    starts = np.concatenate([[0], stops[:-1]])
    if running or not hasattr(model, "score_stream_with_unknown"):  # which is of models that may carry context over
        scores: ndarray = model.score_stream(stream)
    else:
        scores = _join(model.score(documents_of(stream)))
    return SentenceScores(
        np.add.reduceat(scores, starts, dtype=np.float64),
        stops - starts,
        np.add.reduceat(stream == UNKNOWN, starts, dtype=np.int64),
    )
