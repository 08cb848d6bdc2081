"""Files of labelled pairs of texts or trees.

TSV, CSV      first, tab, second, tab, label; or with column names in the first line
JSON lines    {"first": "a text", "second": "another", "label": 4.5}

A tree is written in brackets; in JSON, also as an object of words and parents. Column names and fields may be those of
SICK, SNLI, STS and GLUE: see FIRST, SECOND, LABEL and RATING.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chainrule.errors import TextError
from chainrule.structures.tree_files import tree_of_record, trees_in_brackets
from chainrule.text.corpus.csv_table import rows_of
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.records import as_written, json_objects, raise_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chainrule.structures.tree import Tree
    from chainrule.text.corpus.records import OnBad

    Side = str | Tree

Sides = Literal["text", "tree"]
# What the columns of files are called; of those that a file has, the first is read. Labels, then ratings.
FIRST = ("first", "sentence_A", "sentence1", "premise")
SECOND = ("second", "sentence_B", "sentence2", "hypothesis")
LABEL = ("label", "gold_label", "entailment_judgment")
RATING = ("rating", "relatedness_score", "score", "label")


class Pair(NamedTuple):
    """Two texts, or two trees."""

    first: Side
    second: Side


class LabelledPair(NamedTuple):
    """A pair with its label, or with a rating, as written.

    good:  LabelledPair(Pair("a dog runs", "a dog sleeps"), ("3.3",))
    """

    input: Pair
    labels: tuple[str, ...]
    place: str = "a labelled pair"  # file and line, for messages


def read_labelled_pairs(
    name: str | os.PathLike[str], sides: Sides = "text", *, ratings: bool = False, on_bad: OnBad = raise_error
) -> list[LabelledPair]:
    """The labelled pairs of a file. sides: whether sides are texts or trees. ratings: whether to read the rating, if a
    pair has both label and rating.

    on_bad: a callback that gets a TextError with file and line for each pair that cannot be read, which is left out.
    Raises TextError where there is no pair.

    good:  chainrule.read_labelled_pairs("SICK.txt", ratings=True)
    """
    name = os.fspath(name)
    pairs = list(_pairs(name, sides, RATING if ratings else LABEL, on_bad))
    if not pairs:
        raise TextError(f"{name}: there is no labelled pair in it; at least one is needed")
    return pairs


def read_unlabelled_pairs(name: str | os.PathLike[str], sides: Sides = "text") -> list[Pair]:
    """The pairs of a file, whether they have labels or not. Raises TextError, also where there is none."""
    name = os.fspath(name)
    pairs = [pair.input for pair in _pairs(name, sides, None, raise_error)]
    if not pairs:
        raise TextError(f"{name}: there is no pair in it; at least one is needed")
    return pairs


def check_pairs(examples: Iterable[Any], side: type) -> list[LabelledPair]:
    """Checks labelled pairs given from Python. Raises TypeError, TextError."""
    examples = list(examples)
    for example in examples:
        is_pair = isinstance(example, LabelledPair) and isinstance(example.labels, tuple) and len(example.labels) == 1
        if not is_pair or not all(isinstance(own, side) for own in example.input):
            raise TypeError(f"this takes labelled pairs, each a LabelledPair with one label; found {example!r}")
    if not examples:
        raise TextError("there are no labelled pairs; at least one is needed")
    return examples


def _pairs(name: str, sides: Sides, labels: Sequence[str] | None, on_bad: OnBad) -> Iterator[LabelledPair]:
    """labels: possible names of the column of labels; None where labels are not read."""
    side = _SIDES[sides]
    is_json = FORMATS.get(text_suffix(name)) == "json"
    for place, record in json_objects(name, on_bad) if is_json else _rows(name, labels, on_bad):
        try:
            pair = Pair(side(_field(record, FIRST, place), place), side(_field(record, SECOND, place), place))
            yield LabelledPair(pair, () if labels is None else (_label(_field(record, labels, place), place),), place)
        except TextError as error:
            on_bad(error)


def _text(value: Any, place: str) -> str:
    """A text as it is. Raises TextError."""
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{place}: a side of the pair is {value!r}; expected a text that is not empty")
    return value


def _tree(value: Any, place: str) -> Tree:
    """A tree in brackets, or as an object of words and parents. Raises TextError."""
    if isinstance(value, dict):
        return tree_of_record(value, "unlabelled", place)
    trees = list(trees_in_brackets([value], place)) if isinstance(value, str) else []
    for tree in trees:
        if isinstance(tree, TextError):
            raise tree
        if len(trees) == 1:
            return tree.tree
    raise TextError(f"{place}: a side of the pair is {str(value)[:60]!r}; expected one tree, in brackets")


# (as written, place) -> a side of a pair. They raise TextError.
_SIDES: dict[Sides, Callable[[Any, str], Side]] = {"text": _text, "tree": _tree}


def _rows(name: str, labels: Sequence[str] | None, on_bad: OnBad) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of TSV or CSV, by the names of columns, with their places."""
    header: list[str] | None = None
    is_csv = text_suffix(name) == ".csv"
    rows = ((row.line, row.cells) for row in rows_of(name)) if is_csv else _tsv_rows(name)
    for number, columns in rows:
        if header is None:
            is_header = not {*FIRST}.isdisjoint(columns) and not {*SECOND}.isdisjoint(columns)
            header = columns if is_header else [FIRST[0], SECOND[0], *([] if labels is None else [labels[0]])]
            if is_header:
                continue
        if len(columns) < len(header):
            on_bad(
                TextError(
                    f"{name}, line {number}: found {len(columns)} columns; expected {len(header)}, "
                    f"{', '.join(header)}, with {'commas' if is_csv else 'tabs'} between"
                )
            )
            continue
        yield f"{name}, line {number}", dict(zip(header, columns, strict=False))


def _tsv_rows(name: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that is not empty."""
    return ((number, line.split("\t")) for number, line in enumerate(lines_of(name), 1) if line.strip())


def _field(record: dict[str, Any], names: Sequence[str], place: str) -> Any:
    """Raises TextError where no field has one of these names."""
    name = next((name for name in names if name in record), None)
    if name is None:
        raise TextError(f"{place}: there is no {names[0]}; expected a field or column of the name {' or '.join(names)}")
    return record[name]


def _label(value: Any, place: str) -> str:
    value = as_written(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{place}: the label is {value!r}; expected a string that is not empty, or a number")
    return value.strip()
