"""Pairs of texts, one given the other: two files line by line, columns with a tab between, or records with two fields.

Knows no tokens, and nothing of languages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from chainrule.errors import TextError
from chainrule.progress import Progress, silent
from chainrule.text.corpus import Corpus
from chainrule.text.reading import Reading
from chainrule.text.records import json_objects, named_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class Pairs:
    """sources, targets: as many, none of them empty. left_out: pairs of which one side was. record: where from."""

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    left_out: int = 0
    record: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)

    def add(self, source: str, target: str) -> None:
        """Leaves a pair out where one side has nothing but white space."""
        if source.strip() and target.strip():
            self.sources.append(source)
            self.targets.append(target)
        else:
            self.left_out += 1


def parallel(source: Corpus, target: Corpus, progress: Progress = silent) -> Pairs:
    """The n-th document of one text with the n-th of the other. Raises TextError, also where one has more."""
    pairs = Pairs()
    names = [", ".join(each.sources) for each in (source, target)]
    both = zip_longest(_documents(source, progress), _documents(target, silent))
    for number, (first, second) in enumerate(both, 1):
        if first is None or second is None:
            short, long = names if first is None else names[::-1]
            raise TextError(
                f"{short}: ends after line {number - 1:,}, but {long} goes on; expected as many lines in "
                "both: look for a line that is missing or was broken in two"
            )
        pairs.add(first, second)
    return _checked(pairs, " and ".join(names), {"data": {**source.record["data"], **target.record["data"]}})


def tab_separated(corpus: Corpus, progress: Progress = silent) -> Pairs:
    """A source, a tab and a target a line. Raises TextError."""
    pairs = Pairs()
    for block in corpus.blocks(progress, "reading pairs"):
        for number, line in enumerate(block.documents(), 1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise TextError(
                    f"{block.place(number)}: there are {len(columns)} columns; expected two, a source and a target, "
                    "with one tab between"
                )
            pairs.add(*columns)
    return _checked(pairs, ", ".join(corpus.sources), {"data": corpus.record["data"]})


def from_records(name: str, source_field: str, target_field: str) -> Pairs:
    """Two fields of each object of a file of JSON lines. Raises TextError."""
    pairs = Pairs()
    for place, record in json_objects(name):
        texts = []
        for each in (source_field, target_field):
            if not isinstance(record.get(each), str):
                found = "is no text" if each in record else "is missing"
                raise TextError(f"{place}: the field {each!r} {found}; {named_fields(record)}")
            texts.append(" ".join(record[each].split("\n")))
        pairs.add(*texts)
    return _checked(pairs, name, {"data": {}, "read_from": name})


def pairs_of(files: Sequence[str], fields: tuple[str, str], progress: Progress = silent) -> Pairs:
    """Of a source and a target file, or of one with both: JSON lines with these fields, or two columns.

    Raises TextError, SettingError.
    """
    if len(files) == 2:
        return parallel(Corpus.of(files[0]), Corpus.of(files[1]), progress)
    [file] = files
    if Reading().format_of(file) == "json":
        return from_records(file, *fields)
    return tab_separated(Corpus.of(file), progress)


def _documents(corpus: Corpus, progress: Progress) -> Iterator[str]:
    for block in corpus.blocks(progress, "reading pairs"):
        yield from block.documents()


def _checked(pairs: Pairs, name: str, record: dict[str, Any]) -> Pairs:
    if not pairs:
        empty = f": one side of each of the {pairs.left_out:,} is empty" if pairs.left_out else ""
        raise TextError(f"{name}: there are no pairs in it{empty}; expected a source and a target text in each line")
    pairs.record = {**record, "pairs": len(pairs), "left_out": pairs.left_out}
    return pairs
