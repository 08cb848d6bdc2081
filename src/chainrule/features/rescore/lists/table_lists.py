"""N-best lists in tables, CSV, TSV or Parquet: a row for each hypothesis, the rows of one id together.

The columns are id, text and score, and perhaps reference and source. Others are scores where they are named so. Three
columns without names are an id, a text and a score.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import TextError
from chainrule.features.rescore.lists.nbest import SCORE, Line, NBestList, finite_score
from chainrule.features.rescore.lists.nbest_formats import one_line
from chainrule.text.corpus.reading import suggest_fields
from chainrule.text.corpus.records import (
    Record,
    bad_record,
    items_of,
    raise_error,
    read_field,
    read_records,
)
from chainrule.text.numbers import is_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.features.rescore.lists.nbest_formats import ScoreFiles
    from chainrule.text.corpus.records import OnBad

_ID, _TEXT = ("id", "utterance"), ("text", "hypothesis")  # what the columns of a table may be called


def read_table_lists(name: str, files: ScoreFiles, on_bad: OnBad = raise_error) -> Iterator[NBestList]:
    """Reads the lists of CSV, TSV or Parquet. files: the columns with scores and costs, by the names of scores.

    on_bad: gets a TextError with file and line for each row that is left out.
    """
    columns = {score: (column, 1.0) for score, column in files.scores.items()}
    columns |= {score: (column, -1.0) for score, column in files.costs.items()}
    columns = columns or {SCORE: (SCORE, 1.0)}

    def read(record: Record) -> _Row:
        key, text = (_cell(record, names) for names in (_ID, _TEXT))
        line = Line(record.written, name, record.number)
        if not key or any(character.isspace() for character in key):
            raise TextError(f"the id is {key!r}; expected a text without white space")
        missing = next((column for column, _ in columns.values() if column not in record.fields), None)
        if missing is not None:
            known = suggest_fields(record.fields, "")
            raise TextError(
                f"there is no column {missing!r} of scores; {known}; name others with scores=... or costs=..."
            )
        scores = {
            score: sign * finite_score(record.fields[column], line, f"the {score}")
            for score, (column, sign) in columns.items()
        }
        return _Row(key, one_line(text, line, "the text"), scores, record)

    seen: set[str] = set()
    for key, group in groupby(items_of(read_records(name, on_bad, _table_header), read, on_bad), lambda row: row.key):
        rows = list(group)
        first = rows[0].record
        if key in seen:
            raise bad_record(first, f"the list {key} occurs again after others; expected all rows of an id together")
        seen.add(key)
        scores = {score: tuple(row.scores[score] for row in rows) for score in columns}
        used = {*_ID, *_TEXT, "reference", "source", *(column for column, _ in columns.values())}
        others = tuple({one: value for one, value in row.record.fields.items() if one not in used} for row in rows)
        texts = tuple(row.text for row in rows)
        reference, source = (first.fields.get(one) for one in ("reference", "source"))
        yield NBestList(key, texts, scores, first.location, _known(reference), _known(source), others=others)


def _known(value: object) -> str | None:
    return None if value is None else str(value)


class _Row(NamedTuple):
    key: str
    text: str
    scores: dict[str, float]
    record: Record


def _cell(record: Record, names: Sequence[str]) -> str:
    """Raises TextError."""
    column = next((name for name in names if name in record.fields), names[0])
    value = read_field(record.fields, column)
    return value if isinstance(value, str) else str(value)


def _table_header(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
    """Raises TextError where there are no names, and not three columns, one of them a number."""
    if set(_ID) & set(cells) or set(_TEXT) & set(cells):
        return cells, True
    if len(cells) == 3 and is_number(cells[2]):
        return (_ID[0], _TEXT[0], SCORE), False
    if len(cells) == 3 and is_number(cells[1]):
        return (_ID[0], SCORE, _TEXT[0]), False
    raise TextError(
        f"{place}: found {len(cells)} columns without the names id, text and score; expected a first line with these, "
        "or three columns: an id, a text and a number"
    )
