"""N-best lists: hypotheses for one input, each with the scores that the recogniser or translator gave it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from chainrule.text.corpus.plain_text import line_blocks
from chainrule.text.corpus.records import Record, bad_record
from chainrule.text.corpus.streams import file_size, open_stream
from chainrule.text.numbers import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chainrule.base.progress import Progress
    from chainrule.errors import TextError

SCORE = "score"  # the name of a hypothesis' only score, if its format has no names


@dataclass(frozen=True)
class NBestList:
    """The hypotheses for one input, in the order of their file, at least one."""

    id: str
    texts: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]  # by name, one for each hypothesis; higher is better; all finite
    place: str  # for messages: "nbest.jsonl, line 7"
    reference: str | None = None
    source: str | None = None  # the text that the hypotheses are written from, for seq2seq models
    priors: tuple[str, ...] = ()  # names of the scores of a weaker language model, which a better one may replace
    kept: tuple[str, ...] = field(default=(), repr=False)  # what else Moses needs to write each hypothesis again
    line: str = field(default="", repr=False)  # the JSON that it was read from
    others: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)  # the other columns of each row of a table

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Line:
    """A line of a file; the first has number 1."""

    text: str
    source: str
    number: int

    @property
    def place(self) -> str:
        return f"{self.source}, line {self.number}"

    def error(self, what: str) -> TextError:
        return bad_record(Record({}, self.place, self.number, self.text), what)


def lines_of(name: str, progress: Progress, task: str = "reading") -> Iterator[Line]:
    """The lines of a file, decompressed as its name says, or of standard input, as they come. Raises TextError."""
    total = file_size(name) or None
    with open_stream(name) as stream:
        for block in line_blocks(stream, "strict", wait=False):
            for number, text in enumerate(block.documents(), block.first):
                yield Line(text, name, number)
            progress(task, stream.position, total)


_LARGEST_SCORE = 1e30  # sums and products of scores stay finite


class Placed(Protocol):
    """What has a place in a file."""

    def error(self, what: str) -> TextError: ...


def finite_score(value: object, line: Placed, what: str) -> float:
    """A finite number from a text. what: the number's name, for the message. Raises TextError."""
    try:
        is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
        number = number_of(str(value)) if is_number else None
    except (ValueError, OverflowError):
        number = None
    if value is None:
        raise line.error(f"{what} is null, which means probability 0; leave the score or the hypothesis out")
    if number is None:
        raise line.error(f"{what} is {_shown(value)}; expected a number")
    if not math.isfinite(number):
        raise line.error(f"{what} is {number}; expected a finite number, so that hypotheses can be compared")
    if abs(number) > _LARGEST_SCORE:
        raise line.error(f"{what} is {number:g}; expected a number up to {_LARGEST_SCORE:g}")
    return number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
