"""Reads n-best lists in any format, recognised by file names and first lines, one list at a time."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from chainrule.applications.nbest.json_lists import read_json_lists
from chainrule.applications.nbest.kaldi import ScoreFiles, espnet_folders, read_espnet_lists, read_kaldi_lists
from chainrule.applications.nbest.lists import lines_of
from chainrule.applications.nbest.moses import read_moses_lists
from chainrule.applications.nbest.srilm import looks_like_srilm, read_srilm_folder, read_srilm_list
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from chainrule.applications.nbest.lists import NBestList

ListFormat = Literal["json", "moses", "kaldi", "espnet", "srilm"]
LIST_FORMATS: tuple[ListFormat, ...] = ("json", "moses", "kaldi", "espnet", "srilm")
# Formats whose other files, such as references, are keyed by the lists' ids, too.
KEYED: tuple[ListFormat, ...] = ("kaldi", "espnet", "srilm")
NO_FILES = ScoreFiles({}, {})
_EMPTY = "{}: has no n-best list; expected one or more"
_NUMBERED = re.compile(r"\S+-[0-9]+(\s|$)")


def format_of(name: str, files: ScoreFiles = NO_FILES) -> ListFormat:
    """The format of the lists in a file or folder; from standard input, nothing is consumed.

    Raises TextError if it is none of the formats.
    """
    if Path(name).is_dir():
        return "espnet" if espnet_folders(name) else "srilm"
    if FORMATS.get(text_suffix(name)) == "json":
        return "json"
    if files.scores or files.costs:
        return "kaldi"
    line = _first_line(name)
    if not line:
        raise TextError(_EMPTY.format(name))
    if line.startswith("{"):
        return "json"
    if "|||" in line:
        return "moses"
    if looks_like_srilm(line):
        return "srilm"
    if _NUMBERED.match(line):
        return "kaldi"
    raise TextError(
        f"{name}: is in no known format of n-best lists; expected JSON lines, Moses' id ||| text ||| features ||| "
        "score, a Kaldi text with score files, an ESPnet folder, or SRILM's lists; or set the format"
    )


def read_lists(
    name: str, kind: ListFormat, files: ScoreFiles = NO_FILES, progress: Progress = silent
) -> Iterator[NBestList]:
    """The lists of a source, at least one; all have the same scores. Raises TextError with file and line."""
    first: NBestList | None = None
    for nbest in _read(name, kind, files, progress):
        first = first or nbest
        if nbest.scores.keys() != first.scores.keys():
            ours, theirs = _score_names(nbest), _score_names(first)
            raise TextError(f"{nbest.place}: the scores are {ours}, but in {first.place} {theirs}; expected the same")
        yield nbest
    if first is None:
        raise TextError(_EMPTY.format(name))


def holds_json(name: str) -> bool:
    """Whether a file holds JSON lines, by its name or its first line. Raises TextError."""
    return FORMATS.get(text_suffix(name)) == "json" or _first_line(name).startswith("{")


def _read(name: str, kind: ListFormat, files: ScoreFiles, progress: Progress) -> Iterator[NBestList]:
    if kind == "json":
        return read_json_lists(name, progress)
    if kind == "moses":
        return read_moses_lists(name, progress)
    if kind == "kaldi":
        return read_kaldi_lists(name, files, progress)
    if kind == "espnet":
        return read_espnet_lists(name, progress)
    return read_srilm_folder(name, progress) if Path(name).is_dir() else iter([read_srilm_list(name, progress)])


def _score_names(nbest: NBestList) -> str:
    return ", ".join(map(repr, nbest.scores)) or "none"


def _first_line(name: str) -> str:
    """The first line that is not empty; from standard input, as far as it is buffered."""
    if name == STANDARD_INPUT:
        buffered = cast("BufferedReader", sys.stdin.buffer).peek().decode("utf-8", "replace")
        return next((line for line in buffered.splitlines() if line.strip()), "").strip()
    return next((line.text.strip() for line in lines_of(name, silent) if line.text.strip()), "")
