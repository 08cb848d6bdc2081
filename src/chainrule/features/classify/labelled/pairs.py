"""Files of labelled pairs of texts or trees.

TSV, CSV      first, tab, second, tab, label; or with column names in the first line
JSON lines    {"first": "a text", "second": "another", "label": 4.5}

A tree is written in brackets; in JSON, also as an object of words and parents. Column names and fields may be those of
SICK, SNLI, STS and GLUE: see FIRST, SECOND, LABEL and RATING; others are given. Three columns of which the last is
called as labels or ratings are need no names for the first two.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chainrule.base.arguments import as_list
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.labelled.texts import Labelled, names_column
from chainrule.kinds import Table
from chainrule.text.corpus.csv_table import rows_of
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, UTF_8, check_encoding, text_suffix
from chainrule.text.corpus.records import as_written, json_objects, raise_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chainrule.text.corpus.records import OnBad

Sides = Literal["text", "tree"]
# What the columns of files are called; of those that a file has, the first is read. Labels, then ratings.
FIRST = ("first", "sentence_A", "sentence1", "premise")
SECOND = ("second", "sentence_B", "sentence2", "hypothesis")
LABEL = ("label", "gold_label", "entailment_judgment")
RATING = ("rating", "relatedness_score", "score", "label")


class Pair(NamedTuple):
    """Two texts, or two trees."""

    first: Any
    second: Any


class SideKind(NamedTuple):
    """What pairs are of: texts, or inputs of another kind.

    read: (as written in a file, place) -> a side. Raises TextError. example: (side, place) -> an example without
    labels, which the kind of inputs encodes. text: side -> how it is shown.
    """

    type: type
    read: Callable[[Any, str], Any]
    example: Callable[[Any, str], Any]
    text: Callable[[Any], str]


class LabelledPair(NamedTuple):
    """A pair with its label, or with a rating, as written.

    good:  LabelledPair(Pair("a dog runs", "a dog sleeps"), ("3.3",))
    """

    input: Pair
    labels: tuple[str, ...]
    place: str = "a labelled pair"  # file and line, for messages


class _Columns(NamedTuple):
    """What the columns, or fields, of a file may be called, and its encoding. label: None where labels are not read."""

    first: Sequence[str]
    second: Sequence[str]
    label: Sequence[str] | None
    encoding: str

    @classmethod
    def of(
        cls, fields: tuple[str, str] | None, label_field: str | None, encoding: str, known: Sequence[str] | None
    ) -> _Columns:
        """Return the columns that the settings name.

        known: the names of labels, where label_field is None. Raises SettingError.
        """
        check_encoding(encoding)
        if fields is None:
            return cls(FIRST, SECOND, known if label_field is None else (label_field,), encoding)
        if isinstance(fields, str) or len(fields) != 2 or fields[0] == fields[1]:
            raise SettingError(f"fields is {fields!r}; expected the names of two columns, those of both sides")
        return cls((fields[0],), (fields[1],), known if label_field is None else (label_field,), encoding)

    @property
    def are_given(self) -> bool:
        """Whether a column has a name of which only the user knows."""
        return (self.first, self.second) != (FIRST, SECOND) or self.label not in (None, LABEL, RATING)


def read_labelled_pairs(
    name: str | os.PathLike[str],
    sides: Sides = "text",
    *,
    ratings: bool = False,
    on_bad: OnBad = raise_error,
    fields: tuple[str, str] | None = None,
    label_field: str | None = None,
    encoding: str = UTF_8,
) -> list[LabelledPair]:
    """Return the labelled pairs of a file.

    sides: whether sides are texts or trees. ratings: whether to read the rating, if a pair has both label and rating.
    on_bad: a callback that gets a TextError with file and line for each pair that cannot be read, which is left out.
    fields, label_field: the columns or fields of both sides, and of labels or ratings; by default those that are called
    as in the sets above. encoding: that of the file, such as latin-1. Raises SettingError; TextError where there is no
    pair.

    good:  chainrule.read_labelled_pairs("SICK.txt", ratings=True)
           chainrule.read_labelled_pairs("nli.csv", fields=("text_a", "text_b"), label_field="gold")
    """
    name = os.fspath(name)
    columns = _Columns.of(fields, label_field, encoding, RATING if ratings else LABEL)
    pairs = list(_pairs(name, sides, columns, on_bad))
    if not pairs:
        raise TextError(f"{name}: there is no labelled pair in it; at least one is needed")
    return pairs


def read_unlabelled_pairs(
    name: str | os.PathLike[str],
    sides: Sides = "text",
    *,
    fields: tuple[str, str] | None = None,
    encoding: str = UTF_8,
) -> list[Pair]:
    """Return the pairs of a file, whether they have labels or not.

    Raises TextError, also where there is none; SettingError. fields, encoding: as for `read_labelled_pairs`.
    """
    name = os.fspath(name)
    pairs = [pair.input for pair in _pairs(name, sides, _Columns.of(fields, None, encoding, None), raise_error)]
    if not pairs:
        raise TextError(f"{name}: there is no pair in it; at least one is needed")
    return pairs


def check_pairs(examples: Iterable[Any], side: type) -> list[LabelledPair]:
    """Check labelled pairs given from Python. Raises TypeError, TextError."""
    examples = list(examples)
    for example in examples:
        is_pair = isinstance(example, LabelledPair) and isinstance(example.labels, tuple) and len(example.labels) == 1
        if not is_pair or not all(isinstance(own, side) for own in example.input):
            raise TypeError(f"this takes labelled pairs, each a LabelledPair with one label; found {example!r}")
    if not examples:
        raise TextError("there are no labelled pairs; at least one is needed")
    return examples


def as_pairs(inputs: Iterable[Any], side: type) -> list[Pair]:
    """Return pairs without labels given from Python, each a Pair or any two sides. Raises TypeError."""
    pairs = as_list("inputs", inputs)
    for pair in pairs:
        is_two = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_two or not all(isinstance(own, side) for own in pair):
            raise TypeError(f"this takes pairs, each a Pair of two {side.__name__}; found {pair!r}")
    return [Pair(*pair) for pair in pairs]


def _pairs(name: str, sides: Sides, columns: _Columns, on_bad: OnBad) -> Iterator[LabelledPair]:
    side = SIDES[sides].read
    is_json = FORMATS.get(text_suffix(name)) == "json"
    records = json_objects(name, on_bad, encoding=columns.encoding) if is_json else _rows(name, columns, on_bad)
    for place, record in records:
        try:
            first, second = _field(record, columns.first, place), _field(record, columns.second, place)
            label = None if columns.label is None else _field(record, columns.label, place, "label_field")
            pair = Pair(side(first, place), side(second, place))
            yield LabelledPair(pair, () if columns.label is None else (_label(label, place),), place)
        except TextError as error:
            on_bad(error)


def _text(value: Any, place: str) -> str:
    """Return a text unchanged. Raises TextError if it is empty, or no text."""
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{place}: a side of the pair is {value!r}; expected a text that is not empty")
    return value


# By the kind of inputs, as in INPUTS.
SIDES: Table[SideKind] = Table(
    "classify.sides", {"text": SideKind(str, _text, lambda text, place: Labelled(text, (), place), str)}
)


def _rows(name: str, columns: _Columns, on_bad: OnBad) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of TSV or CSV, by the names of columns, with their places."""
    is_csv = text_suffix(name) == ".csv"
    of_csv = ((row.line, row.cells) for row in rows_of(name, columns.encoding)) if is_csv else ()
    rows = list(of_csv if is_csv else _tsv_rows(name, columns.encoding))
    header = None if not rows else _header(rows[0][1], columns, f"{name}, line {rows[0][0]}")
    if header is None:
        header = [FIRST[0], SECOND[0], *([] if columns.label is None else [columns.label[0]])]
        if columns.label is not None:
            _check_first_row(name, rows, is_csv=is_csv)
    else:
        del rows[0]
    for number, cells in rows:
        if len(cells) < len(header):
            on_bad(
                TextError(
                    f"{name}, line {number}: found {len(cells)} columns; expected {len(header)}, "
                    f"{', '.join(header)}, with {'commas' if is_csv else 'tabs'} between"
                )
            )
            continue
        yield f"{name}, line {number}", dict(zip(header, cells, strict=False))


def _header(cells: list[str], columns: _Columns, place: str) -> list[str] | None:
    """Return the names of the columns, if the first row has them. Raises TextError where it lacks one."""
    needed = [columns.first, columns.second, *([] if columns.label is None else [columns.label])]
    missing = [names for names in needed if set(names).isdisjoint(cells)]
    if not missing:
        return cells
    ends_in_label = len(cells) > 2 and cells[-1].strip() in {*LABEL, *RATING, *(columns.label or ())}
    if ends_in_label and len(cells) == 3 and columns.first is FIRST:
        return [FIRST[0], SECOND[0], cells[-1].strip()]
    if ends_in_label or columns.are_given or missing == [columns.label]:
        lacking = "; none ".join(" or ".join(map(repr, names)) for names in missing)
        raise TextError(
            f"{place}: the columns are {', '.join(map(repr, cells))}; none is called {lacking}; name those of both "
            "sides with fields=..., and that of labels or ratings with label_field=..."
        )
    return None


def _check_first_row(name: str, rows: Sequence[tuple[int, list[str]]], *, is_csv: bool) -> None:
    """Raise TextError where the first row seems to name columns. rows: of first, second, label."""
    (number, cells), *others = rows or [(0, [])]
    if len(cells) > 2 and names_column(cells[2].strip(), [own[2].strip() for _, own in others if len(own) > 2], is_csv):
        raise TextError(
            f"{name}, line {number}: {', '.join(map(repr, cells))} seem to be the names of columns, since no other row "
            f"has {cells[2]!r}; name those of both sides with fields=..., and that of labels or ratings with "
            "label_field=..., or put a first row of first, second and label before it"
        )


def _tsv_rows(name: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Return the number and the cells of each line that is not empty."""
    return ((number, line.split("\t")) for number, line in enumerate(lines_of(name, encoding), 1) if line.strip())


def _field(record: dict[str, Any], names: Sequence[str], place: str, setting: str = "fields") -> Any:
    """Return the field of a record that has one of these names.

    Raises TextError where no field has one of these names. setting: what names another.
    """
    name = next((name for name in names if name in record), None)
    if name is None:
        raise TextError(
            f"{place}: there is no {names[0]}; expected a field or column of the name {' or '.join(names)}, or name it "
            f"with {setting}=..."
        )
    return record[name]


def _label(value: Any, place: str) -> str:
    value = as_written(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{place}: the label is {value!r}; expected a string that is not empty, or a number")
    return value.strip()
