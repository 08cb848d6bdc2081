"""Divides a text into parts by share, such as for training and evaluation; the result is the same on every machine.

Shares are exact fractions, so that every machine divides alike. Lines stay together in runs, since neighbouring lines
are alike: figures on a line whose neighbours were in training are too good. Whole files and records are independent of
each other: the content of each decides its part, so that copies are in the same part, and stay there when other
documents are added or reordered.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.files import check_new_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.block import LINE_FEED
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.reading import TEXT_FIELD
from chainrule.text.corpus.writing import check_format, document_file, writes_records

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.corpus.writing import DocumentFile

    Share = float | str | Fraction  # such as 0.3 or "1/3"

# No exponents: a huge one would make a fraction with as many digits.
_WRITTEN = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+|[0-9]+/[0-9]+")
_LONGEST = 40  # characters


def exact_shares(shares: Iterable[Share]) -> tuple[Fraction, ...]:
    """Return the shares as fractions. Raises SettingError if one is not in (0, 1], or if they do not add up to one."""
    shares = tuple(shares)
    fractions = tuple(map(_fraction, shares))
    total = sum(fractions)
    if total != 1:
        written = " + ".join(map(str, shares)) or "nothing"
        amount = f"{float(total):g}"
        if amount == "1":
            amount = f"a little {'more' if total > 1 else 'less'} than 1"
        raise SettingError(f"the shares {written} add up to {amount}, expected 1; a third is 1/3")
    return fractions


def _fraction(share: Share) -> Fraction:
    expected = "expected a number above 0 and at most 1, such as 0.3 or 1/3, without an exponent"
    if isinstance(share, str) and not (len(share) <= _LONGEST and _WRITTEN.fullmatch(share)):
        shown = share if len(share) <= _LONGEST else share[:_LONGEST] + "..."
        raise SettingError(f"a share is {shown!r}, {expected}, in at most {_LONGEST} characters")
    try:
        fraction = Fraction(str(share))
    except (ValueError, ZeroDivisionError) as error:
        raise SettingError(f"a share is {share!r}, {expected}") from error
    if not 0 < fraction <= 1:
        raise SettingError(f"a share is {share}, {expected}")
    return fraction


def turns(shares: Sequence[Fraction]) -> Iterator[int]:
    """Yield an endless schedule: the index of the share whose turn it is.

    After n turns, a share s has had at least n s - 1. Earliest deadline first: a share of 1/10 must have a turn among
    the first ten, and mostly gets the tenth. Ties go to the first share.
    """
    counts = [0] * len(shares)
    while True:
        deadlines = [-(-(counts[i] + 1) * share.denominator // share.numerator) for i, share in enumerate(shares)]
        turn = deadlines.index(min(deadlines))
        counts[turn] += 1
        yield turn


RUN = 50  # lines that stay together; most held-out lines then have no neighbour in the training part
_HELDOUT = (Fraction(9, 10), Fraction(1, 10))


@dataclass(frozen=True)
class Part:
    """Some documents of a text, in memory. A `Source` whose blocks know their location in the whole text."""

    name: str
    pieces: Sequence[Block]
    whole: dict[str, Any]  # the record of the whole text

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def record(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for piece in self.pieces:
            digest.update(piece.text.data)
        return {**self.whole, "data": {self.name: digest.hexdigest()}, "part_of": self.whole["data"]}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        for i, piece in enumerate(self.pieces):
            yield piece
            progress(task, i + 1, len(self.pieces))


def split(source: Source, shares: Mapping[str, Share], progress: Progress = silent) -> dict[str, Part]:
    """Divide a text into named parts, in memory.

    Raises SettingError if the shares do not add up to one, TextError if a part would be empty.

    good:  chainrule.split(chainrule.Corpus.of("a.txt"), {"train": 0.8, "validation": 0.1, "test": 0.1})
    """
    pieces: list[list[Block]] = [[] for _ in shares]
    for part, piece in divide(source, exact_shares(shares.values()), progress):
        pieces[part].append(piece)
    whole = ", ".join(source.sources)
    return {name: Part(f"{name} of {whole}", pieces[part], source.record) for part, name in enumerate(shares)}


def write_split(
    source: Source,
    shares: Mapping[str, Share],
    *,
    overwrite: bool = False,
    progress: Progress = silent,
) -> dict[str, DocumentFile]:
    """Divides a text as `split` does, into files: plain text, a document a line, or whole records, .jsonl, .csv, .tsv
    or .parquet; all but the last may be compressed.

    shares: by the names of the files. Returns for each how many documents and bytes it got. Raises SettingError,
    TextError, OutputError.

    good:  chainrule.write_split(chainrule.Corpus.of("a.txt"), {"train.txt": 0.9, "test.txt.gz": 0.1})
    """
    fractions = exact_shares(shares.values())
    for path in map(Path, shares):
        check_format(path, records=True)
        check_new_file(path, overwrite=overwrite, inputs=source.paths if isinstance(source, Corpus) else ())
    source, field, records = as_records(source, *shares)
    with ExitStack() as stack:
        files = [stack.enter_context(document_file(Path(path), field, records=records)) for path in shares]
        for part, piece in divide(source, fractions, progress, "splitting"):
            files[part].write(piece)
    return dict(zip(shares, files, strict=True))


def as_records(source: Source, *outputs: str | os.PathLike[str]) -> tuple[Source, str, bool]:
    """The source, whose blocks keep the fields of records if an output has room for them; the field of the text; and
    whether there are records.
    """
    if not isinstance(source, Corpus):
        return source, TEXT_FIELD, False
    keeps = any(writes_records(Path(path), records=source.has_records) for path in outputs)
    return source.with_fields() if keeps else source, source.reading.text_field, source.has_records


def train_and_heldout(source: Source, progress: Progress = silent) -> tuple[Part, Part]:
    """Hold out every tenth run of 50 lines, or every tenth line of a text shorter than 500 lines.

    Raises TextError if there are fewer than ten lines.
    """
    pieces: tuple[list[Block], list[Block]] = ([], [])
    for part, piece in divide(source, _HELDOUT, progress):
        pieces[part].append(piece)
    name = ", ".join(source.sources)
    names = f"nine tenths of {name}", f"one tenth of {name}"
    return Part(names[0], pieces[0], source.record), Part(names[1], pieces[1], source.record)


def divide(
    source: Source, shares: Sequence[Fraction], progress: Progress = silent, task: str = "reading"
) -> Iterator[tuple[int, Block]]:
    """Yield all documents of a source, in blocks, each with the index of its part.

    Lines are dealt in runs of 50, or one by one if the text is too short for a run in every part. Whole files and
    records are assigned by their SHA-256. Raises TextError at the end if a part is empty.
    """
    blocks = source.blocks(progress, task)
    needed = RUN * math.ceil(1 / min(shares))  # lines, so that every part gets a run
    first_blocks, lines = _first_lines(blocks, needed)
    runs = _Runs(shares, RUN if lines >= needed else 1)
    thresholds = [math.ceil(edge * (1 << 64)) for edge in accumulate(shares)]
    documents = np.zeros(len(shares), np.int64)
    for block in chain(first_blocks, blocks):
        stops = block.stops()
        is_lines = block.document_end == LINE_FEED
        parts = runs.parts(stops.size) if is_lines else _parts_by_content(block, stops, thresholds)
        for part in range(len(shares)):
            chosen = parts == part
            documents[part] += np.count_nonzero(chosen)
            if chosen.any():
                yield part, block.select(chosen, stops)
    if not documents.all():
        whole, total = ", ".join(source.sources), int(documents.sum())
        raise TextError(
            f"{whole}: has {total} document{'s' * (total != 1)}; at least {math.ceil(1 / min(shares))} are needed "
            f"for a share of {min(shares)}, or more for whole files and records; give a longer text"
        )


def _first_lines(blocks: Iterator[Block], needed: int) -> tuple[list[Block], int]:
    """Return blocks until they have the number of lines needed; and their number of lines."""
    first_blocks = []
    lines = 0
    for block in blocks:
        first_blocks.append(block)
        lines += int(np.count_nonzero(block.text == LINE_FEED)) if block.document_end == LINE_FEED else 0
        if lines >= needed:
            break
    return first_blocks, lines


class _Runs:
    """Deals runs of lines to parts in turns."""

    def __init__(self, shares: Sequence[Fraction], length: int) -> None:
        self._turns, self._length = turns(shares), length
        self._part, self._left = 0, 0  # the part of the current run, and the lines left in it

    def parts(self, lines: int) -> Int64[ndarray, " documents"]:
        """Return the part of each of the next lines."""
        if not self._left:
            self._part, self._left = next(self._turns), self._length
        more = list(islice(self._turns, max(-(-(lines - self._left) // self._length), 0)))
        dealt = np.repeat([self._part, *more], [self._left, *[self._length] * len(more)])
        self._part, self._left = int(dealt[-1]), dealt.size - lines
        return dealt[:lines]


def _parts_by_content(
    block: Block, stops: Int64[ndarray, " documents"], thresholds: list[int]
) -> Int64[ndarray, " documents"]:
    """Return the part of each document, by the first 64 bits of its SHA-256."""
    text = memoryview(block.text.data)
    starts = [0, *stops[:-1].tolist()]
    digests = (hashlib.sha256(text[start : stop - 1]) for start, stop in zip(starts, stops.tolist(), strict=True))
    return np.array([bisect_right(thresholds, int.from_bytes(digest.digest()[:8])) for digest in digests], np.int64)
