"""N-best lists as Moses writes them: `id ||| text ||| features ||| score`, the lines of one id together.

The score is the hypothesis' own. The features, and the fields after the score, are kept for writing.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO

from chainrule.applications.nbest.lists import SCORE, Line, NBestList, finite_score, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chainrule.base.progress import Progress

_BETWEEN = "|||"


def read_moses_lists(name: str, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of a file. Raises TextError with file and line."""
    seen: set[str] = set()
    fields = (_fields(line) for line in lines_of(name, progress) if line.text.strip())
    for key, group in groupby(fields, lambda pair: pair[1][0]):
        rows = list(group)
        first = rows[0][0]
        if key in seen:
            raise first.error(f"the list {key} occurs again after others; expected all lines of an id together")
        seen.add(key)
        totals = tuple(finite_score(row[3], line, "the score") for line, row in rows)
        kept = tuple(_BETWEEN.join([row[2], *row[4:]]) for _, row in rows)
        yield NBestList(key, tuple(row[1] for _, row in rows), {SCORE: totals}, first.place, kept=kept)


def write_moses_list(
    file: BinaryIO, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]
) -> None:
    """Writes one list: its old score becomes the feature `score=`, and the last of the scores the new one."""
    *features, total = scores
    for i in order:
        before, *after = nbest.kept[i].split(_BETWEEN) if nbest.kept else [""]
        added = " ".join(f"{name}= {scores[name][i]:.6g}" for name in features)
        fields = [nbest.id, nbest.texts[i], f"{before} {added}".strip(), f"{scores[total][i]:.6g}", *after]
        file.write((f" {_BETWEEN} ".join(fields) + "\n").encode())


def _fields(line: Line) -> tuple[Line, list[str]]:
    fields = [field.strip() for field in line.text.split(_BETWEEN)]
    if len(fields) < 4:
        raise line.error(f"has {len(fields)} of the fields id ||| text ||| features ||| score; expected all four")
    if not fields[0] or any(character.isspace() for character in fields[0]):
        raise line.error(f"the id is {fields[0]!r}; expected a text without white space")
    return line, fields
