"""N-best lists in the three formats of SRILM (its manual page nbest-format): a folder with one file for each list.

    NBestList1.0    (score) word word ...                        one score in bytelogs, acoustics and language model
    NBestList2.0    (score) word ( st: 1 et: 2 g: 3 a: 4 ) ...   the same with times and scores of each word
    neither         acoustic language words word word ...        log10, log10, and the number of words

A bytelog is a logarithm to the base 1.0001, divided by 1024. All are converted to nats.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from chainrule.applications.nbest.lists import SCORE, Line, NBestList, finite_score, lines_of
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus.reading import COMPRESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST, SECOND = "NBestList1.0", "NBestList2.0"
ACOUSTIC, LANGUAGE = "acoustic", "language"
BYTELOG = 1024 * math.log(1.0001)  # nats
_LOG10 = math.log(10)
_SCORED = re.compile(r"\(\s*([^()\s]+)\s*\)(.*)")
_DETAILS = re.compile(r"\([^()]*\)")
_NOT_WORDS = {"<s>", "</s>", "-pau-"}


def read_srilm_folder(name: str, progress: Progress) -> Iterator[NBestList]:
    """The lists in a folder's files, in the order of their names; their ids are the names without suffixes."""
    paths = sorted(path for path in Path(name).iterdir() if path.is_file() and not path.name.startswith("."))
    if not paths:
        raise TextError(f"{name}: the folder has no file; expected one file for each n-best list")
    names: dict[str, Path] = {}
    for i, path in enumerate(paths, 1):
        nbest = read_srilm_list(str(path), silent)
        other = names.setdefault(nbest.id, path)
        if other != path:
            raise TextError(f"{path}: has the same id, {nbest.id}, as {other}; keep one of them")
        yield nbest
        progress("reading", i, len(paths))


def read_srilm_list(name: str, progress: Progress) -> NBestList:
    """The list in a file. Raises TextError with file and line."""
    lines = [line for line in lines_of(name, progress) if line.text.strip()]
    kind = lines[0].text.strip() if lines else ""
    is_bytelog = kind in (FIRST, SECOND)
    lines = lines[is_bytelog:]
    if not lines:
        raise TextError(f"{name}: the list has no hypothesis; remove the file, or give it one")
    rows = [_bytelog_row(line) if is_bytelog else _log10_row(line) for line in lines]
    scores = {score: tuple(row[1][score] for row in rows) for score in rows[0][1]}
    return NBestList(_srilm_id(name), tuple(row[0] for row in rows), scores, name)


def write_srilm_list(
    file: BinaryIO, nbest: NBestList, own: Sequence[float], model: Sequence[float], order: Sequence[int]
) -> None:
    """Writes a list in the third format. own: acoustic scores, or the lists' only ones; model: log P; both in nats."""
    for i in order:
        words = nbest.texts[i].split()
        scores = f"{own[i] / _LOG10:.6g} {model[i] / _LOG10:.6g}"
        file.write((" ".join([scores, str(len(words)), *words]) + "\n").encode())


def looks_like_srilm(line: str) -> bool:
    """Whether a file that begins with this line may be such a list."""
    fields = line.split()
    if fields[:1] in ([FIRST], [SECOND]):
        return True
    try:
        return (
            len(fields) >= 3
            and int(fields[2]) == len(fields) - 3
            and math.isfinite(float(fields[0]) + float(fields[1]))
        )
    except ValueError:
        return False


def _bytelog_row(line: Line) -> tuple[str, dict[str, float]]:
    match = _SCORED.fullmatch(line.text.strip())
    if match is None:
        raise line.error("expected (score) and words, as in (-4213) so it goes")
    score = BYTELOG * finite_score(match[1], line, "the score")
    return _words(_DETAILS.sub(" ", match[2]).split()), {SCORE: score}


def _log10_row(line: Line) -> tuple[str, dict[str, float]]:
    fields = line.text.split()
    if len(fields) < 3:
        raise line.error("expected an acoustic score, a language model's score, the number of words, and the words")
    acoustic = finite_score(fields[0], line, "the acoustic score")
    language = finite_score(fields[1], line, "the language model's score")
    if not fields[2].isdecimal():
        raise line.error(f"the number of words is {fields[2]!r}; expected a whole number")
    return _words(fields[3:]), {ACOUSTIC: _LOG10 * acoustic, LANGUAGE: _LOG10 * language}


def _words(words: list[str]) -> str:
    return " ".join(word for word in words if word not in _NOT_WORDS)


def _srilm_id(name: str) -> str:
    path = Path(name)
    while path.suffix in (*COMPRESSIONS, ".nbest", ".score", ".txt"):
        path = path.with_suffix("")
    return path.name
