"""Filters a corpus by a model: scores its documents, and keeps those with the lowest scores.

A document's score is its cross-entropy in bits per token, with </s> and the spelling of unknown tokens; or, with two
models, the difference of their cross-entropies, per token of the first (Moore and Lewis, Intelligent selection of
language model training data, 2010). It is low for documents like the first model's training text and unlike the
second's. Scores are kept in a file, since there may be more of them than fit into memory; the threshold is exact.
"""

from __future__ import annotations

import math
import os
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.results import finite
from chainrule.base.tables import bars
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.token_scores import score_documents
from chainrule.models.any_model import check_model
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.text.corpus.corpus import source_of
from chainrule.text.corpus.splits import as_records
from chainrule.text.corpus.writing import DocumentFile, document_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float32, Float64, UInt32
    from numpy import ndarray

    from chainrule.models.model import Model
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths, Source


def document_scores(block: Block, model: Model, other: Model | None = None) -> Float64[ndarray, " documents"]:
    """Return the score of each document of a block, in bits per token."""
    log_probs, tokens = score_documents(model.language_model, model.speller, model.tokenizer.encode_block(block))
    if other is not None:
        theirs, _ = score_documents(other.language_model, other.speller, other.tokenizer.encode_block(block))
        log_probs = log_probs - theirs
    return -log_probs / tokens / math.log(2)


def score_blocks(
    source: Source, scores: ScoreFile, model: Model, other: Model | None = None, progress: Progress = silent
) -> Iterator[tuple[Block, Float32[ndarray, " documents"]]]:
    """Score every block of a source, and append the scores to the file. Raises TextError."""
    for block in source.blocks(progress, "scoring"):
        yield block, scores.append(document_scores(block, model, other))


def passing(
    source: Source,
    scores: ScoreFile,
    model: Model,
    other: Model | None = None,
    *,
    keep: float | None = None,
    below: float | None = None,
    progress: Progress = silent,
) -> tuple[Iterator[Block], float]:
    """Return the documents that pass, and the highest score that passes.

    Give either keep, a share of the documents, or below, a score in bits per token. Raises SettingError; TextError
    while the source is read.
    """
    check_limits(keep, below)
    if below is not None:
        return _below(score_blocks(source, scores, model, other, progress), below), below
    for _ in score_blocks(source, scores, model, other, progress):
        pass
    threshold = scores.lowest(max(1, round((keep or 0) * scores.size)))
    return choose_documents(source, scores, threshold, progress), threshold.value


def check_limits(keep: float | None, below: float | None) -> None:
    """Raise SettingError unless exactly one limit is given, in its range."""
    if (keep is None) == (below is None):
        raise SettingError("give either keep, a share of the documents, or below, a score in bits per token")
    if keep is not None and not 0 < keep <= 1:
        raise SettingError(f"keep is {keep}; expected a share above 0 and at most 1, such as 0.3")
    if below is not None and math.isnan(below):
        raise SettingError("below is not a number; expected bits per token, such as 7.5")


def choose_documents(
    source: Source, scores: ScoreFile, threshold: Threshold, progress: Progress = silent
) -> Iterator[Block]:
    """Read a scored source again, and yield the documents that pass, in order.

    Raises TextError, also if the source no longer has as many documents as scores.
    """
    position = 0
    for block in source.blocks(progress, "filtering"):
        stops = block.stops()
        block_scores = scores.read(position, stops.size)
        position += stops.size
        if block_scores.size < stops.size:
            break
        passing = threshold.passes(block_scores)
        if passing.any():
            yield block.select(passing, stops)
    if position != scores.size:
        names = ", ".join(source.sources)
        raise TextError(
            f"{names}: has changed since it was scored; leave it unchanged until it is filtered, and give no pipe"
        )


def _below(blocks: Iterator[tuple[Block, Float32[ndarray, " documents"]]], limit: float) -> Iterator[Block]:
    for block, scores in blocks:
        passes = scores <= limit
        if passes.any():
            yield block.select(passes, block.stops())


_BATCH = 1 << 20  # scores read at a time
_HALF = 16  # bits of half a sort key


@dataclass
class Threshold:
    """Selects all scores below `value`, and the first `ties` of those that equal it."""

    value: float
    ties: int

    def passes(self, scores: Float32[ndarray, " scores"]) -> Bool[ndarray, " scores"]:
        """Return which of the next scores pass. Call it on all scores in order: ties are counted across calls."""
        passing = scores < np.float32(self.value)
        equal = np.flatnonzero(scores == np.float32(self.value))[: self.ties]
        passing[equal] = True
        self.ties -= equal.size
        return passing


class ScoreFile:
    """Scores in the order in which they were appended, in a temporary file that is deleted when this is closed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, scores: Float64[ndarray, " scores"]) -> Float32[ndarray, " scores"]:
        """Append scores, and return them as they are stored: in float32, NaN as infinity."""
        kept = np.where(np.isnan(scores), np.inf, scores).astype(np.float32)
        self._file.write(kept.tobytes())
        self.size += kept.size
        return kept

    def chunks(self) -> Iterator[Float32[ndarray, " scores"]]:
        """Yield all scores, a batch at a time."""
        self._file.seek(0)
        while data := self._file.read(4 * _BATCH):
            yield np.frombuffer(data, np.float32)
        self._file.seek(0, 2)

    def read(self, start: int, count: int) -> Float32[ndarray, " count"]:
        self._file.seek(4 * start)
        return np.frombuffer(self._file.read(4 * count), np.float32)

    def lowest(self, count: int) -> Threshold:
        """Return the threshold that exactly `count` scores pass, 1 to size."""
        rank = count - 1
        upper, before = self._bucket(rank, _HALF, None)
        key, before_key = self._bucket(rank - before, 0, upper)
        value = float(_floats(np.array([(upper << _HALF) + key], np.uint32))[0])
        return Threshold(value, count - before - before_key)

    def _bucket(self, rank: int, shift: int, upper: int | None) -> tuple[int, int]:
        """Return the half of a key, at bit `shift`, of the score at this rank; and how many scores have a lower one.

        upper: count only scores whose upper half key is this one.
        """
        counts = np.zeros(1 << _HALF, np.int64)
        for chunk in self.chunks():
            keys = _keys(chunk)
            if upper is not None:
                keys = keys[keys >> _HALF == upper]
            counts += np.bincount((keys >> shift) & 0xFFFF, minlength=counts.size)
        cumulative = np.cumsum(counts)
        bucket = int(np.searchsorted(cumulative, rank, side="right"))
        return bucket, int(cumulative[bucket] - counts[bucket])

    def histogram(self, bins: int) -> tuple[list[int], list[float]]:
        """Return the counts of scores in bins, and the edges of the bins, one more than there are bins.

        The lowest and highest percent are cut off, so that a few extreme scores do not squeeze the rest into one bin.
        """
        low = self.lowest(max(1, self.size // 100)).value
        high = self.lowest(max(1, self.size - self.size // 100)).value
        if not np.isfinite([low, high]).all() or low == high:
            return [self.size], [low, high]
        edges = np.linspace(low, high, bins + 1)
        counts = np.zeros(bins, np.int64)
        for chunk in self.chunks():
            counts += np.histogram(chunk, edges)[0]
        return counts.tolist(), edges.tolist()


def _keys(scores: Float32[ndarray, " scores"]) -> UInt32[ndarray, " scores"]:
    """Return unsigned integers in the same order as the scores."""
    bits = (scores + np.float32(0)).view(np.uint32)  # -0 is 0
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))


def _floats(keys: UInt32[ndarray, " scores"]) -> Float32[ndarray, " scores"]:
    """Return the inverse of `_keys`."""
    return np.where(keys >> 31 == 1, keys & np.uint32(0x7FFFFFFF), ~keys).view(np.float32)


BINS = 20


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """The documents that passed. threshold: the highest score that passes, in bits per token.

    texts: the documents, unless they were written to a file. counts, edges: a histogram of all scores, without the
    outermost hundredths; it has one edge more than counts.
    """

    documents: int
    kept: int
    threshold: float
    counts: list[int]
    edges: list[float]
    texts: list[str] | None = None
    score: Literal["cross-entropy", "difference"] = "cross-entropy"

    def __str__(self) -> str:
        """Return a histogram, darker for what is kept, and how much that is."""
        labels = [f"{edge:.3f}" for edge in self.edges[1:]]
        histogram = bars(labels, self.counts, [edge <= self.threshold for edge in self.edges[1:]])
        share = f"{self.kept:,} of {self.documents:,} documents, {self.kept / self.documents:.2%}"
        return f"{self.score} in bits per token, up to\n{histogram}\nkept {share}: {self.threshold:.4f} or less"

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each bar of the histogram."""
        return [{"up_to": edge, "documents": count} for edge, count in zip(self.edges[1:], self.counts, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, without the texts."""
        histogram = {"counts": self.counts, "edges": [finite(edge) for edge in self.edges]}
        figures = {"documents": self.documents, "kept": self.kept, "threshold": finite(self.threshold)}
        return {**figures, "histogram": histogram}

    def __repr__(self) -> str:
        return (
            f"<Filtered: kept {self.kept:,} of {self.documents:,} documents, up to {self.threshold:.4f} bits per token>"
        )


@shows_progress
def filter(
    source: Source | Paths,
    model: Model,
    *,
    keep: float | None = None,
    below: float | None = None,
    difference: Model | None = None,
    output: str | os.PathLike[str] | BinaryIO | None = None,
    progress: ProgressOption = None,
) -> Filtered:
    """Keep the documents that a model finds likeliest, in order.

    A document's score is its cross-entropy in bits per token, with </s> and the spelling of unknown tokens. Give either
    keep, the share of documents to keep, above 0 and up to 1, which reads the source twice; or below, the highest
    score to keep. difference: a model of general text, whose score is subtracted, per token of `model` (Moore and
    Lewis 2010). output: a file to write or replace, or an open one: lines of text, or whole records if its name ends in
    .jsonl, .csv, .tsv or .parquet; without it, the result holds the texts.
    Raises TextError, SettingError, OutputError.

    good:  chainrule.filter("corpus.txt", chainrule.load("lm/"), keep=0.3, output="likely.txt").threshold
    """
    check_model(model)
    if difference is not None:
        check_model(difference)
    texts: list[str] = []
    source = source_of(source, model.document)
    file_name = output if isinstance(output, str | os.PathLike) else "standard output"
    source, field, records = as_records(source, file_name)
    with ScoreFile() as scores:
        blocks, threshold = passing(
            source,
            scores,
            model,
            difference,
            keep=keep,
            below=below,
            progress=callback(progress),
        )
        if output is None:
            for block in blocks:
                texts += block.documents()
            kept = len(texts)
        else:
            with (
                document_file(Path(output), field, records=records)
                if isinstance(output, str | os.PathLike)
                else nullcontext(DocumentFile("standard output", output, field))
            ) as file:
                for block in blocks:
                    file.write(block)
                kept = file.documents
        counts, edges = scores.histogram(BINS)
        return Filtered(
            documents=scores.size,
            kept=kept,
            threshold=threshold,
            counts=counts,
            edges=edges,
            texts=texts if output is None else None,
            score="cross-entropy" if difference is None else "difference",
        )
