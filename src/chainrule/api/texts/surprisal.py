"""The surprisal of each token, word, character or byte of texts: as lines, as JSON for each document, or as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from chainrule.api.models.model import check_model
from chainrule.api.progress_line import showing
from chainrule.api.texts.config import SurprisalOptions
from chainrule.api.texts.frequencies import WordFrequencies
from chainrule.base.json import finite
from chainrule.base.options import takes
from chainrule.base.progress import BlockProgress
from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.corpus import Corpus, source_of
from chainrule.text.corpus.records import fields_beside

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.api.models.model import Model
    from chainrule.base.progress import Progress
    from chainrule.evaluation.surprisal import By, Contexts, Convention
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths, Source

_SINGULAR: dict[By, str] = {"tokens": "token", "words": "word", "characters": "character", "bytes": "byte"}


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
            _SINGULAR[by]: self.text,
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

    def lines(self) -> str:
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
            f"{_SINGULAR[by]}_scores": [unit.as_json(by) for unit in self.units],
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
    """Scores every document of a block by unit; tokens are shown as the tokenizer writes them.

    Each text is read by itself, so that its figures are the same to the last bit whatever stands beside it. contexts:
    what the model expected, if that was read; scores of networks are always taken from it, so that they do not depend
    on what else is asked for.
    """
    import numpy as np

    from chainrule.evaluation.surprisal import has_text_rows, read_block, units
    from chainrule.evaluation.token_scores import score_stream_tokens, score_tokens
    from chainrule.protocol import END

    encoded = model.tokenizer.encode_block(block)
    if contexts is None:
        contexts = read_block(model.language_model, model.tokenizer, block, word_ends=False)
    if contexts and has_text_rows(model.language_model):
        both = ([own.log_probs for own in contexts], [own.unknown for own in contexts])
        scored = score_stream_tokens(encoded, model.speller, *map(np.concatenate, both))
    else:
        scored = score_tokens(model.language_model, model.speller, encoded, alone=True)
    aligned = model.tokenizer.align(encoded)
    aligned_units = units(encoded.ids, scored, aligned, by)
    text = aligned.text.tobytes()
    before = np.concatenate([[0], np.cumsum((aligned.text & 0xC0) != 0x80)])  # characters before each byte
    columns = [
        column.tolist()
        for column in (
            aligned_units.starts,
            aligned_units.stops,
            before[aligned_units.starts],
            before[aligned_units.stops],
            aligned_units.closed,
            aligned_units.spelled,
            aligned_units.total,
        )
    ]
    rows = list(zip(*columns, aligned_units.unknown.tolist(), strict=True))
    token_stops = (np.flatnonzero(encoded.ids == END) + 1).tolist()
    oov_before = np.concatenate([[0], np.cumsum(scored.unknown)])
    first_unit = first_token = first_byte = 0
    for original, last_unit, token_stop in zip(
        block.documents(), aligned_units.documents[1:].tolist(), token_stops, strict=True
    ):
        end = rows[last_unit - 1][0]  # the newline
        first_character = int(before[first_byte])
        shown = []
        for index in range(first_unit, last_unit):
            start, stop, start_character, stop_character, closed, own, total, unknown = rows[index]
            is_end = index == last_unit - 1
            if is_end:
                spelled, stop, stop_character = "</s>", start, start_character
            elif by == "tokens":
                spelled = encoded.surface(index).decode("utf-8", "replace")
            else:
                spelled = text[start:stop].decode("utf-8", "backslashreplace" if by == "bytes" else "replace")
            offsets = (
                start_character - first_character,
                stop_character - first_character,
                start - first_byte,
                stop - first_byte,
            )
            shown.append(Unit(spelled, closed, own, total, not unknown, *offsets))
        oov = int(oov_before[token_stop] - oov_before[first_token])
        yield Document(original, text[first_byte:end].decode("utf-8", "replace"), shown, token_stop - first_token, oov)
        first_unit, first_token, first_byte = last_unit, token_stop, end + 1


def _one_line(text: str) -> str:
    """White space, which would break a line of columns, as Python escapes it."""
    return text if text.isprintable() else text.encode("unicode_escape").decode() if text.isspace() else text


_PART_BYTES = 1 << 18  # scored at a time


@takes(SurprisalOptions)
def surprisal(source: Source | Paths, model: Model | Mapping[str, Model], options: SurprisalOptions) -> Surprisals:
    """The surprisal of each word of texts, or of each token, character, byte or text: a table for pandas and R.

    The rows are read and scored while one goes through them. Of records, the fields beside the text are columns, too,
    so that ids and conditions stay with each word. model: also several by name, for words and texts: each has columns
    that end in its name. Raises TypeError, TextError, SettingError, MarkerError.

    source: files, or a `Corpus`, whose Reading says which field or column has the text.

    good:  pandas.DataFrame(chainrule.surprisal("items.csv", chainrule.load("lm/")))
    good:  chainrule.surprisal(chainrule.Corpus.of("items.csv", chainrule.Reading(field="sentence")), model)
    good:  chainrule.surprisal("items.jsonl", model, by="tokens", nats=True).save("tokens.parquet")
    good:  chainrule.surprisal("items.csv", {"lm": lm, "gpt2": gpt2}, entropy=True, frequencies="counts.txt")
    """
    models = dict(model) if isinstance(model, Mapping) else {"": model}
    for one in models.values():
        check_model(one)
    if not models:
        raise SettingError("there is no model; give at least one")
    if len(models) > 1 and options.by not in ("words", "texts"):
        raise SettingError(f"several models share rows of words or texts, not of {options.by}")
    if options.entropy and options.by not in ("words", "tokens"):
        raise SettingError(f"the entropy of the next token is for words and tokens, not for {options.by}")
    if (options.frequencies is not None or options.previous) and options.by != "words":
        raise SettingError(f"frequencies and previous words are for words, not for {options.by}")
    if options.convention != "chainrule" and options.by != "words":
        raise SettingError(
            f"the convention {options.convention} says how words end; it is for words, not for {options.by}"
        )
    if not options.word_ends and options.by != "words":
        raise SettingError(f"word ends are those of words, not of {options.by}; leave no-word-ends out")
    if options.word_entropy and options.by != "words":
        raise SettingError(f"the entropy of the next word is for words, not for {options.by}")
    if options.entropy or options.word_entropy:
        for name, one in models.items():
            if not getattr(one, "is_distribution", True):
                raise SettingError(f"the scores of {name or 'the model'} are no probabilities, so there is no entropy")
    first = next(iter(models.values()))
    return Surprisals(source_of(source, first.document), models if len(models) > 1 else {"": first}, options)


class Surprisals:
    """A table of surprisals; iterating over it scores the texts, and gives a dictionary for each row.

        sentence          the number of the text, from 1
        position          of the word in its text, from 1
        word              or token, character, byte, text
        length            of a word, in characters, with its punctuation
        log_frequency     if asked for: ln of the word's relative frequency; None if it has none
        surprisal_bits    -log2 P under the model itself, unknown tokens as <unk> with their spelling; of a word, with
                          its end; by another convention than chainrule's, surprisal_minicons_bits
        uncorrected_bits  of a word: the sum of its tokens' surprisals, which pays for the end of the word before it
        entropy_bits      if asked for: of the next token, before the word's first one. Where tokens are words, this is
                          the entropy of the next word; else see word_entropy_bits
        word_entropy_bits if asked for: of the next word, from drawn words; where tokens are words, exact
        word_entropy_error_bits    its standard error
        rank              if asked for: of the word's first token, how many tokens were likelier, plus one
        known             whether it has no unknown token
        start, stop       its place in the normalised text, in characters

    They come after the fields of the record, of which one with a name of these is called record_sentence, say. In nats,
    the columns are surprisal_nats, uncorrected_nats and entropy_nats. Columns of one of several models end in its name
    (surprisal_bits_lm), and those of previous words in _prev1, _prev2 and so on.

    empty: once the table was read, the numbers of the texts that have no rows. words: how many rows are words, and
    infrequent: the words among them that have no frequency, each with its number of rows; of tables with frequencies.
    """

    def __init__(self, source: Source, models: Mapping[str, Model], options: SurprisalOptions) -> None:
        self._source, self._models, self._options = source, models, options
        self.empty: list[int] = []
        self.words, self.infrequent = 0, Counter[str]()
        self._fields: Mapping[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with showing(self._options.progress) as progress:
            yield from self._rows(progress)

    def to_records(self) -> list[dict[str, Any]]:
        """All rows."""
        return list(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes .csv, .tsv, .jsonl or .parquet, by the name; all but the last also compressed. Raises OutputError."""
        from chainrule.base.arguments import as_path
        from chainrule.base.files import check_new_file
        from chainrule.text.corpus.writing import check_table_format, table_file

        target = as_path(path)
        check_table_format(target)
        check_new_file(target, overwrite=overwrite, inputs=getattr(self._source, "paths", ()))
        with table_file(target, self._example) as write:
            for row in self:
                write(row)

    def _example(self) -> dict[str, Any]:
        """A row with all columns: that of the end of an empty text."""
        options = replace(self._options, ends=True)
        by_model = [_rows_of_texts(model, [""], options, suffix) for suffix, model in self._by_suffix()]
        frequencies = self._options.frequencies
        counted = None if frequencies is None else WordFrequencies(frequencies)
        [row] = self._joined([rows for [rows] in by_model], 1, counted)
        field = self._source.reading.field if isinstance(self._source, Corpus) else ""
        return {**fields_beside(self._fields, row, field), **row}

    def _by_suffix(self) -> Iterator[tuple[str, Model]]:
        """The models, with the end of the names of their columns."""
        return ((f"_{name}" * bool(name), model) for name, model in self._models.items())

    def _rows(self, progress: Progress) -> Iterator[dict[str, Any]]:
        inside, number = BlockProgress(progress, "scoring"), 0
        frequencies = self._options.frequencies
        counted = None if frequencies is None else WordFrequencies(frequencies)
        if isinstance(self._source, Corpus):
            blocks, field = self._source.blocks_as_they_come(inside, "scoring", fields=True), self._source.reading.field
        else:
            blocks, field = self._source.blocks(inside, "scoring"), ""
        self.empty, self.words, self.infrequent, self._fields = [], 0, Counter(), {}
        for block in blocks:
            done = 0
            for piece in block.pieces(_PART_BYTES):
                by_model = [rows_of_block(model, piece, self._options, suffix) for suffix, model in self._by_suffix()]
                for *groups, fields in zip(*by_model, piece.fields or repeat({}), strict=False):
                    number += 1
                    if number == 1:
                        self._fields = fields
                    rows = self._joined(groups, number, counted)
                    if not rows:
                        self.empty.append(number)
                    for row in rows:
                        yield {**fields_beside(fields, row, field), **row}
                done += piece.text.size
                inside.report(done)

    def _joined(
        self, groups: Sequence[list[dict[str, Any]]], number: int, counted: WordFrequencies | None
    ) -> list[dict[str, Any]]:
        """The rows of a text, with the columns of all models, and those that need no model. Raises TextError."""
        rows, *others = groups
        for name, own in zip([*self._models][1:], others, strict=True):
            if len(own) != len(rows):
                raise TextError(
                    f"sentence {number}: {name} reads {len(own)} words, and {next(iter(self._models))} {len(rows)}; "
                    "their tokenizers write the text in different ways, so its words cannot share rows"
                )
            for row, more in zip(rows, own, strict=True):
                row |= {column: value for column, value in more.items() if column not in row}
        if counted is not None:
            values = counted.log_frequencies([row["word"] for row in rows])
            of_text = len(rows) - self._options.ends  # without </s>
            self.words += of_text
            self.infrequent.update(
                row["word"] for row, value in zip(rows[:of_text], values, strict=False) if value is None
            )
            rows = [
                {**dict(items[:4]), "log_frequency": value, **dict(items[4:])}
                for items, value in zip(([*row.items()] for row in rows), values, strict=True)
            ]
        spilled = [name for name in (rows[0] if rows else ()) if name.startswith(_SPILLS)]
        for i, row in reversed([*enumerate(rows)]):
            row["sentence"] = number
            for k in range(1, self._options.previous + 1):
                row |= {f"{name}_prev{k}": rows[i - k][name] if i >= k else None for name in spilled}
        return rows


def surprisal_column(options: SurprisalOptions) -> str:
    """The column of words' surprisals with their ends, which names any convention but ours."""
    convention = "" if options.convention == "chainrule" else f"{options.convention}_"
    return f"surprisal_{convention}{'nats' if options.nats else 'bits'}"


_SPILLS = ("length", "log_frequency", "surprisal_", "uncorrected_", "entropy_", "word_entropy_")


def rows_of_block(
    model: Model, block: Block, options: SurprisalOptions, suffix: str = ""
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each text of a block, see `Surprisals`. suffix: of the names of columns that depend on the model."""
    from chainrule.evaluation.surprisal import read_block, word_figures

    by, unit = options.by, "nats" if options.nats else "bits"
    scale = -1.0 if options.nats else -1 / math.log(2)
    figures: Iterator[Any] = repeat((None, None, None, None, None))
    contexts = None
    if by in ("words", "tokens"):
        contexts = read_block(
            model.language_model,
            model.tokenizer,
            block,
            word_ends=by == "words" and options.word_ends,
            entropy=options.entropy or options.word_entropy > 0,
            convention=options.convention,
        )
    if by == "words":
        parts = model.language_model, model.tokenizer, model.speller.unseen_types
        asked = {"word_ends": options.word_ends, "entropy": options.entropy, "drawn": options.word_entropy}
        figures = iter(word_figures(*parts, block, contexts, **asked))
    elif by == "tokens" and options.entropy and contexts is not None:
        figures = ((None, None, own.entropies, own.ranks, None) for own in contexts)
    for document in documents(model, block, "tokens" if by == "texts" else by, contexts):
        corrections, _, entropies, ranks, of_words = next(figures)
        if by == "texts":
            total = sum(unit.spelled_log_prob for unit in document.units)
            yield [
                {
                    "sentence": 0,
                    "text": document.text,
                    f"surprisal_{unit}{suffix}": scale * total,
                    f"tokens{suffix}": document.tokens,
                    f"unknown_tokens{suffix}": document.oov,
                }
            ]
            continue
        rows = []
        for i, one in enumerate(document.units if options.ends else document.units[:-1]):
            row: dict[str, Any] = {"sentence": 0, "position": i + 1, _SINGULAR[by]: one.text}
            if by == "words":
                row["length"] = one.stop - one.start
            if corrections is not None:
                with_end = one.spelled_log_prob + float(corrections[i])
                row[surprisal_column(options) + suffix] = scale * with_end + 0.0  # no -0
            name = "uncorrected" if by == "words" else "surprisal"
            row[f"{name}_{unit}{suffix}"] = scale * one.spelled_log_prob + 0.0
            if entropies is not None:
                row[f"entropy_{unit}{suffix}"] = -scale * float(entropies[i])
                row[f"rank{suffix}"] = int(ranks[i])
            if of_words is not None:
                row[f"word_entropy_{unit}{suffix}"] = -scale * float(of_words.values[i])
                row[f"word_entropy_error_{unit}{suffix}"] = finite(-scale * float(of_words.errors[i]))
            rows.append({**row, f"known{suffix}": one.known, "start": one.start, "stop": one.stop})
        yield rows


def words_of_texts(
    model: Model, texts: Sequence[str], options: SurprisalOptions | None = None
) -> list[list[dict[str, Any]]]:
    """The rows of the words of each text, as `surprisal` gives them, without `sentence`. Raises MarkerError."""
    by_text = _rows_of_texts(model, texts, options or SurprisalOptions())
    return [[{name: row[name] for name in row if name != "sentence"} for row in rows] for rows in by_text]


def _rows_of_texts(
    model: Model, texts: Sequence[str], options: SurprisalOptions, suffix: str = ""
) -> Iterator[list[dict[str, Any]]]:
    """As `rows_of_block`."""
    from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array

    data = b"".join(text.encode("utf-8", "replace") + bytes([NEVER_IN_UTF8]) for text in texts)
    return rows_of_block(model, Block(byte_array(data), "the texts", 1, NEVER_IN_UTF8, ""), options, suffix)
