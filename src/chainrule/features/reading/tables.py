"""Tables of reading times joined with tables of words, by the key of each word and never by their order."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.records import items_of, raise_error, read_table
from chainrule.text.lookup import looked_up
from chainrule.text.numbers import number_of
from chainrule.text.tokenization.splitters import SEPARATORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.features.reading.options import ReadingTimesOptions
    from chainrule.text.corpus.records import OnBad, Record

    AnyPath = str | os.PathLike[str]

_WORD = re.compile(f"[^{SEPARATORS.decode()}]+")  # as `score --words` separates words: no-break spaces do not
_UNNAMED = re.compile(r"Unnamed: \d+|\.\.\.\d+")  # pandas, readr
BARE = "without their word"  # a count of times
_ORDERED = 4  # columns of a key whose orders are tried


@dataclass(frozen=True)
class JoinedTimes:
    """The words of a text, in order. times: NaN where there is none. groups: those that are held out together."""

    words: list[str]
    keys: list[dict[str, str]]
    stories: Int64[ndarray, " words"]
    groups: Int64[ndarray, " words"]
    times: Float64[ndarray, " words"]
    columns: dict[str, Float64[ndarray, " words"]]  # the surprisals of the table
    counts: dict[str, int]
    story: str  # its column


def join_times(times: AnyPath, text: AnyPath, options: ReadingTimesOptions, on_bad: OnBad = raise_error) -> JoinedTimes:
    """Joins the tables. on_bad: gets what is wrong with a row of times, which is left out.

    Raises TextError with file and row, SettingError where the key names a column twice.
    """
    own = read_table(text, [options.word], has_header=True)
    other = read_table(times, [options.time], on_bad, has_header=True)
    apart = {options.word, options.time}
    shared = [name for name in own[0].fields if name in other[0].fields and name not in apart]
    shared = [name for name in shared if not (_numbers_rows(name, own) and _numbers_rows(name, other))]
    key = list(options.key) or shared
    if not key:
        raise TextError(
            f"{os.fspath(times)}: has no column in common with {os.fspath(text)} that says which word a time belongs "
            f"to; it has {', '.join(other[0].fields)}"
        )
    if twice := next((name for name in key if key.count(name) > 1), None):
        raise SettingError(f"key: names the column {twice!r} twice; name each column of the key once")
    named = [
        *key,
        *options.surprisals,
        *([options.by] if options.by else []),
        *([options.story] if options.story else []),
    ]
    for name in named:
        if name not in own[0].fields:
            other_has = f"; {os.fspath(times)} has it, but this table must" if name in other[0].fields else ""
            raise TextError(f"{os.fspath(text)}: has no column {name!r}; it has {', '.join(own[0].fields)}{other_has}")
    place: dict[tuple[str, ...], int] = {}
    for i, record in enumerate(own):
        entry = _key(record, key)
        if entry in place:
            raise TextError(_same_key(record, own[place[entry]], key, f"a key names one word; {_FINER_KEY}"))
        place[entry] = i
        if not _WORD.fullmatch(record.fields[options.word]):
            raise TextError(f"{record.location}: the word is {record.fields[options.word]!r}; expected one word")
    story = options.story or _story(own, key)
    _check_stories(os.fspath(text), own, key, story)
    stories = _numbers([record.fields[story] for record in own])
    if options.by:
        _check_groups(own, options.by)
    groups = [(record.fields[story], record.fields[options.by or story]) for record in own]
    found = np.full(len(own), math.nan)
    used: dict[tuple[str, ...], Record] = {}
    fallen = 0

    def join(record: Record) -> None:
        nonlocal fallen
        entry = _key(record, key)
        if entry not in place:
            raise TextError(f"{record.location}: the text has no word with the key {_shown(key, entry)}")
        if entry in used:
            advice = f"a word has one time, so average those of several readers first; or {_FINER_KEY}"
            raise TextError(_same_key(record, used[entry], key, advice))
        i = place[entry]
        word = record.fields.get(options.word)
        if word is not None and looked_up(word) != looked_up(own[i].fields[options.word]):
            raise TextError(
                f"{record.location}: the word with the key {_shown(key, entry)} is {word!r}, and in {own[i].location} "
                f"{own[i].fields[options.word]!r}; the two files do not belong together, or a key is wrong"
            )
        time = _number(record, options.time)
        if time <= 0:
            raise TextError(
                f"{record.location}: {options.time} is {time:g}; expected a time above 0: leave out the rows of words "
                "that have none, such as skipped ones, or set bad_records='skip'"
            )
        used[entry] = record
        target = i + options.shift
        if not 0 <= target < len(own) or stories[target] != stories[i]:
            fallen += 1
        else:
            found[target] = math.log(time) if options.log else time

    joined = len(list(items_of(other, join, on_bad)))
    counts = {"times": len(other), f"joined by {' and '.join(key)}": joined}
    counts[f"texts by {story}"] = int(stories[-1]) + 1
    if bare := sum(options.word not in record.fields for record in other):
        counts[BARE] = bare
    if fallen:
        counts["shifted out of their story"] = fallen
    return JoinedTimes(
        [record.fields[options.word] for record in own],
        [{name: record.fields[name] for name in key} for record in own],
        stories,
        _numbers(groups),
        found,
        {name: np.array([_number(record, name, empty=True) for record in own]) for name in options.surprisals},
        counts,
        story,
    )


def _numbers_rows(name: str, records: Sequence[Record]) -> bool:
    """Return whether a column has the row numbers that R and pandas write, whose name is empty or made up."""
    values = [record.fields.get(name) for record in records]
    counted = any(values == [str(i + first) for i in range(len(values))] for first in (0, 1))
    return not name.strip() or bool(_UNNAMED.fullmatch(name)) or (name == "X" and counted)


def _story(records: Sequence[Record], key: Sequence[str]) -> str:
    """Return the column of the key that most likely says which words are one text.

    Of those with a value for all rows of a text, and for no other rows, the one of fewest values; but a column of one
    value, or of another value in each row, only where there is no other. Where there is none, that of fewest values.
    """
    columns = {name: _numbers([record.fields[name] for record in records]) for name in key}
    values = {name: int(numbers.max()) + 1 for name, numbers in columns.items()}
    contiguous = [name for name in key if (np.diff(columns[name]) >= 0).all()]
    groups = [name for name in contiguous if 1 < values[name] < len(records)]
    one = [name for name in contiguous if values[name] == 1]
    return min(groups or one or key, key=values.__getitem__)


def _key(record: Record, key: Sequence[str]) -> tuple[str, ...]:
    """Return the key of a record. Raises TextError."""
    missing = next((name for name in key if name not in record.fields), None)
    if missing is not None:
        raise TextError(f"{record.location}: has no field {missing!r}; there are {', '.join(record.fields)}")
    return tuple(looked_up(record.fields[name]) for name in key)


def _check_stories(text: str, records: Sequence[Record], key: Sequence[str], story: str) -> None:
    """Raise TextError where the rows are not in the order of reading, if this column says which words are one text.

    The error names a column with which they are, if there is one.
    """
    problem = _disorder(text, records, key, story)
    if problem is None:
        return
    what, advice = problem
    groups = {name: len({record.fields[name] for record in records}) for name in records[0].fields}
    for name in key if all(name in groups for name in key) else ():
        if name != story and 1 < groups[name] < len(records) and _disorder(text, records, key, name) is None:
            advice = f"did you mean story={name!r}?"
    raise TextError(f"{what}; {advice}")


def _disorder(text: str, records: Sequence[Record], key: Sequence[str], story: str) -> tuple[str, str] | None:
    """Return what contradicts a column as that of stories, and what to do; None if nothing does."""
    names = [name for name in key if name != story]
    last = _fall(records, names, story)
    if last is not None:
        before, after = (_shown(names, _key(records[i], names)) for i in (last - 1, last))
        return (
            f"{records[last].location}: {after} comes after {before} of the same {story}",
            f"expected the words in the order of reading: sort the rows by {' and '.join(names)}, or name another "
            "story or key",
        )
    if (np.diff(_numbers([record.fields[story] for record in records])) >= 0).all():
        return None
    return (
        f"{text}: the rows of one {story} are not contiguous",
        "sort the rows in the order of reading, or name the column that says which words are one text: --story, one of "
        f"{', '.join(records[0].fields)}",
    )


def _fall(records: Sequence[Record], names: Sequence[str], story: str) -> int | None:
    """Return the first row that is not in the order of its key, if this has whole numbers; None if all are.

    names: the columns of the key but the story. Whichever of them counts most, the numbers must rise in each story.
    """
    if not names or not all(record.fields[name].isdecimal() for record in records for name in names):
        return None
    numbers = [[int(record.fields[name]) for name in names] for record in records]
    falls: list[int] = []
    for order in permutations(range(len(names))) if len(names) <= _ORDERED else ():
        places = [[own[i] for i in order] for own in numbers]
        fall = next(
            (
                i
                for i in range(1, len(records))
                if records[i].fields[story] == records[i - 1].fields[story] and places[i] < places[i - 1]
            ),
            None,
        )
        if fall is None:
            return None
        falls.append(fall)
    return max(falls, default=None)


def _check_groups(records: Sequence[Record], name: str) -> None:
    """Raise TextError where a word is in no group."""
    bare = next((record for record in records if not record.fields[name].strip()), None)
    if bare is not None:
        raise TextError(
            f"{bare.location}: {name} is empty; expected the group of each word (by), of which whole ones are held out"
        )


def _shown(key: Sequence[str], entry: tuple[str, ...]) -> str:
    return ", ".join(
        f"{name} {value}" if value.strip() else f"{name} (empty)" for name, value in zip(key, entry, strict=True)
    )


_FINER_KEY = "where the two are different words, name more columns in key (--key), which both tables must have"


def _same_key(record: Record, earlier: Record, key: Sequence[str], advice: str) -> str:
    """Return the message for a row that has the key of an earlier one."""
    return f"{record.location}: has the same key, {_shown(key, _key(record, key))}, as {earlier.location}; {advice}"


def _number(record: Record, name: str, *, empty: bool = False) -> float:
    """Return the number in a field of a record. Raises TextError. empty: whether nothing, or NA, is NaN."""
    value = record.fields[name]
    if empty and value in ("", "NA"):
        return math.nan
    try:
        number = number_of(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        found = repr(value) if value.strip() else "empty"
        raise TextError(
            f"{record.location}: {name} is {found}; expected a number: leave out the rows of words that have none"
            + ("" if empty else ", or set bad_records='skip'")
        )
    return number


def _numbers(values: Sequence[Any]) -> Int64[ndarray, " n"]:
    """Return a number for each value, by order of appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
