"""The references and the sources of lists: in a text, line by line or keyed by the lists' ids, or in the lists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from chainrule.applications.nbest.lists import lines_of
from chainrule.base.progress import silent
from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.applications.nbest.lists import Line, NBestList


def with_own_references(lists: Iterable[NBestList]) -> Iterator[NBestList]:
    """The lists, unchanged. Raises TextError if only some of them have a reference."""
    has_them = None
    for nbest in lists:
        if has_them not in (None, nbest.reference is not None):
            lacks = "has no reference, but those before have one" if has_them else "has one, but those before have none"
            raise TextError(
                f'{nbest.place}: the list {lacks}; give all lists a "reference" or none, or name a file of references'
            )
        has_them = nbest.reference is not None
        yield nbest


def with_references(lists: Iterable[NBestList], references: ReferenceFile) -> Iterator[NBestList]:
    """The lists with their references. Raises TextError if a list has none, or references are left over."""
    for nbest in lists:
        yield replace(nbest, reference=references.of(nbest))
    references.finish()


def with_sources(lists: Iterable[NBestList], sources: ReferenceFile) -> Iterator[NBestList]:
    """The lists with their sources. Raises as `with_references`."""
    for nbest in lists:
        yield replace(nbest, source=sources.of(nbest))
    sources.finish()


class ReferenceFile:
    """The references, or the sources, of a text, all in memory."""

    def __init__(self, name: str, *, always_keyed: bool, what: Literal["reference", "source"] = "reference") -> None:
        """always_keyed: every line begins with the id of its list; otherwise, only if the first line does.

        what: each line is, for messages. Raises TextError.
        """
        self._name, self._what = name, what
        self._lines = list(lines_of(name, silent))
        self._next = 0
        self._by_key = self._keyed() if always_keyed else None
        if not self._lines:
            raise TextError(f"{name}: has no {what}; expected one for each list")

    def of(self, nbest: NBestList) -> str:
        """The reference or source of the next list. Raises TextError if there is none."""
        if not self._next and self._by_key is None and self._first_key() == nbest.id and not nbest.id.isdecimal():
            self._by_key = self._keyed()
        self._next += 1
        if self._by_key is not None:
            if nbest.id not in self._by_key:
                raise TextError(f"{self._name}: has no {self._what} for {nbest.id}, the list at {nbest.place}")
            return "".join(self._by_key.pop(nbest.id).text.split(maxsplit=1)[1:])
        if self._next > len(self._lines):
            raise TextError(
                f"{self._name}: has {len(self._lines):,} lines, but there are more lists: {nbest.place} has no "
                f"{self._what}; expected a line for each list"
            )
        return self._lines[self._next - 1].text

    def finish(self) -> None:
        """To be called after the last list. Raises TextError if lines are left over."""
        if self._by_key:
            key, line = next(iter(self._by_key.items()))
            raise line.error(f"no list has the id {key}; expected {self._what}s of the lists alone")
        if self._by_key is None and self._next < len(self._lines):
            raise TextError(
                f"{self._name}: has {len(self._lines):,} lines for {self._next:,} lists; expected a line for each list"
            )

    def _first_key(self) -> str:
        return "".join(self._lines[0].text.split(maxsplit=1)[:1])

    def _keyed(self) -> dict[str, Line]:
        by_key: dict[str, Line] = {}
        for line in self._lines:
            key = "".join(line.text.split(maxsplit=1)[:1])
            if not key:
                continue
            if key in by_key:
                raise line.error(f"the id {key} occurs twice; {by_key[key].place} has it, too")
            by_key[key] = line
        return by_key
