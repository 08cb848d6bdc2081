"""What should have come out for each list: in a text, a line each or keyed by the lists' ids, or in the lists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chainrule.applications.nbest.lists import lines_of
from chainrule.base.progress import silent
from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.applications.nbest.lists import Line, NBestList


def with_own_references(lists: Iterable[NBestList]) -> Iterator[NBestList]:
    """Lists as they are. Raises TextError where some hold their reference, and some do not."""
    has_them = None
    for found in lists:
        if has_them not in (None, found.reference is not None):
            lacks = "has no reference, but those before have one" if has_them else "has one, but those before have none"
            raise TextError(
                f'{found.place}: the list {lacks}; give a "reference" to all or none, or name a file of them'
            )
        has_them = found.reference is not None
        yield found


def with_references(lists: Iterable[NBestList], references: ReferenceFile) -> Iterator[NBestList]:
    """Every list with its reference. Raises TextError where one has none, and where references are left."""
    for found in lists:
        yield replace(found, reference=references.of(found))
    references.finish()


class ReferenceFile:
    """Those of a text, all in memory."""

    def __init__(self, name: str, *, always_keyed: bool) -> None:
        """always_keyed: every line begins with the id of its list; otherwise, that is so where the first one does.

        Raises TextError.
        """
        self._name = name
        self._lines = list(lines_of(name, silent))
        self._next = 0
        self._by_key = self._keyed() if always_keyed else None
        if not self._lines:
            raise TextError(f"{name}: there is no reference in it; expected one for each list")

    def of(self, found: NBestList) -> str:
        """The reference of the next list. Raises TextError where there is none."""
        if not self._next and self._by_key is None and self._first_key() == found.id and not found.id.isdecimal():
            self._by_key = self._keyed()
        self._next += 1
        if self._by_key is not None:
            if found.id not in self._by_key:
                raise TextError(f"{self._name}: has no reference for {found.id}, the list at {found.place}")
            return "".join(self._by_key.pop(found.id).text.split(maxsplit=1)[1:])
        if self._next > len(self._lines):
            raise TextError(
                f"{self._name}: has {len(self._lines):,} lines, but there are more lists: {found.place} has no "
                "reference; expected a line for each list"
            )
        return self._lines[self._next - 1].text

    def finish(self) -> None:
        """Asked after the last list. Raises TextError where references are left."""
        if self._by_key:
            key, line = next(iter(self._by_key.items()))
            raise line.error(f"there is no list with the id {key}; expected references for the lists alone")
        if self._by_key is None and self._next < len(self._lines):
            raise TextError(
                f"{self._name}: has {len(self._lines):,} lines for {self._next:,} lists; expected a line for each list"
            )

    def _first_key(self) -> str:
        return "".join(self._lines[0].text.split(maxsplit=1)[:1])

    def _keyed(self) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for line in self._lines:
            key = "".join(line.text.split(maxsplit=1)[:1])
            if not key:
                continue
            if key in found:
                raise line.error(f"the id {key} stands there for the second time; {found[key].place} has it, too")
            found[key] = line
        return found
