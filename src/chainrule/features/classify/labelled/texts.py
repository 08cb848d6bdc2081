"""Labelled texts: one label for each text, or for each of its words.

JSON lines    {"text": "a text", "label": "news"}       {"words": ["a", "text"], "labels": ["DET", "NOUN"]}
Parquet       the same fields                           the same fields
TSV           text, tab, label                          word, tab, label; an empty line after each text
CSV           text,label                                none

In JSON and Parquet, a label may be a whole number. If the first line of TSV or CSV names the columns of texts and
labels, there may be other columns, too, in any order; if the label on the first line is "label", the line is a header.
The labels of an input's units are a tuple of names, or, for many units, positions in a list of names (UnitLabels).
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, overload

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, UTF_8, check_encoding, text_suffix
from chainrule.text.corpus.records import Record, as_written, bad_record, items_of, raise_error, read_field, read_items
from chainrule.text.numbers import is_number
from chainrule.text.units import split_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from jaxtyping import Int64, UInt8
    from numpy import ndarray

    from chainrule.text.corpus.records import Header, OnBad


class UnitLabels(Sequence[str]):
    """The labels of many units, such as the pixels of a picture, row by row. Its repr has a digest of them.

    good:  UnitLabels(("sky", "sea"), np.array([0, 0, 1], np.uint8))
    """

    def __init__(self, names: Sequence[str], values: UInt8[ndarray, " units"]) -> None:
        """Store the names of the labels, and each unit's label as its position among the names."""
        self.names, self.values = tuple(names), values

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> UnitLabels: ...
    def __getitem__(self, index: int | slice) -> str | UnitLabels:
        if isinstance(index, slice):
            return UnitLabels(self.names, self.values[index])
        return self.names[self.values[index]]

    def __repr__(self) -> str:
        return f"UnitLabels({self.names!r}, {hashlib.sha256(self.values.tobytes()).hexdigest()})"


def distinct_labels(labels: Sequence[str]) -> set[str]:
    """Return the distinct labels."""
    if isinstance(labels, UnitLabels):
        return {labels.names[value] for value in np.unique(labels.values).tolist()}
    return set(labels)


def label_indices(labels: Sequence[str], index: Mapping[str, int]) -> Int64[ndarray, " units"]:
    """Return the index of each unit's label. Raises KeyError."""
    if isinstance(labels, UnitLabels):
        table = np.zeros(len(labels.names), np.int64)
        for label in distinct_labels(labels):
            table[labels.names.index(label)] = index[label]
        return table[labels.values]
    return np.array([index[label] for label in labels], np.int64)


LabelledUnit = Literal["text", "word"]


class Labelled(NamedTuple):
    """A text with one label, or with a label for each of its words, which are separated by single spaces.

    good:  Labelled("a text", ("news",))
    """

    text: str
    labels: tuple[str, ...]
    place: str = "a labelled text"  # file and line, for messages

    @property
    def input(self) -> str:
        """The text, under the name that inputs of every kind have."""
        return self.text


def read_labelled(
    name: str | os.PathLike[str],
    unit: LabelledUnit = "text",
    on_bad: OnBad = raise_error,
    *,
    field: str = "text",
    label_field: str = "label",
    encoding: str = UTF_8,
) -> list[Labelled]:
    """Reads a file of JSON lines, Parquet, CSV (.csv) or TSV. unit: whether each text or each word has a label.

    on_bad: a callback that gets a TextError with file and line for each example without a text, word or label, which is
    left out. field, label_field: the fields or columns of texts and labels; encoding: that of the file, such as
    latin-1. Raises SettingError; TextError if there is no example.

    good:  read_labelled("reviews.csv", field="review", label_field="stars")
    """
    check_unit(unit)
    check_encoding(encoding)
    name, fields = os.fspath(name), (field, label_field)
    what = "labelled text"
    if unit == "text":
        unnamed: list[str] = []
        header = _header(name, fields, unnamed)
        labelled = read_items(name, lambda record: _of_record(record, fields), what, on_bad, header, encoding=encoding)
        if labelled[0].place in unnamed:
            _check_first_row(labelled, is_csv=text_suffix(name) == ".csv")
        return labelled
    if fields != _FIELDS:
        raise SettingError(
            "field and label_field are for texts with one label; labelled words are in the field words, or in the "
            "first column"
        )
    if text_suffix(name) == ".csv":
        raise TextError(
            f"{name}: words with labels are read from TSV, word, tab, label, or JSON lines or Parquet; not from CSV"
        )
    if text_suffix(name) in FORMATS:
        return read_items(name, _words_of_record, what, on_bad, encoding=encoding)
    labelled = list(items_of(_word_lines(name, encoding), _of_lines, on_bad))
    if not labelled:
        raise TextError(f"{name}: there is no {what} in it")
    return labelled


def check_unit(unit: str) -> None:
    """Raise SettingError if a unit is neither text nor word."""
    if unit not in get_args(LabelledUnit):
        raise SettingError(f"unit is {unit!r}; expected text or word, whichever has labels")


def check_labelled(examples: Iterable[Labelled], unit: LabelledUnit) -> list[Labelled]:
    """Check labelled texts given from Python. Raises TypeError, SettingError, TextError."""
    check_unit(unit)
    examples = [examples] if isinstance(examples, str) else list(examples)
    for example in examples:
        if not isinstance(example, Labelled):
            raise TypeError(
                f"this takes labelled texts, each a Labelled, as read_labelled gives them; found {example!r}"
            )
        text, labels, place = example
        if not isinstance(text, str) or not isinstance(labels, tuple):
            raise TypeError(
                f"{place}: expected a text and a tuple of labels, as in ('a text', ('news',)); found {example!r}"
            )
        odd = [label for label in labels if not _is_label(label)]
        if odd:
            raise TextError(f"{place}: the label {odd[0]!r} is not a string of one line, or is empty")
        if unit == "text" and len(labels) != 1:
            raise TextError(f"{place}: a text has one label, and there are {len(labels)}")
    if not examples:
        raise TextError("there are no labelled texts; at least one is needed")
    return examples


def _is_label(label: object) -> bool:
    return isinstance(label, str) and bool(label.strip()) and not set(label) & set("\t\n\r")


def digest_of(examples: Sequence[Labelled]) -> str:
    """Return the SHA-256 of the texts and labels, whatever file they are from."""
    return hashlib.sha256(repr([(example.text, example.labels) for example in examples]).encode()).hexdigest()


def classes_of(examples: Sequence[Labelled], least: int = 2) -> list[str]:
    """Return all labels, sorted. Raises TextError if there are fewer than `least`."""
    labels = sorted(set().union(*(distinct_labels(example.labels) for example in examples)))
    if not labels:
        raise TextError("there is no label; at least one is needed")
    if len(labels) < least:
        raise TextError(f"all labels are {', '.join(labels)!r}; expected at least two different ones")
    return labels


_FIELDS = ("text", "label")
_MANY = 50  # rows


def _of_record(record: Record, fields: tuple[str, str]) -> Labelled:
    """Return the labelled text in a record. fields: of the text and its label. Raises TextError."""
    text, label = read_field(record.fields, fields[0]), _label(read_field(record.fields, fields[1]))
    for field, value in zip(fields, (text, label), strict=True):
        if not isinstance(value, str) or not value.strip():
            or_number = " or a whole number" if value is label else ""
            raise TextError(f"{field} is {value!r}; expected a string that is not empty{or_number}")
    return Labelled(text, (label.strip(),), record.location)


def _words_of_record(record: Record) -> Labelled:
    """Raises TextError."""
    words, labels = record.fields.get("words"), record.fields.get("labels")
    if not (isinstance(words, list) and isinstance(labels, list)):
        raise TextError("expected words and labels, a list each, such as {'words': [...], 'labels': [...]}")
    if len(words) != len(labels):
        raise TextError(f"there are {len(words)} words and {len(labels)} labels; give one to each")
    if not words:
        raise TextError("there are no words in it; expected one at least")
    labels = [_label(label) for label in labels]
    _check_words(words, labels)
    return Labelled(" ".join(words), tuple(labels), record.location)


def _label(value: Any) -> Any:
    """Return a whole number as its digits, and any other value unchanged."""
    value = as_written(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _header(name: str, fields: tuple[str, str], unnamed: list[str]) -> Header:
    """What the columns of TSV or CSV are called. fields: those of texts and labels. unnamed: gets the place of a first
    row that names no columns.
    """

    def names(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
        if set(fields) <= set(cells):
            return cells, True
        if fields != _FIELDS or len(cells) > 2 or (text_suffix(name) == ".csv" and len(cells) != 2):
            raise TextError(
                f"{place}: there are no columns {fields[0]!r} and {fields[1]!r}, but {', '.join(map(repr, cells))}; "
                "name those of texts and labels with field=... and label_field=..."
            )
        if not _is_header(cells):
            unnamed.append(place)
        return _FIELDS, _is_header(cells)

    return names


def _check_first_row(labelled: Sequence[Labelled], *, is_csv: bool) -> None:
    """Raises TextError where the first row of a table without names seems to have some."""
    first, *others = labelled
    label = first.labels[0]
    if names_column(label, [one.labels[0] for one in others], is_csv):
        header = "text,label" if is_csv else "of text, tab, label"
        shown = f"{first.text}{',' if is_csv else chr(9)}{label}"
        raise TextError(
            f"{first.place}: {shown!r} seems to name columns, since no other row has the label {label!r}; name those "
            f"of texts and labels with field=... and label_field=..., or put a first row {header} before it"
        )


def names_column(first: str, others: Sequence[str], is_csv: bool) -> bool:
    """Return whether the label of a first row seems to be the name of a column. others: the labels of the other rows.

    That of a table without names is a label of other rows, too. TSV has names more rarely than CSV has: there only the
    first label of many may occur once.
    """
    times = Counter(others).values()
    if not times or first in others or is_number(first):
        return False
    is_odd = max(times) > 1 if is_csv else min(times) > 1 and len(others) >= _MANY
    return is_odd or (len(others) > 1 and all(map(is_number, others)))


def _is_header(columns: Sequence[str]) -> bool:
    """Return whether these are column names, as in the files of GLUE."""
    return len(columns) == 2 and columns[1].strip().lower() == "label"


def _word_lines(name: str, encoding: str) -> Iterator[Record]:
    """The lines of each text, with a word and its label each, as one record."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(chain(lines_of(name, encoding), [""]), 1):
        if line.strip() and not (number == 1 and _is_header(line.split("\t"))):
            lines.append((number, line))
        elif lines:
            first, written = lines[0][0], "\n".join(text for _, text in lines)
            yield Record({str(own): text for own, text in lines}, f"{name}, line {first}", first, written)
            lines = []


def _of_lines(record: Record) -> Labelled:
    """Raises TextError."""
    words: list[str] = []
    labels: list[str] = []
    for number, line in record.fields.items():
        word, tab, label = line.rpartition("\t")
        label = label.rstrip()
        try:
            if not tab:
                raise TextError(f"found {line!r}; expected a word, a tab and its label")
            _check_words([word], [label])
        except TextError as error:
            place = f"{record.location.rpartition(' ')[0]} {number}"
            raise bad_record(record._replace(location=place), str(error)) from error
        words.append(word)
        labels.append(label)
    return Labelled(" ".join(words), tuple(labels), record.location)


def _check_words(words: list[Any], labels: list[Any]) -> None:
    """Raise TextError if a word or a label is not a string, is empty, or has white space in it."""
    for kind, values in (("word", words), ("label", labels)):
        bad = next((value for value in values if not isinstance(value, str) or value.split() != [value]), None)
        if bad is not None:
            hint = "; does this file have one label for each text?" if isinstance(bad, str) and bad.split()[1:] else ""
            raise TextError(f"the {kind} is {bad!r}; expected a string without white space, not empty{hint}")


def word_baseline(train: Iterable[Labelled], test: Iterable[Labelled]) -> float:
    """Return the accuracy of giving each word of `test` its most frequent label in `train`.

    A word that does not occur in `train` gets the most frequent label. Ties go to the label that is more frequent
    overall, then to the first in alphabetical order.
    """
    total: Counter[str] = Counter()
    by_word: dict[str, Counter[str]] = {}
    for word, label in _words(train):
        total[label] += 1
        by_word.setdefault(word, Counter())[label] += 1
    order = sorted(total, key=lambda label: (-total[label], label))
    rank = {label: i for i, label in enumerate(order)}
    best = {word: min(counts, key=lambda label: (-counts[label], rank[label])) for word, counts in by_word.items()}
    correct = [best.get(word, order[0]) == label for word, label in _words(test)]
    return sum(correct) / len(correct)


def _words(examples: Iterable[Labelled]) -> Iterator[tuple[str, str]]:
    for example in examples:
        yield from zip(split_words(example.text), example.labels, strict=True)
