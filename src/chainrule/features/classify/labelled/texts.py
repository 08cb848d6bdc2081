"""Labelled texts: one label for each text, or for each of its words.

JSON lines    {"text": "a text", "label": "news"}       {"words": ["a", "text"], "labels": ["DET", "NOUN"]}
TSV           text, tab, label                          word, tab, label; an empty line after each text
CSV           text,label                                none

In JSON, a label may be a whole number. If the first line of TSV or CSV names the columns of texts and labels, there may
be other columns, too, in any order; if the label on the first line is "label", the line is a header.
The labels of an input's units are a tuple of names, or, for many units, positions in a list of names (UnitLabels).
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, overload

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.csv_table import rows_of
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, UTF_8, check_encoding, text_suffix
from chainrule.text.corpus.records import as_written, json_objects, raise_error, read_field
from chainrule.text.numbers import is_number
from chainrule.text.units import split_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from jaxtyping import Int64, UInt8
    from numpy import ndarray

    from chainrule.text.corpus.records import OnBad


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
    """Read a file of JSON lines (.jsonl), CSV (.csv) or TSV. unit: whether each text or each word has a label.

    on_bad: a callback that gets a TextError with file and line for each example without a text, word or label, which is
    left out. field, label_field: the fields or columns with texts and labels; encoding: that of the file, such as
    latin-1. Raises SettingError; TextError if there is no example.

    good:  read_labelled("reviews.csv", field="review", label_field="stars")
    """
    check_unit(unit)
    check_encoding(encoding)
    name, fields = os.fspath(name), (field, label_field)
    examples: Iterable[Labelled | TextError]
    if unit == "word" and fields != _FIELDS:
        raise SettingError(
            "field and label_field are for texts with one label; labelled words are in the field words, or in the "
            "first column"
        )
    if FORMATS.get(text_suffix(name)) == "json":
        records = json_objects(name, on_bad, encoding=encoding)
        examples = (_or_error(_of_record, record, unit, place, fields) for place, record in records)
    elif unit == "word":
        if text_suffix(name) == ".csv":
            raise TextError(
                f"{name}: words with labels are read from TSV, word, tab, label, or JSON lines; not from CSV"
            )
        examples = _tsv_words(name, encoding)
    else:
        examples = _table_texts(name, fields, encoding)
    labelled = []
    for example in examples:
        if isinstance(example, TextError):
            on_bad(example)
        else:
            labelled.append(example)
    if not labelled:
        raise TextError(f"{name}: there is no labelled text in it; at least one is needed")
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


def _or_error(make: Callable[..., Labelled], *given: Any) -> Labelled | TextError:
    try:
        return make(*given)
    except TextError as error:
        return error


_FIELDS = ("text", "label")
_MANY = 50  # rows


def _of_record(record: dict[str, Any], unit: LabelledUnit, place: str, fields: tuple[str, str] = _FIELDS) -> Labelled:
    """Return the labelled text in a record. fields: of the text and its label. Raises TextError."""
    if unit == "text":
        text, label = read_field(record, fields[0], place), _label(read_field(record, fields[1], place))
        for field, value in zip(fields, (text, label), strict=True):
            if not isinstance(value, str) or not value.strip():
                or_number = " or a whole number" if value is label else ""
                raise TextError(f"{place}: {field} is {value!r}; expected a string that is not empty{or_number}")
        return Labelled(text, (label,), place)
    words, labels = record.get("words"), record.get("labels")
    if not (isinstance(words, list) and isinstance(labels, list)):
        raise TextError(f"{place}: expected words and labels, a list each, such as {{'words': [...], 'labels': [...]}}")
    if len(words) != len(labels):
        raise TextError(f"{place}: there are {len(words)} words and {len(labels)} labels; give one to each")
    if not words:
        raise TextError(f"{place}: there are no words in it; expected one at least")
    labels = [_label(label) for label in labels]
    _check_words(words, labels, place)
    return Labelled(" ".join(words), tuple(labels), place)


def _label(value: Any) -> Any:
    """Return a whole number as its digits, and any other value unchanged."""
    value = as_written(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _table_texts(name: str, fields: tuple[str, str], encoding: str) -> Iterator[Labelled | TextError]:
    """Yield the texts of TSV or CSV. fields: the names of the columns with texts and labels. Raises TextError."""
    is_csv = text_suffix(name) == ".csv"
    between = "a comma" if is_csv else "a tab"
    columns = (0, 1)
    width = 2
    rows = list(_csv_rows(name, encoding) if is_csv else _tsv_rows(name, encoding))
    _check_first_row(rows, fields, is_csv=is_csv)
    for number, (place, shown, cells) in enumerate(rows):
        if number == 0 and set(fields) <= set(cells):
            columns, width = (cells.index(fields[0]), cells.index(fields[1])), len(cells)
        elif number == 0 and (fields != _FIELDS or (is_csv and len(cells) != width)):
            raise TextError(
                f"{place}: there are no columns {fields[0]!r} and {fields[1]!r}, but {', '.join(map(repr, cells))}; "
                "name those of texts and labels with field=... and label_field=..."
            )
        elif number == 0 and _is_header(cells):
            continue
        elif len(cells) != width or not all(cells[column].strip() for column in columns):
            more = "" if width == 2 else f" among {width} columns"
            yield TextError(f"{place}: found {shown!r}; expected a text, {between} and its label{more}")
        else:
            yield Labelled(cells[columns[0]], (cells[columns[1]].strip(),), place)


def _check_first_row(rows: list[tuple[str, str, list[str]]], fields: tuple[str, str], *, is_csv: bool) -> None:
    """Raise TextError where the first row seems to name columns, and not those with texts and labels."""
    (place, shown, cells), *others = rows or [("", "", [])]
    labels = [own[1].strip() for _, _, own in others if len(own) == len(_FIELDS)]
    if len(cells) != len(_FIELDS) or set(fields) <= set(cells) or _is_header(cells) or fields != _FIELDS:
        return
    if names_column(cells[1].strip(), labels, is_csv):
        header = "text,label" if is_csv else "of text, tab, label"
        raise TextError(
            f"{place}: {shown!r} seems to name columns, since no other row has the label {cells[1]!r}; name those of "
            f"texts and labels with field=... and label_field=..., or put a first row {header} before it"
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


def _tsv_rows(name: str, encoding: str) -> Iterator[tuple[str, str, list[str]]]:
    """Return the location, the text and the cells of each line that is not empty."""
    return ((place, line, line.split("\t")) for place, line in _lines(name, encoding) if line.strip())


def _csv_rows(name: str, encoding: str) -> Iterator[tuple[str, str, list[str]]]:
    return ((f"{name}, line {row.line}", ",".join(row.cells), row.cells) for row in rows_of(name, encoding))


def _is_header(columns: list[str]) -> bool:
    """Return whether these are column names, as in the files of GLUE."""
    return len(columns) == 2 and columns[1].strip().lower() == "label"


def _tsv_words(name: str, encoding: str) -> Iterator[Labelled | TextError]:
    lines: list[tuple[str, str]] = []  # of a text
    for number, (place, line) in enumerate(_lines(name, encoding)):
        if number == 0 and _is_header(line.split("\t")):
            continue
        if line.strip():
            lines.append((place, line))
        elif lines:
            yield _or_error(_of_lines, lines)
            lines = []
    if lines:
        yield _or_error(_of_lines, lines)


def _of_lines(lines: list[tuple[str, str]]) -> Labelled:
    """Return a text from lines of a word and its label, each given with its location. Raises TextError."""
    words: list[str] = []
    labels: list[str] = []
    for place, line in lines:
        word, tab, label = line.rpartition("\t")
        label = label.rstrip()
        if not tab:
            raise TextError(f"{place}: found {line!r}; expected a word, a tab and its label")
        _check_words([word], [label], place)
        words.append(word)
        labels.append(label)
    return Labelled(" ".join(words), tuple(labels), lines[0][0])


def _check_words(words: list[Any], labels: list[Any], place: str) -> None:
    """Raise TextError if a word or a label is not a string, is empty, or has white space in it."""
    for kind, values in (("word", words), ("label", labels)):
        bad = next((value for value in values if not isinstance(value, str) or value.split() != [value]), None)
        if bad is not None:
            hint = "; does this file have one label for each text?" if isinstance(bad, str) and bad.split()[1:] else ""
            raise TextError(f"{place}: the {kind} is {bad!r}; expected a string without white space, not empty{hint}")


def _lines(name: str, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its location."""
    for number, line in enumerate(lines_of(name, encoding), 1):
        yield f"{name}, line {number}", line


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
