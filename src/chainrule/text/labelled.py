"""Labelled texts: one label for each text, or for each of its words.

JSON lines    {"text": "a text", "label": "news"}       {"words": ["a", "text"], "labels": ["DET", "NOUN"]}
TSV           text, tab, label                          word, tab, label; an empty line after each text

A label may be a whole number in JSON. A first line of TSV whose label is "label" is a header and no example.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from chainrule.errors import SettingError, TextError
from chainrule.text.plain import line_blocks
from chainrule.text.reading import FORMATS, text_suffix
from chainrule.text.records import as_written, field_of, json_objects, refuse
from chainrule.text.streams import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from chainrule.text.records import OnBad

LabelledUnit = Literal["text", "word"]


class Labelled(NamedTuple):
    """A text with a label for each of its units: itself, or its words, which stand with one space between.

    good:  Labelled("a text", ("news",))
    """

    text: str
    labels: tuple[str, ...]
    place: str = "a labelled text"  # where it was read, for messages


def read_labelled(name: str | os.PathLike[str], unit: LabelledUnit = "text", on_bad: OnBad = refuse) -> list[Labelled]:
    """A file of JSON lines where its name says so, else of TSV: with a label for each text, or each of its words.

    on_bad: gets a TextError with file and line for an example that is left out, since a text, a word or a label is
    missing. Raises TextError if there is no example at all.
    """
    check_unit(unit)
    name = os.fspath(name)
    examples: Iterable[Labelled | TextError]
    if FORMATS.get(text_suffix(name)) == "json":
        examples = (_or_error(_of_record, record, unit, place) for place, record in json_objects(name, on_bad))
    else:
        examples = _tsv_texts(name) if unit == "text" else _tsv_words(name)
    found = []
    for example in examples:
        if isinstance(example, TextError):
            on_bad(example)
        else:
            found.append(example)
    if not found:
        raise TextError(f"{name}: there is no labelled text in it; at least one is needed")
    return found


def check_unit(unit: str) -> None:
    """Raises SettingError."""
    if unit not in get_args(LabelledUnit):
        raise SettingError(f"unit is {unit!r}; expected text, where texts are labelled, or word")


def checked(examples: Iterable[Labelled], unit: LabelledUnit) -> list[Labelled]:
    """Labelled texts that may come from anywhere. Raises TypeError, SettingError, TextError."""
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
            raise TextError(f"{place}: the label {odd[0]!r} is no string of one line that is not empty")
        if unit == "text" and len(labels) != 1:
            raise TextError(f"{place}: a text has one label, and there are {len(labels)}")
    if not examples:
        raise TextError("there are no labelled texts; at least one is needed")
    return examples


def _is_label(label: object) -> bool:
    return isinstance(label, str) and bool(label.strip()) and not set(label) & set("\t\n\r")


def digest_of(examples: Sequence[Labelled]) -> str:
    """The SHA-256 of labelled texts, wherever they were read."""
    return hashlib.sha256(repr([(example.text, example.labels) for example in examples]).encode()).hexdigest()


def classes_of(examples: Sequence[Labelled]) -> list[str]:
    """All labels, sorted. Raises TextError if there is only one."""
    labels = sorted({label for example in examples for label in example.labels})
    if len(labels) < 2:
        raise TextError(f"all labels are {', '.join(labels)!r}; expected two kinds of them at least")
    return labels


def _or_error(make: Callable[..., Labelled], *given: Any) -> Labelled | TextError:
    try:
        return make(*given)
    except TextError as error:
        return error


def _of_record(record: dict[str, Any], unit: LabelledUnit, place: str) -> Labelled:
    """Raises TextError."""
    if unit == "text":
        text, label = field_of(record, "text", place), _label(field_of(record, "label", place))
        for field, value in (("text", text), ("label", label)):
            if not isinstance(value, str) or not value.strip():
                or_number = " or a whole number" if field == "label" else ""
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
    """A whole number as its digits; as it is elsewhere."""
    value = as_written(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _tsv_texts(name: str) -> Iterator[Labelled | TextError]:
    for number, (place, line) in enumerate(_lines(name)):
        if line.strip():
            columns = line.split("\t")
            if number == 0 and _is_header(columns):
                continue
            if len(columns) != 2 or not all(column.strip() for column in columns):
                yield TextError(f"{place}: found {line!r}; expected a text, a tab and its label")
            else:
                yield Labelled(columns[0], (columns[1].strip(),), place)


def _is_header(columns: list[str]) -> bool:
    """Whether these name columns, as in the files of GLUE."""
    return len(columns) == 2 and columns[1].strip().lower() == "label"


def _tsv_words(name: str) -> Iterator[Labelled | TextError]:
    lines: list[tuple[str, str]] = []  # of a text
    for number, (place, line) in enumerate(_lines(name)):
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
    """A text of which each line, told with its place, is a word and its label. Raises TextError."""
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
    """Raises TextError."""
    for kind, values in (("word", words), ("label", labels)):
        bad = next((each for each in values if not isinstance(each, str) or not each or each.split() != [each]), None)
        if bad is not None:
            hint = "; is this a file of one label a text?" if isinstance(bad, str) and len(bad.split()) > 1 else ""
            raise TextError(
                f"{place}: found the {kind} {bad!r}; expected some that are not empty, without white space{hint}"
            )


def _lines(name: str) -> Iterator[tuple[str, str]]:
    """Each line with its place."""
    with opened(name) as stream:
        for block in line_blocks(stream, "strict"):
            for number, line in enumerate(block.documents(), block.first):
                yield f"{name}, line {number}", line
