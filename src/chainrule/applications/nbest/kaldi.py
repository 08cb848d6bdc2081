"""N-best lists of Kaldi and ESPnet: text files of `key words`, and score files of `key number`.

An ESPnet folder has folders 1best_recog, 2best_recog, ..., each with `text` and `score` (also written tensor(-3.1));
all keys occur in the first. A Kaldi text has one hypothesis on each line, with the keys `utterance-1`, `utterance-2`,
..., as nbest-to-linear writes them; its scores, or costs, are in files of their own with the same keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.applications.nbest.lists import SCORE, Line, NBestList, finite_score, lines_of
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAME = re.compile(r"\w+")
_NUMBERED = re.compile(r"(.+)-([0-9]+)")
_BEST = re.compile(r"([0-9]+)best_recog")
_TENSOR = re.compile(r"tensor\((.+)\)")


@dataclass(frozen=True)
class ScoreFiles:
    """The score files of a Kaldi text, by the name of the score; lower costs are better."""

    scores: Mapping[str, str]
    costs: Mapping[str, str]

    def __post_init__(self) -> None:
        """Raises SettingError if a name cannot be the name of a file."""
        for name in (*self.scores, *self.costs):
            if not _NAME.fullmatch(name) or name == "text":
                raise SettingError(f"a score cannot be named {name!r}; expected letters and digits, such as acoustic")
        if both := sorted(self.scores.keys() & self.costs.keys()):
            raise SettingError(f"{both[0]} is given both as a score and as a cost; give it once")


def read_kaldi_lists(name: str, files: ScoreFiles, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of a text and its score files. Raises TextError with file and line."""
    if not files.scores and not files.costs:
        raise TextError(f"{name}: has no scores; give the files that hold them as scores or costs")
    signs = [*((score, 1.0) for score in files.scores), *((cost, -1.0) for cost in files.costs)]
    others = [_keyed(path, silent) for path in (*files.scores.values(), *files.costs.values())]
    names = [name, *files.scores.values(), *files.costs.values()]
    rows = (_checked(row, names) for row in zip_longest(_keyed(name, progress), *others))
    seen: set[str] = set()
    for utterance, group in groupby(rows, lambda row: _utterance(row[0])):
        hypotheses = list(group)
        first = hypotheses[0][0]
        if utterance in seen:
            raise first.line.error(f"{utterance} occurs again after others; expected its hypotheses together")
        seen.add(utterance)
        scores = {
            score: tuple(sign * _score(row[i], score) for row in hypotheses) for i, (score, sign) in enumerate(signs, 1)
        }
        yield NBestList(utterance, tuple(row[0].rest for row in hypotheses), scores, first.line.place)


def espnet_folders(name: str) -> list[Path]:
    """The folders of hypotheses in an ESPnet folder, the best first; none if it is not an ESPnet folder."""
    ranked = [(int(match[1]), path) for path in Path(name).iterdir() if (match := _BEST.fullmatch(path.name))]
    return [path for _, path in sorted(ranked)]


def read_espnet_lists(name: str, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of an ESPnet folder, which may differ in length. Raises TextError with file and line."""
    readers: list[_Ahead] = []
    for folder in espnet_folders(name):
        names = [str(folder / "text"), str(folder / "score")]
        own_progress = silent if readers else progress
        rows = zip_longest(_keyed(names[0], own_progress), _keyed(names[1], silent))
        readers.append(_Ahead(_checked(row, names) for row in rows))
    for best in readers[0].rest():
        text = best[0]
        rows_of_one = [best, *(row for reader in readers[1:] if (row := reader.next_if(text.key)) is not None)]
        scores = tuple(_score(row[1], SCORE) for row in rows_of_one)
        yield NBestList(text.key, tuple(row[0].rest for row in rows_of_one), {SCORE: scores}, text.line.place)
    for reader in readers[1:]:
        if reader.row is not None:
            text = reader.row[0]
            raise text.line.error(
                f"{text.key} is not in {name}/1best_recog/text, or not in this order; expected the same order"
            )


@dataclass(frozen=True)
class _Keyed:
    key: str
    rest: str
    line: Line


class _Ahead:
    """An iterator over rows that shows the next one."""

    def __init__(self, rows: Iterator[tuple[_Keyed, ...]]) -> None:
        self._rows = rows
        self.row = next(rows, None)

    def next_if(self, key: str) -> tuple[_Keyed, ...] | None:
        """Consumes the next row if it has this key."""
        row = self.row
        if row is None or row[0].key != key:
            return None
        self.row = next(self._rows, None)
        return row

    def rest(self) -> Iterator[tuple[_Keyed, ...]]:
        while self.row is not None:
            row, self.row = self.row, next(self._rows, None)
            yield row


def _keyed(name: str, progress: Progress) -> Iterator[_Keyed]:
    for line in lines_of(name, progress):
        if line.text.strip():
            key, *rest = line.text.split(maxsplit=1)
            yield _Keyed(key, rest[0].rstrip() if rest else "", line)


def _checked(row: Sequence[_Keyed | None], names: Sequence[str]) -> tuple[_Keyed, ...]:
    """A line of each file; they must have the same key. Raises TextError."""
    present = [entry for entry in row if entry is not None]
    first = present[0]
    for entry, name in zip(row, names, strict=True):
        if entry is None:
            raise TextError(f"{name}: ends before {first.key}, which {first.line.place} has")
        if entry.key != first.key:
            raise entry.line.error(f"the key is {entry.key}, but {first.line.place} has {first.key}; keys must agree")
    return tuple(present)


def _utterance(text: _Keyed) -> str:
    match = _NUMBERED.fullmatch(text.key)
    if match is None:
        raise text.line.error(f"the key is {text.key}; expected an utterance and the number of a hypothesis: utt1-1")
    return match[1]


def _score(score: _Keyed, name: str) -> float:
    match = _TENSOR.fullmatch(score.rest)
    return finite_score(match[1] if match else score.rest, score.line, f"the {name} of {score.key}")
