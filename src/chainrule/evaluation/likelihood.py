"""Measures the likelihood of a text under a model.

Every sum is exact (`math.fsum` over the documents), so that no figure depends on the size of blocks or the number of
threads.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule import __version__
from chainrule.base.progress import BlockProgress, Progress, silent
from chainrule.base.threads import map_in_order
from chainrule.evaluation.likelihood_kernels import add_tokens, count_text
from chainrule.evaluation.measurement import GROUPS, Breakdown, Measurement, row_sums
from chainrule.evaluation.resampling import Documents
from chainrule.evaluation.token_scores import score_stream_tokens, score_tokens
from chainrule.protocol import END
from chainrule.text.corpus.block import LINE_FEED, NEVER_IN_UTF8
from chainrule.text.units import IS_SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Float32, Float64, Int, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Measurable, Speller, TokenLogProbs
    from chainrule.protocol import LanguageModel, StreamScores
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer

    # From a stream and a callback to the log-probabilities of its tokens, and of <unk> at their positions.
    StreamScore = Callable[
        [Int32[ndarray, " T"], Callable[[float], None]], tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]
    ]


def measure(
    model: Measurable,
    tokenizer: Tokenizer,
    speller: Speller,
    source: Source,
    progress: Progress = silent,
    *,
    score_in_full: Callable[[Int32[ndarray, " T"]], StreamScores] | None = None,
    stream_scoring: StreamScoring | None = None,
    row_sums_of: LanguageModel[Any] | None = None,
    ends: bool = True,
    context: str = "document",
    is_distribution: bool = True,
    frequencies: Int64[ndarray, " V"] | None = None,
) -> Measurement:
    """Measure the likelihood of a source's documents.

    score_in_full: an n-gram model's `score_stream_in_full`, which also gives the lengths of its matches.
    stream_scoring: scores a text as one stream, for a model that sees more than the document.
    row_sums_of: the model once more, to sum its distributions at some positions of the text; None not to. ends: whether
    the end of each document is predicted and counted.
    context: the context of a token, in words, for the signature, unless there is a stream_scoring. is_distribution:
    whether the model's probabilities sum to one.
    frequencies: counts of each token in the training text, to break the figures down; <unk> counts as unseen.
    Raises TextError if the source cannot be read or has no text.
    """

    began = time.perf_counter()
    block_progress = BlockProgress(progress, "evaluating")

    def parts() -> Iterator[tuple[bool, Block]]:
        """Yield parts of the text, and whether each belongs to the first block; whole blocks for stream scoring."""
        for i, block in enumerate(source.blocks(block_progress, "evaluating")):
            pieces = [block] if stream_scoring is not None else block.pieces(_PART_BYTES)
            yield from ((i == 0, piece) for piece in pieces)

    def measure_part(part: tuple[bool, Block]) -> _PartFigures:
        is_first, block = part
        encoded = tokenizer.encode_block(block)
        lengths = None
        if stream_scoring is not None:
            stream_scores = stream_scoring.score_for(speller)(
                encoded.ids, lambda share: block_progress.report(share * block.text.size)
            )
            scored = score_stream_tokens(encoded, speller, *stream_scores)
        elif score_in_full is not None:
            scores, lengths, unknown = score_in_full(encoded.ids)
            scored = score_stream_tokens(encoded, speller, scores, unknown)
        else:
            scored = score_tokens(model, speller, encoded)
        figures = _part_figures(
            encoded.ids, scored, tokenizer.align(encoded), lengths, ends=ends, frequencies=frequencies
        )
        return figures if is_first else replace(figures, ids=None)

    digest = hashlib.sha256()
    sums: list[_Sums] = []
    words = characters = tokens = oov = impossible = 0
    matched = np.zeros(0, np.int64)
    first_ids: list[Int32[ndarray, " T"]] = []  # of the first block
    by_position, by_frequency = _NO_TOKENS, _NO_TOKENS
    # Networks have threads of their own and need much memory for each block.
    for part in map_in_order(measure_part, parts()) if stream_scoring is None else map(measure_part, parts()):
        if part.ids is not None:
            first_ids.append(part.ids)
        sums.append(part.sums)
        by_position += part.by_position
        by_frequency += part.by_frequency
        tokens += part.tokens
        oov += part.oov
        impossible += part.impossible
        words += part.words
        characters += part.characters
        matched = _add_histograms(matched, part.matched)
        digest.update(part.text.data)
    sampled = None if row_sums_of is None else row_sums(row_sums_of, np.concatenate(first_ids))
    closed, known, spelling, text, sizes = map(np.concatenate, zip(*sums, strict=True))
    documents = len(text)
    return Measurement(
        documents=documents,
        tokens=tokens,
        oov=oov,
        impossible=impossible,
        words=words + ends * documents,
        characters=characters - (not ends) * documents,
        bytes=int(sizes.sum()),
        log_prob=math.fsum(closed.tolist()),
        log_prob_without_oov=math.fsum(known.tolist()),
        spelling_log_prob=math.fsum(spelling.tolist()),
        text_log_prob=math.fsum(text.tolist()),
        matched=tuple(matched.tolist()) if score_in_full else None,
        is_distribution=is_distribution,
        row_sums=sampled,
        seconds=time.perf_counter() - began,
        text_signature=(f"text:{digest.hexdigest()[:8]}|oov:spelled|predict:tokens{',</s>' * ends}|v:{__version__}"),
        token_signature=token_signature(tokenizer),
        model_signature=model_signature(speller, stream_scoring, context=context, is_distribution=is_distribution),
        per_document=Documents(-text, sizes),
        by_position=by_position,
        by_frequency=None if frequencies is None else by_frequency,
    )


def token_signature(tokenizer: Tokenizer) -> str:
    """Return a text that names the tokenizer and its vocabulary: perplexities per token are comparable only if it is
    equal.
    """
    return f"tok:{tokenizer.name}|loses:{tokenizer.loses}|vocab:{_vocabulary_signature(tokenizer)}"


def model_signature(
    speller: Speller, stream_scoring: StreamScoring | None, *, context: str = "document", is_distribution: bool = True
) -> str:
    """Return a text that says how unknown words are spelled and how much context the model sees.

    Arguments: those of `measure`.
    """
    visible = f"context:{context}" if stream_scoring is None else stream_scoring.signature
    scores = "" if is_distribution else "|scores:no distribution"
    return f"spell:{speller.name}|unseen:{speller.unseen_types}|{visible}{scores}"


class StreamScoring(NamedTuple):
    """How a model scores a text as one stream, across the ends of documents.

    score: a function from a stream and a callback to the log-probabilities of the tokens, and of <unk> at their
    positions. The callback gets the share that is done, from 0 to 1. score_known: the same with anything for <unk>, if
    that is less work.
    """

    score: StreamScore
    signature: str  # how much context a token has
    score_known: StreamScore | None = None

    def score_for(self, speller: Speller) -> StreamScore:
        """Return the quickest function whose figures suffice: with one unseen type, those of <unk> count for
        nothing.
        """
        return self.score if speller.unseen_types != 1 or self.score_known is None else self.score_known


_PART_BYTES = 1 << 18  # of text that a thread measures at a time: its arrays fit into the processor's cache


def _no_tokens() -> Breakdown:
    return Breakdown(np.zeros(GROUPS), np.zeros(GROUPS, np.int64))


_NO_TOKENS = _no_tokens()

_Sums = tuple[
    "Float64[ndarray, ' documents']",  # log-probability, unknown tokens as <unk>
    "Float64[ndarray, ' documents']",  # the same, known tokens only
    "Float64[ndarray, ' documents']",  # spelling
    "Float64[ndarray, ' documents']",  # in all
    "Int64[ndarray, ' documents']",  # bytes
]


@dataclass(frozen=True)
class _PartFigures:
    """The figures of a part of the text, to be added up, and its normalised text."""

    ids: Int32[ndarray, " T"] | None
    text: UInt8[ndarray, " bytes"]  # as hashed in the signature
    sums: _Sums
    by_position: Breakdown
    by_frequency: Breakdown
    tokens: int
    oov: int
    impossible: int
    words: int
    characters: int
    matched: Int64[ndarray, " lengths"]


def _part_figures(
    ids: Int32[ndarray, " T"],
    scored: TokenLogProbs,
    aligned: Alignment,
    lengths: Int[ndarray, " T"] | None,
    *,
    ends: bool,
    frequencies: Int64[ndarray, " V"] | None,
) -> _PartFigures:
    is_end = ids == END
    document_ends, total = np.flatnonzero(is_end), scored.total
    words, characters, lines = count_text(aligned.text, IS_SEPARATOR)
    by_position, matched = _no_tokens(), np.zeros(1 << 8, np.int64)
    own_lengths = np.empty(0, np.uint8) if lengths is None else lengths
    of_tokens = ids, aligned.stops, scored.closed, total, own_lengths, ends
    tokens, impossible = add_tokens(*of_tokens, by_position.nats, by_position.bytes, matched)
    by_frequency = _NO_TOKENS
    if frequencies is not None:
        counted = np.flatnonzero(~is_end) if not ends else slice(None)
        frequency = np.where(scored.unknown, 0, frequencies[ids])
        sizes = np.diff(aligned.stops, prepend=0)
        by_frequency = Breakdown.of(frequency[counted], -total[counted], sizes[counted])
    is_split = lines != document_ends.size  # by line feeds inside documents
    return _PartFigures(
        ids=ids,
        text=_mark_document_ends(aligned.text, aligned.starts[is_end]) if is_split else aligned.text,
        sums=_sum_by_document(scored, total, aligned, document_ends, ends=ends),
        by_position=by_position,
        by_frequency=by_frequency,
        tokens=tokens,
        oov=int(np.count_nonzero(scored.unknown)),
        impossible=impossible,
        words=words,
        characters=characters,
        matched=np.trim_zeros(matched[1:], "b"),
    )


def _sum_by_document(
    scored: TokenLogProbs,
    total: Float64[ndarray, " T"],
    aligned: Alignment,
    document_ends: Int64[ndarray, " documents"],
    *,
    ends: bool,
) -> _Sums:
    """Return sums for each document. They depend on nothing else, since the order of summation is that of its
    tokens. total: that of the scores.
    """
    starts = np.concatenate([[0], document_ends[:-1] + 1])
    closed = scored.closed
    if not ends:
        closed, total = closed.copy(), total.copy()
        closed[document_ends] = total[document_ends] = 0
    known = np.where(scored.unknown, 0.0, closed)
    columns = (np.add.reduceat(column, starts) for column in (closed, known, scored.spelling, total))
    first, second, third, fourth = columns
    return first, second, third, fourth, np.diff(aligned.stops[document_ends], prepend=0) - (not ends)


def _mark_document_ends(text: UInt8[ndarray, " bytes"], ends: Int64[ndarray, " documents"]) -> UInt8[ndarray, " bytes"]:
    """Return the text in a form that also shows where documents end, for the signature.

    Documents end with newlines; a newline inside a document becomes a byte that never occurs in UTF-8.
    ends: the positions of the newlines that end documents.
    """
    is_inside = text == LINE_FEED
    is_inside[ends] = False
    return np.where(is_inside, np.uint8(NEVER_IN_UTF8), text)


def _add_histograms(one: Int64[ndarray, " a"], other: Int64[ndarray, " b"]) -> Int64[ndarray, " max"]:
    total = np.zeros(max(one.size, other.size), np.int64)
    total[: one.size] += one
    total[: other.size] += other
    return total


def _vocabulary_signature(tokenizer: Tokenizer) -> str:
    """Return the size of the vocabulary, and a hash of its tokens."""
    digest = hashlib.sha256()
    for array in tokenizer.vocabulary.arrays().values():
        digest.update(np.ascontiguousarray(array).data)
    return f"{tokenizer.vocabulary_size}:{digest.hexdigest()[:8]}"
