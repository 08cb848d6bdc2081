"""Pairs of source and target texts, conversations as such pairs, and sources shortened to what a model reads.

Pairs come from two parallel files, two columns separated by a tab, or records with two fields. Knows no tokens, and
nothing of languages. Long sources are cut at one side, or reduced to their most central sentences.

In a conversation, the turns before an answer are its source. A conversation is an object with `messages`, each with
`role` (system, user or assistant) and `content`, as `chainrule chat` saves them. A source has all turns in one line,
each after its role: `user: Hello assistant: Hi`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus.corpus import Corpus, Lines
from chainrule.text.corpus.reading import Reading, suggest_fields
from chainrule.text.corpus.records import Record, bad_record, raise_error, read_items

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.records import OnBad

    File = str | os.PathLike[str]
    Tokens = Int32[ndarray, " T"]

MESSAGES = "messages"
FIELDS = ("source", "target")  # of records, where no others are named
ROLES = ("system", "user", "assistant")


def source_of_turns(turns: Iterable[tuple[str, str]]) -> str:
    """Return roles and texts in one line: the source that a seq2seq model reads for a conversation."""
    return " ".join(f"{role}: {on_one_line(text)}" for role, text in turns)


def pairs_of_turns(record: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Yield the source and the target of each answer in a conversation. Raises TextError, which names the place."""
    messages = record[MESSAGES]
    if not isinstance(messages, list) or not messages:
        raise TextError(f"{place}: {MESSAGES} is not a list of turns; expected objects with role and content")
    turns: list[tuple[str, str]] = []
    for number, message in enumerate(messages, 1):
        match message:
            case {"role": str(role), "content": str(text)} if role in ROLES:
                pass
            case _:
                raise TextError(
                    f"{place}: message {number} is not a turn; expected its role, which is {', '.join(ROLES)}, and its "
                    "content, a text"
                )
        if role == "assistant" and turns:
            yield source_of_turns(turns), on_one_line(text)
        turns.append((role, text))


def on_one_line(text: str) -> str:
    """Return the text with spaces for its line ends."""
    return " ".join(text.splitlines())


@dataclass
class Pairs:
    """Text pairs, none empty. left_out: the number of pairs with an empty side. record: what they were read from.

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
        """Add a pair, unless one side is only white space. line: its number in the file, from 1."""
        if source.strip() and target.strip():
            self.sources.append(source)
            self.targets.append(target)
            self.lines.append(line)
        else:
            self.left_out += 1

    def sides(self) -> tuple[Lines, Lines]:
        """Return the sources and the targets as texts that know the line numbers in the files."""
        numbers = np.array(self.lines, np.int64) if self.lines else None
        source, target = ("standard input" if name == "-" else name for name in self.names)
        return Lines(self.sources, source, numbers), Lines(self.targets, target, numbers)


@dataclass(frozen=True)
class ParallelSource:
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
        """Implement `Source.blocks`. Raises TextError if there are no pairs."""
        yield from self.source.blocks(progress, task)
        yield from self.target.blocks(progress, task)


def parallel(source: Corpus | File, target: Corpus | File, progress: Progress = silent) -> Pairs:
    """Pair the n-th documents of two texts. Raises TextError, also if one text is longer.

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


def tab_separated(
    corpus: Corpus,
    fields: tuple[str, str] = FIELDS,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
    *,
    named: bool = False,
) -> Pairs:
    """Reads lines of a source, a tab and a target; or more columns, if the first line names them. Empty lines count as
    left out. fields: the names of both columns; named: whether the first line must have them. on_bad: gets what is
    wrong with a line, which is left out.

    Raises TextError.
    """
    name = ", ".join(corpus.sources)
    pairs = Pairs(names=(name, name))
    columns, width = (0, 1), 2
    for block in corpus.blocks(progress, "reading pairs"):
        for number, line in enumerate(block.documents(), block.first):
            cells = line.split("\t")
            if number == 1 and set(fields) <= set(cells):
                columns, width = (cells.index(fields[0]), cells.index(fields[1])), len(cells)
            elif number == 1 and named:
                advice = suggest_fields(cells, "source_field=... and target_field=...")
                raise TextError(f"{name}, line 1: no columns are called {' and '.join(map(repr, fields))}; {advice}")
            elif not line.strip():
                pairs.left_out += 1
            elif len(cells) != width:
                found = "no tab" if len(cells) == 1 else f"more than one tab ({len(cells) - 1})"
                expected = "a source, a tab and a target" if width == 2 else f"{width} columns"
                record = Record({}, f"{block.source}, line {number}", number, line)
                on_bad(bad_record(record, f"there is {found}; expected {expected}"))
            else:
                pairs.add(cells[columns[0]], cells[columns[1]], number)
    return _finish(pairs, name, {"data": corpus.record["data"]})


def from_records(name: str, fields: tuple[str, str] = FIELDS, on_bad: OnBad = raise_error) -> Pairs:
    """Reads two fields of each record in a file, or conversations, see `pairs_of_turns`. Raises TextError.

    on_bad: gets what is wrong with a record, which is left out.
    """

    def read(record: Record) -> list[tuple[str, str, int]]:
        if MESSAGES in record.fields and fields[0] not in record.fields and fields == FIELDS:
            return [(*pair, record.number) for pair in pairs_of_turns(record.fields, record.location)]
        texts = []
        for name_of_field in fields:
            text = record.fields.get(name_of_field)
            if not isinstance(text, str):
                problem = "is not a string" if name_of_field in record.fields else "is missing"
                advice = suggest_fields(record.fields, "source_field=... and target_field=...")
                raise TextError(f"the field {name_of_field!r} {problem}; {advice}")
            texts.append(" ".join(text.split("\n")))
        return [(texts[0], texts[1], record.number)]

    pairs = Pairs(names=(name, name))
    for some in read_items(name, read, "pair", on_bad, expected="a source and a target text in each record"):
        for pair in some:
            pairs.add(*pair)
    return _finish(pairs, name, {"data": {}, "read_from": name})


def pairs_of(
    files: Sequence[str],
    fields: tuple[str, str] = FIELDS,
    progress: Progress = silent,
    on_bad: OnBad = raise_error,
    *,
    named: bool = False,
) -> Pairs:
    """Reads pairs from a source and a target file, or from one file: records with two fields, or two columns.

    on_bad: gets what is wrong with a record, which is left out; lines of two files are never left out. named: whether
    tab-separated columns must have names. Raises TextError, SettingError.
    """
    if len(files) == 2:
        return parallel(Corpus.of(files[0]), Corpus.of(files[1]), progress)
    [file] = files
    if Reading().format_of(file) != "plain":
        return from_records(file, fields, on_bad)
    return tab_separated(Corpus.of(file), fields, on_bad, progress, named=named)


def _documents(corpus: Corpus, progress: Progress) -> Iterator[str]:
    for block in corpus.blocks(progress, "reading pairs"):
        yield from block.documents()


def _finish(pairs: Pairs, name: str, record: dict[str, Any]) -> Pairs:
    if not pairs:
        empty = f": one side of each of the {pairs.left_out:,} is empty" if pairs.left_out else ""
        raise TextError(f"{name}: there are no pairs in it{empty}; expected a source and a target text in each line")
    pairs.record = {**record, "pairs": len(pairs), "left_out": pairs.left_out}
    return pairs


_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


class Shortened(NamedTuple):
    """Sources as ids, and how many of them were longer than the model reads."""

    rows: list[Tokens]
    shortened: int


def shorten(
    texts: Sequence[str],
    rows: Sequence[Tokens],
    most: int,
    how: str,
    encode: Callable[[list[str]], list[Tokens]],
) -> Shortened:
    """Return the sources with at most `most` tokens each.

    texts, rows: the same sources as texts and as ids. how: "end" or "front", the side that is cut off; "sentences", to
    keep the most central ones; or "refuse", to leave sources unchanged. encode: a function from texts to ids.
    """
    is_long = [how != "refuse" and len(row) > most for row in rows]
    if not any(is_long):
        return Shortened(list(rows), 0)
    shortened = []
    for text, row, too_long in zip(texts, rows, is_long, strict=True):
        if not too_long:
            shortened.append(row)
        elif how == "front":
            shortened.append(row[len(row) - most :])
        else:
            kept = encode([central_sentences(text, most, encode)])[0] if how == "sentences" else row
            shortened.append(kept[:most])
    return Shortened(shortened, sum(is_long))


def central_sentences(text: str, most: int, encode: Callable[[list[str]], list[Tokens]]) -> str:
    """Return the most central sentences of a text, in their order, with at most `most` tokens in all.

    SumBasic (Nenkova and Vanderwende 2005): the sentence whose tokens have the largest mean probability in the text is
    taken, the probabilities of its tokens are squared, and so on while a sentence fits. Where none does, the text.
    """
    sentences = [sentence for sentence in _BETWEEN_SENTENCES.split(text) if sentence.strip()]
    rows = encode(sentences)
    counts = Counter(token for row in rows for token in row.tolist())
    total = sum(counts.values())
    probabilities = {token: count / total for token, count in counts.items()}
    left, kept = most, set[int]()
    while True:
        open_ones = [i for i, row in enumerate(rows) if i not in kept and 0 < len(row) <= left]
        if not open_ones:
            return " ".join(sentences[i] for i in sorted(kept)) if kept else text
        best = max(open_ones, key=lambda i: float(np.mean([probabilities[token] for token in rows[i].tolist()])))
        kept.add(best)
        left -= len(rows[best])
        for token in set(rows[best].tolist()):
            probabilities[token] **= 2
