"""Log-probabilities of texts, and of their tokens, words, characters or bytes, as lines and as JSON."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.progress import BlockProgress
from chainrule.base.results import Shown, finite
from chainrule.base.tables import count_of
from chainrule.base.threads import map_in_order
from chainrule.evaluation.score_lines import sentence_lines, sentences_as_json
from chainrule.text.corpus.block import LINE_FEED, Texts
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.record_blocks import after_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
PER_NAT = {"bits": 1 / math.log(2), "nats": 1.0, "log10": 1 / math.log(10)}
SHOWN = 10  # words, or numbers of texts, that a note says
_PART_BYTES = 1 << 18  # that one thread scores at a time


class CountedWords:
    """How many words there were, and those of them that a model does not know; or that lack something else."""

    def __init__(self) -> None:
        self.words, self.unknown = 0, Counter[str]()

    def add(self, words: Sequence[str], known: Sequence[Any]) -> None:
        """Count words. known: whether each is known."""
        self.words += len(words)
        self.unknown.update(word for word, is_known in zip(words, known, strict=True) if not is_known)

    def notes(self, lack: str, unit: str = "word") -> Iterator[str]:
        """Say how many are not known, and which most often. lack: what they lack, after "are" or "have"."""
        if self.unknown:
            total, most = self.unknown.total(), self.unknown.most_common(SHOWN)
            some = ", ".join(f"{word} ({count:,})" if count > 1 else word for word, count in most)
            more = ", ..." if len(self.unknown) > SHOWN else ""
            yield f"{total:,} of {count_of(self.words, unit)} ({total / self.words:.1%}) {lack}: {some}{more}"


def score_units(
    model: Model,
    source: Source,
    by: By,
    options: SurprisalOptions,
    progress: Progress,
    counted: CountedWords,
    *,
    header: bool = False,
    fields: bool = False,
) -> Iterator[Result]:
    """Yield the units of each text, in order. options: how words end, and the logarithm. counted: counts words, tokens.

    header: whether the first line names the columns. fields: whether JSON has those of records. Raises TextError,
    MarkerError.
    """
    if header:
        lengths = ("ngram_length",) * (_matched(model) is not None and by in ("words", "tokens"))
        yield _header(options, "text_{}", "start", "stop", *lengths, SINGULAR[by], "unknown")
    for block, report in _blocks(source, progress, fields=fields):
        done = 0
        for piece in block.pieces(_PART_BYTES):
            found = documents(model, piece, by)
            if by == "words" and not model.is_bidirectional:
                found = word_documents(model, piece, word_ends=options.word_ends, convention=options.convention)
            for document, own in zip(found, piece.fields or itertools.repeat({}), strict=False):
                if by in ("words", "tokens"):
                    inside = document.units[:-1]  # without the end
                    counted.add([unit.text for unit in inside], [unit.known for unit in inside])
                yield ScoredDocument(document, by, own, _text_field(source), PER_NAT["log10"] if options.log10 else 1.0)
            done += piece.text.size
            report(done)


def score_texts(
    model: ScoringModel,
    source: Source,
    options: SurprisalOptions,
    progress: Progress,
    *,
    running: bool = False,
    header: bool = False,
    as_json: bool = False,
) -> Iterator[Result]:
    """Yield lines of several texts, many at a time; or with as_json each text for itself, with the fields of its
    record.

    options: the logarithm. running: whether the texts are one running text. header: whether the first line names the
    columns. Raises TextError, MarkerError.
    """
    if header:
        yield _header(options, "tokens", "unknown_tokens", "text")
    per_nat = PER_NAT["log10"] if options.log10 else 1.0
    for block, report in _blocks(source, progress, fields=as_json):
        if as_json:
            sentences = sentences_as_json(model.sentence_scores(block, running=running), block)
            for sentence, own in zip(sentences, block.fields or itertools.repeat({}), strict=False):
                yield Shown("", after_fields(sentence, own, _text_field(source)))
            continue
        done = 0
        for lines, size in map_in_order(
            lambda part: (sentence_lines(model.sentence_scores(part, running=running), part, per_nat), part.text.size),
            [block] if running else block.pieces(_PART_BYTES),
        ):
            if lines.size:
                yield Shown(lines[:-1].tobytes().decode(), None)
            done += size
            report(done)


def _header(options: SurprisalOptions, *columns: str) -> Shown:
    """Return the names of the columns of lines, of which the first is the log-probability."""
    log_prob = "log10_prob" if options.log10 else "log_prob"
    return Shown("\t".join(name.format(log_prob) for name in ("{}", *columns)), None)


def _matched(model: Model) -> Callable[..., tuple[Any, list[ndarray]]] | None:
    """Return what gives the lengths of the n-grams that a model finds; None where it finds none."""
    return getattr(model.engine, "score_with_lengths", None)


def _blocks(source: Source, progress: Progress, *, fields: bool) -> Iterator[tuple[Block, Any]]:
    """Return the blocks of a text, each with what reports how many of its bytes are done."""
    inside = BlockProgress(progress, "scoring")
    if isinstance(source, Corpus):
        blocks = (source.with_fields() if fields else source).blocks_as_they_come(inside, "scoring")
    else:
        blocks = source.blocks(inside, "scoring")
    return ((block, inside.report) for block in blocks)


def _text_field(source: Source) -> str:
    """Return the field of records that has the text."""
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
    ngram_length: int | None = None  # of the longest known n-gram that ends at its first token; of n-gram models

    def line(self, per_nat: float) -> str:
        columns = [f"{per_nat * nats:.6f}" for nats in (self.log_prob, self.text_log_prob)]
        lengths = [self.ngram_length] * (self.ngram_length is not None)
        columns += map(str, (self.start, self.stop, *lengths, _one_line(self.text)))
        return "\t".join(columns if self.known else [*columns, "<unk>"])

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
            **({} if self.ngram_length is None else {"ngram_length": self.ngram_length}),
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
        """Return the document with corrections added to its words, see `WordFigures`."""
        units = [
            replace(
                unit,
                log_prob=unit.log_prob + own,
                spelled_log_prob=unit.spelled_log_prob + own,
                text_log_prob=unit.text_log_prob + own_of_text,
            )
            for unit, own, own_of_text in zip(self.units, corrections.tolist(), of_text.tolist(), strict=True)
        ]
        return replace(self, units=units)

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
    """Score every word of a block; with word_ends, each with its own end."""
    from chainrule.evaluation.surprisal import read_block, word_figures

    contexts = read_block(model.language_model, model.tokenizer, block, word_ends=word_ends, convention=convention)
    parts = model.language_model, model.tokenizer, model.speller.unseen_types
    figures = word_figures(*parts, block, contexts, word_ends=word_ends)
    for document, own in zip(documents(model, block, "words", contexts), figures, strict=True):
        ends, of_text = (own.corrections, own.text_corrections) if word_ends else (own.shifts, own.shifts)
        yield replace(
            document if ends is None or of_text is None else document.with_ends(ends, of_text), word_ends=word_ends
        )


def documents(model: Model, block: Block, by: By, contexts: Sequence[Contexts] | None = None) -> Iterator[Document]:
    """Score every document of a block by unit, see `shown_units`."""
    found = shown_units(model, block, by, contexts)
    columns = [found.closed, found.spelled, found.total, ~found.unknown, *found.characters, *found.bytes]
    columns += [] if found.ngram_lengths is None else [found.ngram_lengths]
    units = [Unit(*row) for row in zip(found.shown.tolist(), *(own.tolist() for own in columns), strict=True)]
    normalised = found.normalised.tolist()
    for i, original in enumerate(block.documents()):
        inside = slice(*found.documents[i : i + 2].tolist())
        yield Document(original, normalised[i], units[inside], *found.sizes[i].tolist())


class ShownUnits(NamedTuple):
    """The units of some documents: document i has units documents[i] to documents[i + 1], its end last.

    characters, bytes: where each unit starts and stops in its normalised document. sizes: the tokens, and the unknown
    ones, of each document. The log-probabilities, and the lengths of n-grams, if there are any, are those of `Unit`.
    """

    shown: Texts
    closed: Float64[ndarray, " units"]
    spelled: Float64[ndarray, " units"]
    total: Float64[ndarray, " units"]
    unknown: Bool[ndarray, " units"]
    characters: tuple[Int64[ndarray, " units"], Int64[ndarray, " units"]]
    bytes: tuple[Int64[ndarray, " units"], Int64[ndarray, " units"]]
    documents: Int64[ndarray, " documents+1"]
    normalised: Texts
    sizes: Int64[ndarray, "documents 2"]
    ngram_lengths: Int64[ndarray, " units"] | None


def shown_units(
    model: Model, block: Block, by: By, contexts: Sequence[Contexts] | None = None, *, only_spelled: bool = False
) -> ShownUnits:
    """Score every unit of the documents of a block; tokens are shown as the tokenizer writes them.

    Each text is read by itself, so that its figures are the same to the last bit whatever stands beside it. contexts:
    what the model expected, if that was read; scores of networks are always taken from it, so that they do not depend
    on what else is asked for. only_spelled: whether `total` may be anything, which is less work.
    """
    import numpy as np

    from chainrule.evaluation.surprisal import score_alone, units
    from chainrule.evaluation.token_scores import score_stream_tokens
    from chainrule.protocol import END
    from chainrule.text.tokenization.tokenizer import documents_of
    from chainrule.text.units import characters_before

    encoded = model.tokenizer.encode_block(block)
    parts = model.language_model, model.speller, model.tokenizer
    in_one_pass = getattr(model.engine, "score_stream_with_lengths", None) if only_spelled else None
    of_tokens = None
    if in_one_pass is not None:
        scores, of_tokens = in_one_pass(encoded.ids)
        scored = score_stream_tokens(encoded, model.speller, scores)
    else:
        scored = score_alone(*parts, block, encoded, contexts, only_spelled=only_spelled)
    aligned = model.tokenizer.align(encoded)
    found = units(encoded.ids, scored, aligned, by)
    if of_tokens is None and (matched := _matched(model)) is not None and found.firsts is not None:
        of_tokens = np.concatenate(matched(documents_of(encoded.ids))[1])
    ends = found.documents[1:] - 1
    begins = np.concatenate([[0], found.starts[ends] + 1])  # of documents, in bytes
    stops = found.stops.copy()
    stops[ends] = found.starts[ends]
    sizes = np.diff(found.documents)
    before = characters_before(aligned.text)
    of_units, characters_of_units = np.repeat(begins[:-1], sizes), np.repeat(before[begins[:-1]], sizes)
    token_ends = np.flatnonzero(encoded.ids == END) + 1
    unknown_before = np.concatenate([[0], np.cumsum(scored.unknown)])[np.concatenate([[0], token_ends])]
    shown = Texts(aligned.text, found.starts, stops, "backslashreplace" if by == "bytes" else "replace")
    if by == "tokens":
        following = encoded.starts[1:]  # after a space, or the line end itself
        token_stops = np.append(following - (encoded.text[following] != LINE_FEED), encoded.text.size)
        shown = Texts(encoded.text, encoded.starts, token_stops)
    return ShownUnits(
        shown.with_all(ends, "</s>"),
        found.closed,
        found.spelled,
        found.total,
        found.unknown,
        (before[found.starts] - characters_of_units, before[stops] - characters_of_units),
        (found.starts - of_units, stops - of_units),
        found.documents,
        Texts(aligned.text, begins[:-1], begins[1:] - 1),
        np.stack([np.diff(token_ends, prepend=0), np.diff(unknown_before)], axis=1),
        None if of_tokens is None or found.firsts is None else of_tokens[found.firsts],
    )


def _one_line(text: str) -> str:
    """Return white space, which would break a line of columns, as Python escapes it."""
    return text if text.isprintable() else text.encode("unicode_escape").decode() if text.isspace() else text


@dataclass(frozen=True)
class ScoredDocument:
    """A document as a result: a line for each unit. fields: of its record. text_field: that of the text. per_nat: what
    a nat is in lines.
    """

    document: Document
    by: By
    fields: Mapping[str, Any] = field(default_factory=dict)
    text_field: str = ""
    per_nat: float = 1.0

    def __str__(self) -> str:
        return "".join(unit.line(self.per_nat) + "\n" for unit in self.document.units)

    def as_json(self) -> dict[str, Any]:
        """Return the units of the document, after the fields of its record."""
        return after_fields(self.document.as_json(self.by), self.fields, self.text_field)

    def to_records(self) -> list[dict[str, Any]]:
        """Return no records: `surprisal` makes tables of units."""
        return []
