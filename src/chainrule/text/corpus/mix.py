"""Mixes several texts into one, each with its share of the bytes; the result is the same on every machine.

The scarcest text is used whole, and from each other text as many documents as its share needs, drawn at random without
replacement and kept in order. No document is repeated: copies would distort the counts of counts from which n-gram
models estimate discounts. Where the size of the mix is given instead, as for networks (Brown et al. 2020, table 2.2), a
text that is too short for its share is read again and again, and its last time in part.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.files import describe_duplicate
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.bad_records import BadRecords
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.mix_kernels import choose
from chainrule.text.corpus.reading import Reading
from chainrule.text.corpus.splits import exact_shares
from chainrule.text.corpus.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.corpus.splits import Share

TURN_BYTES = 1 << 18  # read from one text before switching to another


@dataclass
class Ingredient:
    """A text of a mix: its size, and after it has been read, how much of it was drawn. Bytes include document ends."""

    source: Source
    share: Fraction
    of_documents: int = 0
    of_bytes: int = 0
    documents: int = 0
    bytes: int = 0

    def measure(self, progress: Progress) -> None:
        self.of_documents = self.of_bytes = 0
        for block in self.source.blocks(progress, "measuring"):
            self.of_bytes += block.text.size
            self.of_documents += block.stops().size

    def draw(self, wanted: int, seed: Sequence[int]) -> Iterator[Block]:
        """Draw documents of `wanted` bytes in total, in their order, TURN_BYTES at a time.

        More than the text has: all of them as often as fits, then some.
        """
        self.documents = self.bytes = 0
        if not self.of_bytes:
            return
        for _ in range(-(-wanted // self.of_bytes) - 1):
            yield from self._draw_once(self.of_bytes, seed)
            wanted -= self.of_bytes
        yield from self._draw_once(wanted, seed)

    def _draw_once(self, wanted: int, seed: Sequence[int]) -> Iterator[Block]:
        """Draw documents as `draw` does, no document twice."""
        # Only the raw stream of a bit generator is the same in all versions of NumPy.
        generator = np.random.PCG64(np.random.SeedSequence(seed))
        left = self.of_bytes
        for block in self.source.blocks():
            stops = block.stops()
            draws = (generator.random_raw(stops.size) >> np.uint64(11)) * 2.0**-53  # in [0, 1)
            chosen = np.empty(stops.size, np.bool_)
            wanted, left = choose(np.diff(stops, prepend=0), draws, wanted, left, chosen)
            if chosen.any():
                for piece in block.select(chosen, stops).pieces(TURN_BYTES):
                    self.documents += piece.stops().size
                    self.bytes += piece.text.size
                    yield piece

    def as_record(self) -> dict[str, Any]:
        sizes = {name: getattr(self, name) for name in ("documents", "of_documents", "bytes", "of_bytes")}
        return {"sources": list(self.source.sources), "share": str(self.share), **sizes}


@dataclass
class Mix:
    """A `Source` made of several, which are read twice: once to measure their sizes, and once to draw documents.

    good:  chainrule.Mix.of({"news.txt": 0.3, "books.txt": 0.7}, seed=1)
    """

    ingredients: Sequence[Ingredient]
    seed: int = 0
    size: int | None = None  # in bytes; None: as much as the scarcest text allows
    bad: BadRecords = field(default_factory=lambda: BadRecords("stop"), repr=False)  # those that were skipped
    _measured: bool = field(default=False, repr=False)

    @classmethod
    def of(
        cls,
        shares: Mapping[str | os.PathLike[str], Share],
        *,
        seed: int = 0,
        size: int | None = None,
        reading: Reading | None = None,
        bad: BadRecords | None = None,
    ) -> Mix:
        """Return a mix of files or folders with the given shares of bytes.

        size: in bytes; texts that are too short for their share of it are repeated. By default, the scarcest text is
        used whole, and no document twice. bad: skipped records are added to these. Raises SettingError if the shares do
        not add up to one, or a file is named twice; TextError, as `Corpus.of`, and for standard input.
        """
        if seed < 0:
            raise SettingError(f"seed is {seed}; expected 0 or more")
        if size is not None and size < 1:
            raise SettingError(f"size is {size}; expected at least one byte")
        exact = exact_shares(shares.values())
        twice = describe_duplicate([os.fspath(source) for source in shares])
        if twice is not None:
            raise SettingError(f"the mix names {twice}; each text has one share")
        bad = BadRecords.of(reading or Reading()) if bad is None else bad
        corpora = [Corpus.of(source, reading, bad) for source in shares]
        if any(STANDARD_INPUT in corpus.sources for corpus in corpora):
            raise TextError("standard input, -, cannot be mixed, since a mix reads its texts twice; name a file")
        parts = [Ingredient(corpus, share) for corpus, share in zip(corpora, exact, strict=True)]
        return cls(parts, seed, size, bad)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(name for part in self.ingredients for name in part.source.sources)

    @property
    def record(self) -> dict[str, Any]:
        records = [part.source.record for part in self.ingredients]
        merged: dict[str, Any] = {
            key: {name: value for record in records for name, value in record.get(key, {}).items()}
            for key in ("data", "reading", "repaired")
        }
        sized = {} if self.size is None else {"size": self.size}
        merged |= {"skipped": self.bad.count} if self.bad.count else {}
        return {**merged, "mix": {"seed": self.seed, **sized, "texts": [part.as_record() for part in self.ingredients]}}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Implement `Source.blocks`. Raises TextError."""
        if not self._measured:
            for part in self.ingredients:
                part.measure(progress)
            self._measured = True
        scarcest = min(part.of_bytes / part.share for part in self.ingredients)
        total = scarcest if self.size is None else self.size
        waiting = [
            (part, part.draw(int(total * part.share), [self.seed, i])) for i, part in enumerate(self.ingredients)
        ]
        while waiting:
            furthest_behind = min(range(len(waiting)), key=lambda i: waiting[i][0].bytes / waiting[i][0].share)
            piece = next(waiting[furthest_behind][1], None)
            if piece is None:
                del waiting[furthest_behind]
                continue
            yield piece
            progress(task, sum(part.bytes for part in self.ingredients), float(total))
