"""Cutting a text into a part to train on and a part to measure on, the same on every machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.text.block import Block
    from chainrule.text.corpus import Source

RUN = 50  # lines that stay together, so that most held-out lines have no neighbour in the training part
SHARE = 10  # every tenth run is held out


@dataclass(frozen=True)
class Part:
    """Some lines of a text, held in memory. A `Source`, whose blocks know where in the whole text they stand."""

    name: str
    pieces: Sequence[Block]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def record(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for piece in self.pieces:
            digest.update(piece.text.data)
        return {"data": {self.name: digest.hexdigest()}}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        for i, piece in enumerate(self.pieces):
            yield piece
            progress(task, i + 1, len(self.pieces))


def train_and_heldout(source: Source, progress: Progress = silent) -> tuple[Part, Part]:
    """Every tenth run of 50 lines is held out; of a text shorter than 500 lines, every tenth line.

    Raises TextError where there are fewer than ten lines.
    """
    name = ", ".join(source.sources)
    blocks = list(source.blocks(progress))
    lines = sum(int(np.count_nonzero(block.text == block.document_end)) for block in blocks)
    if lines < SHARE:
        raise TextError(
            f"{name}: has {lines} line{'s' * (lines != 1)}; at least {SHARE} are needed to hold some out for "
            "measuring, so give a longer text, or another one to measure on"
        )
    run = RUN if lines >= RUN * SHARE else 1
    train: list[Block] = []
    heldout: list[Block] = []
    line = 0
    for block in blocks:
        stops = np.flatnonzero(block.text == block.document_end) + 1
        is_heldout = (line + np.arange(stops.size)) // run % SHARE == SHARE - 1
        first = start = 0
        for held, group in groupby(is_heldout.tolist()):
            after = first + len(list(group))
            stop = int(stops[after - 1])
            piece = replace(block, text=block.text[start:stop], first=block.first + first)
            (heldout if held else train).append(piece)
            first, start = after, stop
        line += stops.size
    return Part(f"nine tenths of {name}", train), Part(f"one tenth of {name}", heldout)
