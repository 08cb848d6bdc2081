"""Records that cannot be read: the first one stops the reading, or all are skipped, counted and kept."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.options import Options, option
from chainrule.base.tables import count_of
from chainrule.text.corpus.reading import BadRule, RecordOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from chainrule.errors import TextError

_SHOWN = 10  # reasons


class BadRecords:
    """A callback for what is wrong with records: it raises the error or, to skip the record, keeps it.

    At the end of a `with` block, what was kept is written to the file, if there is one.

    good:  with chainrule.BadRecords("skip", "bad.jsonl") as bad:
               labelled = chainrule.read_labelled("reviews.csv", on_bad=bad)
    """

    def __init__(self, rule: BadRule = "skip", out: str | None = None) -> None:
        """Begin with no bad record.

        out: a table of the skipped records, .csv, .tsv, .jsonl or .parquet. Raises SettingError.
        """
        self._options = RecordOptions(bad_records=rule, bad_records_out=out)
        self._errors: dict[str, TextError] = {}  # by their messages, since a file may be read twice

    @classmethod
    def of(cls, options: RecordOptions, default: BadRule = "stop") -> BadRecords:
        """Return the bad records of some options. default: the rule where they have none."""
        return cls(options.bad_records or default, options.bad_records_out)

    def __call__(self, error: TextError) -> None:
        if self.rule == "stop":
            raise error
        self._errors.setdefault(str(error), error)

    @property
    def count(self) -> int:
        """How many records were skipped."""
        return len(self._errors)

    @property
    def rule(self) -> BadRule:
        return self._options.bad_records or "stop"

    @property
    def keeps(self) -> bool:
        """Whether they are written to a file."""
        return self._options.bad_records_out is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.save()

    def save(self) -> None:
        """Writes what was kept to the file, if there is one. Raises OutputError."""
        from chainrule.text.corpus.writing import table_file

        if self._options.bad_records_out is None:
            return
        with table_file(Path(self._options.bad_records_out), lambda: dict.fromkeys(_COLUMNS, "")) as write:
            for row in self.to_records():
                write({name: [value] for name, value in row.items()})

    def to_records(self) -> list[dict[str, Any]]:
        """A row for each skipped record: where it is, what is wrong with it, and the record as it is in its file."""
        rows = []
        for error in self._errors.values():
            place, reason, written = _parts(error)
            rows.append(dict(zip(_COLUMNS, (place, reason, written), strict=True)))
        return rows

    def notes(self) -> Iterator[str]:
        """What is wrong, each reason once; and how many records were skipped, if there are several reasons."""
        places: dict[str, list[str]] = {}
        for row in self.to_records():
            places.setdefault(row["error"], []).append(row["place"])
        for reason, own in list(places.items())[:_SHOWN]:
            others = f" and {count_of(len(own) - 1, 'other record')}" if len(own) > 1 else ""
            yield f"{own[0]}{others}: {reason}".removeprefix(": ")
        if len(places) > 1:
            yield f"{self.count:,} records were skipped"


@dataclass(frozen=True, kw_only=True)
class BadRecordsOption(Options):
    """What becomes of records that cannot be read. The command line has the flags of `RecordOptions` for it."""

    bad_records: BadRule | BadRecords = option(
        "stop", "stop at a record that cannot be read, or skip it; or what collects them", flag=None, reads=BadRule
    )


@contextmanager
def collecting(rule: BadRule | BadRecords, warn: Callable[[str], object]) -> Iterator[BadRecords]:
    """What collects bad records: the given one, or one by the rule, whose notes `warn` gets at the end."""
    if isinstance(rule, BadRecords):
        yield rule
        return
    bad = BadRecords(rule)
    yield bad
    for message in bad.notes():
        warn(message)


_COLUMNS = ("place", "error", "record")


def _parts(error: TextError) -> tuple[str, str, str]:
    """The place of a record, the reason why it cannot be read, and the record; of other errors, the reason alone."""
    record = error.record
    if record is None:
        return "", str(error), ""
    written = record.written or (json.dumps(record.fields, ensure_ascii=False, default=str) if record.fields else "")
    return record.location, str(error).removeprefix(f"{record.location}: "), written
