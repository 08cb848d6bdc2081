"""Log-probabilities of texts, and of their tokens, words, characters or bytes, as lines and as JSON."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.json import finite
from chainrule.base.progress import BlockProgress
from chainrule.base.results import Shown
from chainrule.base.threads import map_in_order
from chainrule.evaluation.score_lines import sentence_lines, sentences_as_json
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.record_blocks import after_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Bool, Float64, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.base.results import Result
    from chainrule.evaluation.surprisal import By, Contexts, Convention
    from chainrule.models.model import Model
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Source
    from chainrule.verbs.text_options import SurprisalOptions

SINGULAR: dict[By, str] = {"tokens": "token", "words": "word", "characters": "character", "bytes": "byte"}
_PART_BYTES = 1 << 18  # that one thread scores at a time


def score_units(
    model: Model, source: Source, by: By, options: SurprisalOptions, progress: Progress, *, fields: bool = False
) -> Iterator[ScoredDocument]:
    """The units of each text, in order. options: how words end. fields: whether JSON has those of records.

    Raises TextError, MarkerError.
    """
    for block, report in _blocks(source, progress, fields=fields):
        done = 0
        for piece in block.pieces(_PART_BYTES):
            found = documents(model, piece, by)
            if by == "words" and not model.is_bidirectional:
                found = word_documents(model, piece, word_ends=options.word_ends, convention=options.convention)
            for document, own in zip(found, piece.fields or itertools.repeat({}), strict=False):
                yield ScoredDocument(document, by, own, _text_field(source))
            done += piece.text.size
            report(done)


def score_texts(
    model: ScoringModel, source: Source, progress: Progress, *, running: bool = False, as_json: bool = False
) -> Iterator[Result]:
    """Lines of texts, many at a time; or with as_json each text for itself, with the fields of its record.

    running: whether the texts are one running text. Raises TextError, MarkerError.
    """
    for block, report in _blocks(source, progress, fields=as_json):
        if as_json:
            sentences = sentences_as_json(model.sentence_scores(block, running=running), block)
            for sentence, own in zip(sentences, block.fields or itertools.repeat({}), strict=False):
                yield Shown("", after_fields(sentence, own, _text_field(source)))
            continue
        done = 0
        for lines, size in map_in_order(
            lambda part: (sentence_lines(model.sentence_scores(part, running=running), part), part.text.size),
            [block] if running else block.pieces(_PART_BYTES),
        ):
            if lines.size:
                yield Shown(lines[:-1].tobytes().decode(), None)
            done += size
            report(done)


def _blocks(source: Source, progress: Progress, *, fields: bool) -> Iterator[tuple[Block, Any]]:
    """The blocks of a text, each with what reports how many of its bytes are done."""
    inside = BlockProgress(progress, "scoring")
    if isinstance(source, Corpus):
        blocks = (source.with_fields() if fields else source).blocks_as_they_come(inside, "scoring")
    else:
        blocks = source.blocks(inside, "scoring")
    return ((block, inside.report) for block in blocks)


def _text_field(source: Source) -> str:
    """The field of records that has the text."""
    return source.reading.text_field if isinstance(source, Corpus) else ""


@dataclass(frozen=True)
class Unit:
    """A token, word, character or byte with its position in the normalised document."""

    text: str
    log_prob: float  # nats, <unk> for unknown tokens
    spelled_log_prob: float  # nats, the same with the spelling of unknown tokens
    text_log_prob: float  # nats, as a piece of the text, spelling and room for unseen words included
    known: bool
    start: int  # in code points
    stop: int
    start_byte: int
    stop_byte: int

    def line(self) -> str:
        columns = f"{self.log_prob:.6f}\t{self.text_log_prob:.6f}\t{self.start}\t{self.stop}\t{_one_line(self.text)}"
        return columns if self.known else f"{columns}\t<unk>"

    def as_json(self, by: By) -> dict[str, Any]:
        return {
            SINGULAR[by]: self.text,
            "log_prob": finite(self.log_prob),
            "text_log_prob": finite(self.text_log_prob),
            "known": self.known,
            "start": self.start,
            "stop": self.stop,
            "start_byte": self.start_byte,
            "stop_byte": self.stop_byte,
        }


@dataclass(frozen=True)
class Document:
    text: str
    normalised: str
    units: list[Unit]
    tokens: int
    oov: int
    word_ends: bool | None = None  # of words: whether each has its own end, in place of that of the word before it

    def with_ends(self, corrections: Float64[ndarray, " words"], of_text: Float64[ndarray, " words"]) -> Document:
        """The document with corrections added to its words, see `WordFigures`."""
        units = [
            replace(
                unit,
                log_prob=unit.log_prob + own,
                spelled_log_prob=unit.spelled_log_prob + own,
                text_log_prob=unit.text_log_prob + own_of_text,
            )
            for unit, own, own_of_text in zip(self.units, corrections.tolist(), of_text.tolist(), strict=True)
        ]
        return replace(self, units=units, word_ends=True)

    def __str__(self) -> str:
        return "".join(unit.line() + "\n" for unit in self.units)

    def as_json(self, by: By) -> dict[str, Any]:
        return {
            "text": self.text,
            "log_prob": finite(math.fsum(unit.log_prob for unit in self.units)),
            "text_log_prob": finite(math.fsum(unit.text_log_prob for unit in self.units)),
            "tokens": self.tokens,
            "oov": self.oov,
            "normalised": self.normalised,
            **({} if self.word_ends is None else {"word_ends": self.word_ends}),
            f"{SINGULAR[by]}_scores": [unit.as_json(by) for unit in self.units],
        }


def word_documents(model: Model, block: Block, *, word_ends: bool, convention: Convention) -> Iterator[Document]:
    """Scores every word of a block; with word_ends, each with its own end."""
    from chainrule.evaluation.surprisal import read_block, word_figures

    contexts = read_block(model.language_model, model.tokenizer, block, word_ends=word_ends, convention=convention)
    parts = model.language_model, model.tokenizer, model.speller.unseen_types
    figures = word_figures(*parts, block, contexts, word_ends=word_ends)
    for document, own in zip(documents(model, block, "words", contexts), figures, strict=True):
        if own.corrections is None or own.text_corrections is None:
            yield replace(document, word_ends=False)
        else:
            yield document.with_ends(own.corrections, own.text_corrections)


def documents(model: Model, block: Block, by: By, contexts: Sequence[Contexts] | None = None) -> Iterator[Document]:
    """Scores every document of a block by unit, see `shown_units`."""
    found = shown_units(model, block, by, contexts)
    columns = (found.closed, found.spelled, found.total, ~found.unknown, *found.characters, *found.bytes)
    units = [Unit(*row) for row in zip(found.shown, *(column.tolist() for column in columns), strict=True)]
    for i, original in enumerate(block.documents()):
        inside = slice(*found.documents[i : i + 2].tolist())
        yield Document(original, found.normalised[i], units[inside], *found.sizes[i].tolist())


class ShownUnits(NamedTuple):
    """The units of some documents: document i has units documents[i] to documents[i + 1], its end last.

    characters, bytes: where each unit starts and stops in its normalised document. sizes: the tokens, and the unknown
    ones, of each document. The log-probabilities are those of `Unit`.
    """

    shown: list[str]
    closed: Float64[ndarray, " units"]
    spelled: Float64[ndarray, " units"]
    total: Float64[ndarray, " units"]
    unknown: Bool[ndarray, " units"]
    characters: tuple[Int64[ndarray, " units"], Int64[ndarray, " units"]]
    bytes: tuple[Int64[ndarray, " units"], Int64[ndarray, " units"]]
    documents: Int64[ndarray, " documents+1"]
    normalised: list[str]
    sizes: Int64[ndarray, "documents 2"]


def shown_units(
    model: Model, block: Block, by: By, contexts: Sequence[Contexts] | None = None, *, only_spelled: bool = False
) -> ShownUnits:
    """Scores every unit of the documents of a block; tokens are shown as the tokenizer writes them.

    Each text is read by itself, so that its figures are the same to the last bit whatever stands beside it. contexts:
    what the model expected, if that was read; scores of networks are always taken from it, so that they do not depend
    on what else is asked for. only_spelled: whether `total` may be anything, which is less work.
    """
    import numpy as np

    from chainrule.evaluation.surprisal import score_alone, units
    from chainrule.protocol import END

    encoded = model.tokenizer.encode_block(block)
    parts = model.language_model, model.speller, model.tokenizer
    scored = score_alone(*parts, block, encoded, contexts, only_spelled=only_spelled)
    aligned = model.tokenizer.align(encoded)
    found = units(encoded.ids, scored, aligned, by)
    text = aligned.text.tobytes()
    before = np.concatenate([[0], np.cumsum((aligned.text & 0xC0) != 0x80)])  # characters before each byte
    ends = found.documents[1:] - 1
    begins = np.concatenate([[0], found.starts[ends] + 1])  # of documents, in bytes
    stops = found.stops.copy()
    stops[ends] = found.starts[ends]
    of_units = np.repeat(begins[:-1], np.diff(found.documents))
    if by == "tokens":
        shown = [encoded.surface(i).decode("utf-8", "replace") for i in range(encoded.ids.size)]
    else:
        errors = "backslashreplace" if by == "bytes" else "replace"
        places = zip(found.starts.tolist(), stops.tolist(), strict=True)
        shown = [text[start:stop].decode("utf-8", errors) for start, stop in places]
    for end in ends.tolist():
        shown[end] = "</s>"
    edges = itertools.pairwise(begins.tolist())
    token_ends = np.flatnonzero(encoded.ids == END) + 1
    unknown_before = np.concatenate([[0], np.cumsum(scored.unknown)])[np.concatenate([[0], token_ends])]
    return ShownUnits(
        shown,
        found.closed,
        found.spelled,
        found.total,
        found.unknown,
        (before[found.starts] - before[of_units], before[stops] - before[of_units]),
        (found.starts - of_units, stops - of_units),
        found.documents,
        [text[start : stop - 1].decode("utf-8", "replace") for start, stop in edges],
        np.stack([np.diff(token_ends, prepend=0), np.diff(unknown_before)], axis=1),
    )


def _one_line(text: str) -> str:
    """White space, which would break a line of columns, as Python escapes it."""
    return text if text.isprintable() else text.encode("unicode_escape").decode() if text.isspace() else text


@dataclass(frozen=True)
class ScoredDocument:
    """A document as a result: a line for each unit. fields: of its record. text_field: that of the text."""

    document: Document
    by: By
    fields: Mapping[str, Any] = field(default_factory=dict)
    text_field: str = ""

    def __str__(self) -> str:
        return str(self.document)

    def as_json(self) -> dict[str, Any]:
        """The units of the document, after the fields of its record."""
        return after_fields(self.document.as_json(self.by), self.fields, self.text_field)

    def to_records(self) -> list[dict[str, Any]]:
        """None: `surprisal` makes tables of units."""
        return []
