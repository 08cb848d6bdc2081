"""The surprisal of each token, word, character or byte of texts: as lines, as JSON for each document, or as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from chainrule.api.models.model import check_model
from chainrule.api.progress_line import showing
from chainrule.api.texts.config import SurprisalOptions
from chainrule.base.json import finite
from chainrule.base.options import takes
from chainrule.base.progress import BlockProgress
from chainrule.text.corpus.corpus import Corpus, source_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.api.models.model import Model
    from chainrule.base.progress import Progress
    from chainrule.evaluation.surprisal import By
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths, Source

_SINGULAR: dict[By, str] = {"tokens": "token", "words": "word", "characters": "character", "bytes": "byte"}


@dataclass(frozen=True)
class Unit:
    """A token, word, character or byte with its position in the normalised document."""

    text: str
    log_prob: float  # nats, <unk> for unknown tokens
    text_log_prob: float  # nats, as a piece of the text, spelling included
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

    def lines(self) -> str:
        return "".join(unit.line() + "\n" for unit in self.units)

    def as_json(self, by: By) -> dict[str, Any]:
        return {
            "text": self.text,
            "log_prob": finite(sum(unit.log_prob for unit in self.units)),
            "text_log_prob": finite(sum(unit.text_log_prob for unit in self.units)),
            "tokens": self.tokens,
            "oov": self.oov,
            "normalised": self.normalised,
            f"{_SINGULAR[by]}_scores": [unit.as_json(by) for unit in self.units],
        }


def documents(model: Model, block: Block, by: By) -> Iterator[Document]:
    """Scores every document of a block by unit; tokens are shown as the tokenizer writes them."""
    import numpy as np

    from chainrule.evaluation.surprisal import units
    from chainrule.evaluation.token_scores import score_tokens
    from chainrule.protocol import END

    encoded = model.tokenizer.encode_block(block)
    scored = score_tokens(model.language_model, model.speller, encoded)
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
            start, stop, start_character, stop_character, closed, total, unknown = rows[index]
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
            shown.append(Unit(spelled, closed, total, not unknown, *offsets))
        oov = int(oov_before[token_stop] - oov_before[first_token])
        yield Document(original, text[first_byte:end].decode("utf-8", "replace"), shown, token_stop - first_token, oov)
        first_unit, first_token, first_byte = last_unit, token_stop, end + 1


def _one_line(text: str) -> str:
    """White space, which would break a line of columns, as Python escapes it."""
    return text if text.isprintable() else text.encode("unicode_escape").decode() if text.isspace() else text


_PART_BYTES = 1 << 18  # scored at a time


@takes(SurprisalOptions)
def surprisal(source: Source | Paths, model: Model, options: SurprisalOptions) -> Surprisals:
    """The surprisal of each word of texts, or of each token, character, byte or text: a table for pandas and R.

    The rows are read and scored while one goes through them. Of records, the fields beside the text are columns, too,
    so that ids and conditions stay with each word. Raises TypeError, TextError, SettingError, MarkerError.

    good:  pandas.DataFrame(chainrule.surprisal("items.csv", chainrule.load("lm/")))
    good:  chainrule.surprisal("items.jsonl", model, by="tokens", nats=True).save("tokens.parquet")
    """
    check_model(model)
    return Surprisals(source_of(source, model.document), model, options)


class Surprisals:
    """A table of surprisals; iterating over it scores the texts, and gives a dictionary for each row.

        sentence          the number of the text, from 1
        position          of the word in its text, from 1
        word              or token, character, byte, text
        surprisal_bits    -log2 P, the spelling of unknown tokens included; of a word, with its end
        uncorrected_bits  of a word: the sum of its tokens' surprisals, which pays for the end of the word before it
        known             whether it has no unknown token
        start, stop       its place in the normalised text, in characters

    They come after the fields of the record, of which one with a name of these is called record_sentence, say. In nats,
    the columns are surprisal_nats and uncorrected_nats.
    """

    def __init__(self, source: Source, model: Model, options: SurprisalOptions) -> None:
        self._source, self._model, self._options = source, model, options

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
        with table_file(target) as write:
            for row in self:
                write(row)

    def _rows(self, progress: Progress) -> Iterator[dict[str, Any]]:
        inside, number = BlockProgress(progress, "scoring"), 0
        if isinstance(self._source, Corpus):
            blocks, field = self._source.blocks_as_they_come(inside, "scoring", fields=True), self._source.reading.field
        else:
            blocks, field = self._source.blocks(inside, "scoring"), ""
        for block in blocks:
            done = 0
            for piece in block.pieces(_PART_BYTES):
                for rows, fields in zip(self._by_text(piece), piece.fields or repeat({}), strict=False):
                    number += 1
                    for row in rows:
                        row["sentence"] = number
                        yield {**fields_beside(fields, row, field), **row}
                done += piece.text.size
                inside.report(done)

    def _by_text(self, block: Block) -> Iterator[list[dict[str, Any]]]:
        """The rows of each text of a block."""
        by, unit = self._options.by, "nats" if self._options.nats else "bits"
        scale = -1.0 if self._options.nats else -1 / math.log(2)
        corrections: Iterator[Any] = repeat(None)
        if by == "words" and self._options.word_ends:
            corrections = iter(_word_ends(self._model, block))
        for document in documents(self._model, block, "tokens" if by == "texts" else by):
            own = next(corrections)
            if by == "texts":
                total = sum(unit.text_log_prob for unit in document.units)
                yield [
                    {
                        "sentence": 0,
                        "text": document.text,
                        f"surprisal_{unit}": scale * total,
                        "tokens": document.tokens,
                        "unknown_tokens": document.oov,
                    }
                ]
                continue
            rows = []
            for i, one in enumerate(document.units if self._options.ends else document.units[:-1]):
                row: dict[str, Any] = {"sentence": 0, "position": i + 1, _SINGULAR[by]: one.text}
                if own is not None:
                    row[f"surprisal_{unit}"] = scale * (one.text_log_prob + float(own[i])) + 0.0  # no -0
                name = f"uncorrected_{unit}" if by == "words" else f"surprisal_{unit}"
                row[name] = scale * one.text_log_prob + 0.0
                rows.append({**row, "known": one.known, "start": one.start, "stop": one.stop})
            yield rows


def fields_beside(fields: Mapping[str, Any], own: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    """The fields of a record beside its text; one that has a name of `own` is called record_NAME."""
    return {f"record_{name}" if name in own else name: value for name, value in fields.items() if name != text_field}


def _word_ends(model: Model, block: Block) -> list[Float64[ndarray, " words"]]:
    """The corrections for the words of each document of a block."""
    from chainrule.evaluation.surprisal import word_end_corrections
    from chainrule.text.tokenization.tokenizer import documents_of
    from chainrule.text.units import words_of

    encoded = model.tokenizer.encode_block(block)
    words = words_of(encoded.ids, model.tokenizer.align(encoded))
    sizes = [len(ids) + 1 for ids in documents_of(encoded.ids)]
    texts, start = [], 0
    for size, first in zip(sizes, words.documents.tolist(), strict=False):
        texts.append((encoded.ids[start : start + size], words.of_tokens[start : start + size] - first))
        start += size
    return word_end_corrections(model.language_model, model.tokenizer, texts)
