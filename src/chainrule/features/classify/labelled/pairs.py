"""Files of labelled pairs of texts or trees.

TSV, CSV      first, tab, second, tab, label; or with column names in the first line
JSON lines    {"first": "a text", "second": "another", "label": 4.5}; Parquet has the same fields

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
from chainrule.text.corpus.reading import UTF_8, check_encoding, suggest_fields, text_suffix
from chainrule.text.corpus.records import as_written, raise_error, read_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chainrule.text.corpus.records import OnBad, Record

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
    columns = _Columns.of(fields, label_field, encoding, RATING if ratings else LABEL)
    return _pairs(os.fspath(name), sides, columns, "labelled pair", on_bad)


def read_unlabelled_pairs(
    name: str | os.PathLike[str],
    sides: Sides = "text",
    *,
    on_bad: OnBad = raise_error,
    fields: tuple[str, str] | None = None,
    encoding: str = UTF_8,
) -> list[Pair]:
    """The pairs of a file, whether they have labels or not. Raises TextError, also where there is none; SettingError.

    on_bad, fields, encoding: as for `read_labelled_pairs`.
    """
    columns = _Columns.of(fields, None, encoding, None)
    return [pair.input for pair in _pairs(os.fspath(name), sides, columns, "pair", on_bad)]


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


def _pairs(name: str, sides: Sides, columns: _Columns, what: str, on_bad: OnBad) -> list[LabelledPair]:
    """Return the labelled pairs of a file.

    what: the name of a pair, for the message that there is none. Raises TextError.
    """
    side, unnamed = SIDES[sides].read, list[str]()

    def read(record: Record) -> LabelledPair:
        first, second = _field(record, columns.first), _field(record, columns.second)
        place = record.location
        labels = [] if columns.label is None else [_label(_field(record, columns.label, "label_field"))]
        return LabelledPair(Pair(side(first, place), side(second, place)), tuple(labels), place)

    def header(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
        names = _header(cells, columns, place)
        if names is not None:
            return names, True
        unnamed.append(place)
        known = [FIRST[0], SECOND[0], *([] if columns.label is None else [columns.label[0]])]
        return [*known, *(f"column {i}" for i in range(len(known) + 1, len(cells) + 1))], False

    pairs = read_items(name, read, what, on_bad, header, encoding=columns.encoding)
    if pairs[0].place in unnamed and columns.label is not None:
        _check_first_row(pairs, is_csv=text_suffix(name) == ".csv")
    return pairs


def _text(value: Any, place: str) -> str:
    """Return a text unchanged. Raises TextError if it is empty, or no text."""
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{place}: a side of the pair is {value!r}; expected a text that is not empty")
    return value


# By the kind of inputs, as in INPUTS.
SIDES: Table[SideKind] = Table(
    "classify.sides", {"text": SideKind(str, _text, lambda text, place: Labelled(text, (), place), str)}
)


def _header(cells: Sequence[str], columns: _Columns, place: str) -> Sequence[str] | None:
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


def _check_first_row(pairs: Sequence[LabelledPair], *, is_csv: bool) -> None:
    """Raises TextError where the first row of a table without names seems to have some."""
    first, *others = pairs
    if names_column(first.labels[0], [own.labels[0] for own in others], is_csv):
        raise TextError(
            f"{first.place}: {', '.join(map(repr, (*first.input, *first.labels)))} seem to be the names of columns, "
            f"since no other row has {first.labels[0]!r}; name those of both sides with fields=..., and that of labels "
            "or ratings with label_field=..., or put a first row of first, second and label before it"
        )


def _field(record: Record, names: Sequence[str], setting: str = "fields") -> Any:
    """Return the field of a record that has one of these names.

    Raises TextError where no field has one of these names. setting: what names another.
    """
    name = next((name for name in names if name in record.fields), None)
    if name is None:
        raise TextError(
            f"there is no {names[0]}; expected a field or column of the name {' or '.join(names)}, or name it with "
            f"{setting}=...; {suggest_fields(record.fields, '')}"
        )
    return record.fields[name]


def _label(value: Any) -> str:
    value = as_written(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"the label is {value!r}; expected a string that is not empty, or a number")
    return value.strip()
