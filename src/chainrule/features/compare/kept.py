"""What networks keep of the models that taught them: the share of a teacher's gain over the same network alone."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.evaluation.measurement import Measurement


class Measured(Protocol):
    """A model in the table, with its figures and the record of its training."""

    @property
    def name(self) -> str: ...
    @property
    def measurement(self) -> Measurement: ...
    @property
    def record(self) -> Mapping[str, Any]: ...


class Kept(NamedTuple):
    """A student, one of its teachers, and the same network without a teacher, if that is in the table, too.

    bits_per_byte: by which the student needs more than its teacher. gain: by which the teacher needs fewer than the
    network alone; None without one.
    """

    student: str
    teacher: str
    alone: str | None
    bits_per_byte: float
    gain: float | None

    @property
    def share(self) -> float | None:
        """The share of the gain that the student has; None where there is none to keep."""
        return None if self.gain is None or self.gain <= 0 else 1 - self.bits_per_byte / self.gain

    def __str__(self) -> str:
        if self.share is None:
            beside = "" if self.gain is None else f", which is no better than {self.alone}"
            return f"{self.student}: {self.bits_per_byte:+.4f} bits per byte beside its teacher {self.teacher}{beside}"
        return (
            f"{self.student}: keeps {self.share:.0%} of the {self.gain:.4f} bits per byte that its teacher "
            f"{self.teacher} gains over {self.alone}, the same network alone"
        )


def kept_of(contenders: Sequence[Measured]) -> list[Kept]:
    """Return a row for each student and each of its teachers in the table, measured on the same text."""
    rows = []
    for student in contenders:
        teachers = {PurePath(name) for name in student.record.get("teacher") or ()}
        same = [one for one in contenders if _is_measured_alike(one, student)]
        for teacher in (one for one in same if PurePath(one.name) in teachers):
            alone = next((one for one in same if _is_alone(one, student)), None)
            bits = teacher.measurement.bits_per_byte
            gain = None if alone is None else alone.measurement.bits_per_byte - bits
            beside = student.measurement.bits_per_byte - bits
            rows.append(Kept(student.name, teacher.name, None if alone is None else alone.name, beside, gain))
    return rows


def _is_measured_alike(one: Measured, other: Measured) -> bool:
    ours, theirs = one.measurement, other.measurement
    return one is not other and ours.text_signature == theirs.text_signature and ours.is_distribution


def _is_alone(one: Measured, student: Measured) -> bool:
    """Return whether a model is the same network, trained without a teacher."""
    names = ("family", "settings")
    return not one.record.get("teacher") and all(
        one.record.get(name) == student.record.get(name) is not None for name in names
    )
