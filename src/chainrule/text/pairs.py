"""Pairs of source and target texts: two parallel files, two columns separated by a tab, or records with two fields.

Knows no tokens, and nothing of languages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus import Corpus, Lines
from chainrule.text.reading import Reading
from chainrule.text.records import json_objects, suggest_fields
from chainrule.text.turns import MESSAGES, pairs_of_turns

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from chainrule.text.block import Block

    File = str | os.PathLike[str]


@dataclass
class Pairs:
    """Pairs of texts, none empty. left_out: the number of pairs with an empty side. record: what they were read from.

    Raises TextError if there are not as many sources as targets.

    good:  Pairs(["ein Hund"], ["a dog"])
    """

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    left_out: int = 0
    record: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, str] = ("the sources", "the targets")  # for messages
    lines: list[int] = field(default_factory=list)  # the line of each pair in its file, if any; for messages

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.targets):
            raise TextError(f"there are {len(self.sources):,} sources, but {len(self.targets):,} targets")

    def __len__(self) -> int:
        return len(self.sources)

    def add(self, source: str, target: str, line: int) -> None:
        """Adds a pair, unless one side is only white space. line: its number in the file, from 1."""
        if source.strip() and target.strip():
            self.sources.append(source)
            self.targets.append(target)
            self.lines.append(line)
        else:
            self.left_out += 1

    def sides(self) -> tuple[Lines, Lines]:
        """The sources and the targets as texts that know the line numbers in the files."""
        numbers = np.array(self.lines, np.int64) if self.lines else None
        source, target = ("standard input" if name == "-" else name for name in self.names)
        return Lines(self.sources, source, numbers), Lines(self.targets, target, numbers)


@dataclass(frozen=True)
class BothSides:
    """A `Source` of both sides: first the source texts, then the target texts."""

    source: Lines
    target: Lines

    @property
    def sources(self) -> tuple[str, ...]:
        return (*self.source.sources, *self.target.sources)

    @property
    def record(self) -> dict[str, Any]:
        return {"data": {**self.source.record["data"], **self.target.record["data"]}}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """As `Source.blocks`. Raises TextError if there are no pairs."""
        yield from self.source.blocks(progress, task)
        yield from self.target.blocks(progress, task)


def parallel(source: Corpus | File, target: Corpus | File, progress: Progress = silent) -> Pairs:
    """Pairs the n-th documents of two texts. Raises TextError, also if one text is longer.

    good:  parallel("train.de", "train.en")
    """
    source, target = (side if isinstance(side, Corpus) else Corpus.of(side) for side in (source, target))
    names = [", ".join(side.sources) for side in (source, target)]
    pairs = Pairs(names=(names[0], names[1]))
    both = zip_longest(_documents(source, progress), _documents(target, silent))
    for number, (first, second) in enumerate(both, 1):
        if first is None or second is None:
            short, long = names if first is None else names[::-1]
            raise TextError(
                f"{short}: ends after line {number - 1:,}, but {long} goes on; expected as many lines in "
                "both: look for a line that is missing or was split in two"
            )
        pairs.add(first, second, number)
    return _finish(pairs, " and ".join(names), {"data": {**source.record["data"], **target.record["data"]}})


def tab_separated(corpus: Corpus, progress: Progress = silent) -> Pairs:
    """Reads lines of a source, a tab and a target. Empty lines count as left out. Raises TextError."""
    name = ", ".join(corpus.sources)
    pairs = Pairs(names=(name, name))
    for block in corpus.blocks(progress, "reading pairs"):
        for number, line in enumerate(block.documents(), 1):
            source, tab, target = line.partition("\t")
            if (line.strip() and not tab) or "\t" in target:
                tabs = "more than one tab" if tab else "no tab"
                raise TextError(f"{block.locate(number)}: there is {tabs}; expected a source, a tab and a target")
            pairs.add(source, target, block.first + number - 1)
    return _finish(pairs, name, {"data": corpus.record["data"]})


def from_records(name: str, source_field: str, target_field: str) -> Pairs:
    """Reads two fields of each object in a file of JSON lines, or conversations, see `turns`. Raises TextError."""
    pairs = Pairs(names=(name, name))
    for number, (place, record) in enumerate(json_objects(name), 1):
        if MESSAGES in record and source_field not in record:
            for source, target in pairs_of_turns(record, place):
                pairs.add(source, target, number)
            continue
        texts = []
        for name_of_field in (source_field, target_field):
            if not isinstance(record.get(name_of_field), str):
                problem = "is not a string" if name_of_field in record else "is missing"
                advice = suggest_fields(record, "source_field=... and target_field=...")
                raise TextError(f"{place}: the field {name_of_field!r} {problem}; {advice}")
            texts.append(" ".join(record[name_of_field].split("\n")))
        pairs.add(texts[0], texts[1], number)
    return _finish(pairs, name, {"data": {}, "read_from": name})


def pairs_of(files: Sequence[str], fields: tuple[str, str], progress: Progress = silent) -> Pairs:
    """Reads pairs from a source and a target file, or from one file: JSON lines with two fields, or two columns.

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


def _finish(pairs: Pairs, name: str, record: dict[str, Any]) -> Pairs:
    if not pairs:
        empty = f": one side of each of the {pairs.left_out:,} is empty" if pairs.left_out else ""
        raise TextError(f"{name}: there are no pairs in it{empty}; expected a source and a target text in each line")
    pairs.record = {**record, "pairs": len(pairs), "left_out": pairs.left_out}
    return pairs
