"""Beams as callers see them, and what is done with a few of them: merging equal ones, ranking, pruning by history.

`search.py` does the same for each frame in compiled code.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Frames = tuple[int, int]  # the first frame of a word, and the one after its last
NO_FRAMES: Frames = (-1, -1)


@dataclass(frozen=True)
class Beam:
    """What one hypothesis has so far. next_word: a whole word that is not in `text` yet. last_char: "" is the blank."""

    text: str
    next_word: str
    partial_word: str
    last_char: str | None
    text_frames: list[Frames]
    partial_frames: Frames
    logit_score: float

    @classmethod
    def from_lm_beam(cls, beam: LMBeam) -> Beam:
        """Return the beam without its score by the language model."""
        return cls(**{each.name: getattr(beam, each.name) for each in fields(cls)})

    @property
    def whole_text(self) -> str:
        """The text with the next word."""
        return " ".join(part for part in (self.text, self.next_word) if part)


@dataclass(frozen=True)
class LMBeam(Beam):
    """A beam with its score: log P of its labels, and what the language model and hotwords give."""

    lm_score: float


@dataclass(frozen=True)
class OutputBeam:
    """A text with the frames of its words. last_lm_state: the language model's after its last word, to go on from.

    logit_score: log P of its labels, in nats. lm_score: that plus what the language model and hotwords give.
    """

    text: str
    last_lm_state: Any
    text_frames: list[tuple[str, Frames]]
    logit_score: float
    lm_score: float
    in_batch: bool = field(default=False, repr=False, compare=False)

    @property
    def _values(self) -> tuple[Any, ...]:
        """The beam as a tuple, as version 0.5 of pyctcdecode had it; those of batches have no state."""
        states = () if self.in_batch else (self.last_lm_state,)
        return self.text, *states, self.text_frames, self.logit_score, self.lm_score

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, place: Any) -> Any:
        return self._values[place]

    def __len__(self) -> int:
        return len(self._values)

    def get_mp_safe_beam(self) -> OutputBeam:
        """Return the same beam with a state that can be sent to another process, or without one."""
        state = self.last_lm_state
        return replace(self, last_lm_state=None if state is None else state.get_mp_safe_state(), in_batch=True)


START = Beam("", "", "", None, [], NO_FRAMES, 0.0)


def sum_log_scores(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    high, low = (one, other) if one >= other else (other, one)
    return high + math.log(1 + math.exp(low - high))


def merge_beams(beams: Iterable[Beam]) -> list[Beam]:
    """Add up the probabilities of beams with the same text, unfinished word and label; the last one's frames stay."""
    merged: dict[tuple[str, str, str | None], Beam] = {}
    for beam in beams:
        key = beam.whole_text, beam.partial_word, beam.last_char
        first = merged.get(key)
        total = beam.logit_score if first is None else sum_log_scores(first.logit_score, beam.logit_score)
        merged[key] = replace(beam, logit_score=total)
    return list(merged.values())


def sort_and_trim_beams(beams: Iterable[LMBeam], beam_width: int) -> list[LMBeam]:
    """Return the best beams, best first; of equal ones, the first."""
    return heapq.nlargest(beam_width, beams, key=lambda beam: beam.lm_score)


def prune_history(beams: Iterable[LMBeam], lm_order: int) -> list[Beam]:
    """Return the first of the beams that a model of this order cannot tell apart any more, without their scores
    by it.
    """
    kept: dict[tuple[tuple[str, ...], str, str | None], Beam] = {}
    for beam in beams:
        history = tuple(beam.text.split()[-max(1, lm_order - 1) :])
        kept.setdefault((history, beam.partial_word, beam.last_char), Beam.from_lm_beam(beam))
    return list(kept.values())


def normalize_whitespace(text: str) -> str:
    """Return the words of a text, with single spaces between them."""
    return " ".join(text.split())
