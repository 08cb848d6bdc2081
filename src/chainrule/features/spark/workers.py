"""What workers do, task by task, in Arrow batches: learn the words of a text, count n-grams, merge counts, score texts.

A task depends on its rows alone, so that one that Spark repeats gives the same. A text's errors come back as rows, for
the driver to raise: Spark would repeat the task and bury them in its log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chainrule.base.threads import set_threads
from chainrule.errors import ChainruleError
from chainrule.features.spark.documents import PieceError, block_of, pieces
from chainrule.features.spark.sections import Section, merge_sections, sections
from chainrule.features.spark.transport import CHUNKS, Chunk, batch_of, batches_of, chunks_of, groups_of, task
from chainrule.text.tokenization.splitters import Normaliser, splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyarrow import RecordBatch

    from chainrule.models.model import Model
    from chainrule.ngram.config import NGramConfig
    from chainrule.text.tokenization.config import Normalisation
    from chainrule.text.tokenization.splitters import Splitter
    from chainrule.text.tokenization.vocabulary import Markers

WORDS = "source long, start long, place long, tokens binary, counts binary, error string"
PARTS = "part long, section binary, error string"
_WAITING_NGRAMS = 1 << 22  # of sections that are not added up yet
SCORES = "log_prob double, tokens long, bytes long, error string"


@dataclass(frozen=True)
class TokenizerParts:
    """A tokenizer that can be sent to workers. definition: a tokenizer.json. grows: whether it learns all tokens."""

    kind: str
    markers: Markers
    normalise: tuple[Normalisation, ...]
    vocabulary: bytes  # its tokens by id, a line each
    definition: bytes | None
    grows: bool
    are_lines: bool

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, grows: bool, are_lines: bool) -> TokenizerParts:
        """Return the parts of a tokenizer. are_lines: whether the documents are the lines of files."""
        tokens = b"\n".join(tokenizer.vocabulary.tokens()[len(MARKER_TOKENS) :])
        definition = getattr(tokenizer.splitter, "definition", None)  # of a subword tokenizer
        steps = tokenizer.normaliser.steps
        return cls(tokenizer.name, tokenizer.markers, steps, tokens, definition, grows, are_lines)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokens = self.vocabulary.split(b"\n") if self.vocabulary else ()
        return Tokenizer(self._splitter(), Vocabulary(tokens), self.markers, Normaliser(self.normalise))

    def _splitter(self) -> Splitter:
        if self.definition is None:
            return splitter_named(self.kind)
        from chainrule.text.tokenization.subword import Subword

        return Subword(self.definition, self.kind)


def learn_words(batches: Iterable[RecordBatch], parts: TokenizerParts) -> Iterator[RecordBatch]:
    """Yield rows of WORDS: for every piece of a file, its new tokens in the order of first occurrence, and their
    counts.

    Of a tokenizer that does not grow: the counts of its tokens, in the whole file.
    """
    place = (0, 0)
    set_threads(1)
    try:
        own, counts, number = Vocabulary(), np.zeros(0, np.int64), 0
        for source, start, block in pieces(batches, are_lines=parts.are_lines):
            if not parts.grows:
                ids = parts.tokenizer.encode_block(block).ids
                counts = np.bincount(ids, minlength=parts.tokenizer.vocabulary_size) + (counts if counts.size else 0)
                continue
            if (source, start) != place and counts.size:
                yield _words(*place, number, own, counts)
                own, counts = Vocabulary(), np.zeros(0, np.int64)
                number += 1
            place = source, start
            learner = parts.tokenizer.with_vocabulary(own)
            ids = learner.encode_block(block, grow=True).ids
            counts = np.bincount(ids, minlength=len(own)) + np.pad(counts, (0, len(own) - counts.size))
        if counts.size:
            yield _words(*place, number, own, counts)
    except ChainruleError as error:
        place = error.place if isinstance(error, PieceError) else place
        yield batch_of(WORDS, (*place, 0, b"", b"", str(error)))


def _words(source: int, start: int, number: int, own: Vocabulary, counts: np.ndarray) -> RecordBatch:
    tokens = b"\n".join(own.tokens()[len(MARKER_TOKENS) :])
    return batch_of(WORDS, (source, start, number, tokens, counts.astype(np.int64).tobytes(), None))


@task(partial(batches_of, PARTS))
def count_sections(
    batches: Iterable[RecordBatch], parts: TokenizerParts, config: NGramConfig, bounds: list[int], run_tokens: int
) -> Iterator[tuple[int, bytes, str | None]]:
    """Yield rows of PARTS: the counts of runs of about `run_tokens` tokens, cut by the first word of n-grams at
    `bounds`.
    """
    from chainrule.ngram.training import count_stream

    def cut(run: list[np.ndarray]) -> Iterator[tuple[int, bytes, str | None]]:
        stream = np.concatenate(run)
        run.clear()
        counts = count_stream(stream, parts.tokenizer.vocabulary_size, config)
        for part, section in enumerate(sections(counts, bounds)):
            if not section.is_empty:
                yield part, section.pack(), None

    try:
        run: list[np.ndarray] = []
        for piece in pieces(batches, are_lines=parts.are_lines):
            run.append(parts.tokenizer.encode_block(piece.block).ids)
            if sum(ids.size for ids in run) >= run_tokens:
                yield from cut(run)
        if run:
            yield from cut(run)
    except ChainruleError as error:
        yield 0, b"", str(error)


def merged_parts(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, Section | str]]:
    """Yield each part, and the sum of its sections or the error of a text. batches: of PARTS, in the order of parts."""
    for part, rows in groups_of(batches):
        yield part, _sum_of(rows)


def _sum_of(rows: Iterable[tuple[int, bytes, str | None]]) -> Section | str:
    """Add up sections as they come, so that those of a large text are never all in memory."""
    waiting: list[Section] = []
    ngrams, limit = 0, _WAITING_NGRAMS
    for _, data, error in rows:
        if error is not None:
            return error
        waiting.append(Section.unpack(data))
        ngrams += waiting[-1].ngrams
        if ngrams > limit:
            waiting = [merge_sections(waiting)]
            ngrams, limit = 0, max(limit, waiting[0].ngrams)
    return merge_sections(waiting)


@task(partial(batches_of, CHUNKS))
def send_sections(batches: Iterable[RecordBatch]) -> Iterator[Chunk]:
    """Yield rows of CHUNKS: what `merged_parts` gives, for the driver."""
    for part, section in merged_parts(batches):
        name, data = ("error", section.encode()) if isinstance(section, str) else ("section", section.pack())
        yield from chunks_of(part, name, "", np.frombuffer(data, np.uint8))


def score_rows(
    batches: Iterable[RecordBatch], folder: str, other: str | None, column: int, names: list[str]
) -> Iterator[RecordBatch]:
    """Yield the rows of a data frame with their scores, as `chainrule.filter` scores documents. column: of the text."""
    from chainrule.features.corpus.filter import document_scores

    set_threads(1)
    model, against = _model(folder), None if other is None else _model(other)
    for batch in batches:
        if batch.num_rows:
            block = block_of(batch.column(column).cast(pa.binary()).to_pylist(), are_lines=False)
            rounded = document_scores(block, model, against).astype(np.float32)  # as `chainrule.filter` keeps them
            scores = pa.array(rounded.astype(np.float64))
            yield pa.RecordBatch.from_arrays([*batch.columns, scores], names)


def likelihoods(batches: Iterable[RecordBatch], folder: str, *, are_lines: bool) -> Iterator[RecordBatch]:
    """Yield rows of SCORES: the log-probability, tokens and bytes of each document."""
    from chainrule.evaluation.token_scores import score_documents
    from chainrule.protocol import END

    set_threads(1)
    try:
        model = _model(folder)
        for piece in pieces(batches, are_lines=are_lines):
            encoded = model.tokenizer.encode_block(piece.block)
            log_probs, tokens = score_documents(model.language_model, model.speller, encoded)
            aligned = model.tokenizer.align(encoded)
            sizes = np.diff(aligned.stops[np.flatnonzero(encoded.ids == END)], prepend=0)
            columns = [pa.array(log_probs), pa.array(tokens.astype(np.int64)), pa.array(sizes.astype(np.int64))]
            yield pa.RecordBatch.from_arrays(
                [*columns, pa.nulls(len(log_probs), pa.string())], names=["log_prob", "tokens", "bytes", "error"]
            )
    except ChainruleError as error:
        yield batch_of(SCORES, (0.0, 0, 0, str(error)))


@cache
def _model(folder: str) -> Model:
    """Return a model that a worker's process opens once; its arrays are mapped, and shared by the workers of a
    machine.
    """
    from chainrule.models.files.opening import load
    from chainrule.models.model import Model

    return load(folder, Model)
