"""Reads n-best lists and lattices in any format, with references; writes lists with new scores, and best hypotheses.

Formats are recognised by file names and first lines, and read one list at a time. Written files appear only when
complete. References and sources are in a text, line by line or keyed by the lists' ids, or in the lists.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, cast, get_args

from chainrule.base.files import compressing, replace_file, sync_folder
from chainrule.base.progress import Progress, silent
from chainrule.errors import OutputError, SettingError, TextError
from chainrule.features.rescore.config import LatticeFormat
from chainrule.features.rescore.lattice_formats import (
    looks_like_kaldi_lattices,
    looks_like_slf,
    read_kaldi_lattices,
    read_slf_lattices,
    read_symbols,
)
from chainrule.features.rescore.lists.nbest import lines_of
from chainrule.features.rescore.lists.nbest_formats import (
    ScoreFiles,
    espnet_folders,
    looks_like_srilm,
    read_espnet_lists,
    read_json_lists,
    read_kaldi_lists,
    read_moses_lists,
    read_srilm_folder,
    read_srilm_list,
    write_json_list,
    write_moses_list,
    write_srilm_list,
)
from chainrule.features.rescore.lists.table_lists import read_table_lists
from chainrule.text.corpus.reading import FORMATS, TABLES, text_suffix
from chainrule.text.corpus.records import raise_error
from chainrule.text.corpus.streams import STANDARD_INPUT
from chainrule.text.corpus.writing import table_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from io import BufferedReader

    from chainrule.features.rescore.config import ListFormat
    from chainrule.features.rescore.lattices import Lattice, Unreadable
    from chainrule.features.rescore.lists.nbest import Line, NBestList
    from chainrule.text.corpus.records import OnBad

# Formats whose other files, such as references, are keyed by the lists' ids, too.
LATTICES: tuple[LatticeFormat, ...] = get_args(LatticeFormat)
KEYED: tuple[ListFormat, ...] = ("kaldi", "espnet", "srilm", *LATTICES)
NO_FILES = ScoreFiles({}, {})
_EMPTY = "{}: has no n-best list; expected one or more"
_NUMBERED = re.compile(r"\S+-[0-9]+(\s|$)")


_MOST_EMPTY = 1000  # lines; lattices that are empty at the beginning of an archive have one each


def format_of(name: str, files: ScoreFiles = NO_FILES) -> ListFormat:
    """The format of the lists in a file or folder; from standard input, nothing is consumed.

    Raises TextError if it is none of the formats.
    """
    if Path(name).is_dir():
        return "espnet" if espnet_folders(name) else "slf" if _is_slf_folder(name) else "srilm"
    if FORMATS.get(text_suffix(name)) == "json":
        return "json"
    if text_suffix(name) in TABLES:
        return "table"
    if files.scores or files.costs:
        return "kaldi"
    lines = _first_lines(name, 2)
    if not lines:
        raise TextError(_EMPTY.format(name))
    line = lines[0]
    if line.startswith("{"):
        return "json"
    if "|||" in line:
        return "moses"
    if looks_like_srilm(line):
        return "srilm"
    if looks_like_slf(lines):
        return "slf"
    if looks_like_kaldi_lattices(_first_lines(name, _MOST_EMPTY)):
        return "kaldi-lattice"
    if line.count("\t") > 1:
        return "table"
    if _NUMBERED.match(line):
        return "kaldi"
    raise TextError(
        f"{name}: is in no known format of n-best lists or lattices; expected JSON lines, a table of id, text, score, "
        "Moses' id ||| text ||| features ||| score, a Kaldi text with score files, an ESPnet folder, SRILM's lists, "
        "Kaldi's text lattices or HTK's SLF; or name the format with format=..."
    )


def _is_slf_folder(name: str) -> bool:
    """Return whether the first file of a folder that is not empty is a lattice."""
    paths = sorted(path for path in Path(name).iterdir() if path.is_file() and path.name[0] != ".")
    return looks_like_slf(next(filter(None, (_first_lines(str(path), 2) for path in paths)), []))


def read_lattices(
    name: str, kind: ListFormat, symbols: str | None, progress: Progress = silent
) -> Iterator[Lattice | Unreadable]:
    """The lattices of a source, at least one. symbols: a file of the words that have numbers in Kaldi's lattices.

    Raises TextError where nothing can be read, SettingError where symbols do not apply.
    """
    if symbols is not None and kind != "kaldi-lattice":
        raise SettingError(f"symbols={symbols!r} are for Kaldi's lattices, not for the format {kind!r}; leave them out")
    if kind == "slf":
        lattices = read_slf_lattices(name, progress)
    else:
        lattices = read_kaldi_lattices(name, None if symbols is None else read_symbols(symbols), progress)
    is_empty = True
    for lattice in lattices:
        is_empty = False
        yield lattice
    if is_empty:
        raise TextError(f"{name}: has no lattice; expected one or more")


def read_lists(
    name: str,
    kind: ListFormat,
    files: ScoreFiles = NO_FILES,
    progress: Progress = silent,
    on_bad: OnBad = raise_error,
) -> Iterator[NBestList]:
    """The lists of a source, at least one; all have the same scores. Raises TextError with file and line.

    on_bad: gets what is wrong with a line of JSON or a row of a table, which is left out.
    """
    return with_equal_names(name, _read(name, kind, files, progress, on_bad))


def with_equal_names(name: str, lists: Iterable[NBestList]) -> Iterator[NBestList]:
    """The lists of a source, at least one. Raises TextError unless all have the same scores."""
    first: NBestList | None = None
    for nbest in lists:
        first = first or nbest
        if nbest.scores.keys() != first.scores.keys():
            ours, theirs = _score_names(nbest), _score_names(first)
            raise TextError(f"{nbest.place}: the scores are {ours}, but in {first.place} {theirs}; expected the same")
        yield nbest
    if first is None:
        raise TextError(_EMPTY.format(name))


def holds_lists(name: str) -> bool:
    """Whether a file holds lists as JSON lines or a table, by its name or its first line. Raises TextError."""
    return text_suffix(name) in (*FORMATS, *TABLES) or _first_line(name).startswith("{")


def _read(name: str, kind: ListFormat, files: ScoreFiles, progress: Progress, on_bad: OnBad) -> Iterator[NBestList]:
    if kind == "json":
        return read_json_lists(name, progress, on_bad)
    if kind == "table":
        return read_table_lists(name, files, on_bad)
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
    return next(iter(_first_lines(name, 1)), "")


def _first_lines(name: str, most: int) -> list[str]:
    """The first lines that are not empty; from standard input, as far as they are buffered."""
    if name == STANDARD_INPUT:
        buffered = cast("BufferedReader", sys.stdin.buffer).peek().decode("utf-8", "replace")
        lines = iter(buffered.splitlines())
    else:
        lines = (line.text for line in lines_of(name, silent))
    return list(islice((line.strip() for line in lines if line.strip()), most))


TOTAL = "total"  # the name of the weighted sum among the scores


class ListWriter(Protocol):
    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        """Writes one list. scores: its own, the models', and the total. order: of the hypotheses, best first."""


@contextmanager
def list_writer(path: Path, kind: ListFormat, models: Sequence[str]) -> Iterator[ListWriter]:
    """A writer for a format; JSON lines or a table if the name says so. Raises OutputError, SettingError.

    Formats with several files become a new folder.
    """
    if FORMATS.get(text_suffix(str(path))) == "json":
        kind = "json"
    elif text_suffix(str(path)) in TABLES or kind == "table":
        with table_file(path) as write:
            yield _TableOfLists(write)
        return
    if kind in ("json", "moses"):
        with replace_file(path) as raw, compressing(raw, path) as file:
            yield _OneFile(file, kind)
    elif kind == "srilm":
        if len(models) != 1:
            raise SettingError(
                f"{path}: SRILM's lists have room for the score of one model; for several, give a name that ends in "
                ".jsonl"
            )
        with _new_folder(path) as folder:
            yield _SrilmFolder(folder, models[0])
    else:
        with _new_folder(path) as folder, ExitStack() as stack:
            yield _KaldiFolder(folder, stack)


def write_best(file: BinaryIO, nbest: NBestList, text: str, *, with_id: bool) -> None:
    """Writes a chosen hypothesis as a line: the text alone, or `id text`."""
    line = f"{nbest.id} {text}".rstrip() if with_id else text
    file.write(line.encode() + b"\n")


class _TableOfLists:
    """A row for each hypothesis."""

    def __init__(self, write: Callable[[Mapping[str, Sequence[Any]]], None]) -> None:
        self._write = write

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        given = {"reference": nbest.reference, "source": nbest.source}
        for i in order:
            row = {"id": nbest.id, "text": nbest.texts[i]}
            row |= {name: value for name, value in given.items() if value is not None}
            row |= nbest.others[i] if nbest.others else {}
            self._write({name: [value] for name, value in (row | {own: scores[own][i] for own in scores}).items()})


class _OneFile:
    def __init__(self, file: BinaryIO, kind: ListFormat) -> None:
        self._file = file
        self._write = write_json_list if kind == "json" else write_moses_list

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        self._write(self._file, nbest, scores, order)


class _SrilmFolder:
    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        own = next(iter(scores))
        with open(self._folder / nbest.id, "xb") as file:
            write_srilm_list(file, nbest, scores[own], scores[self._model], order)


class _KaldiFolder:
    """`text`, and a file for each score, keyed `id-1`, `id-2`, ..."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._files: dict[str, BinaryIO] = {}

    def write(self, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]) -> None:
        for rank, i in enumerate(order, 1):
            key = f"{nbest.id}-{rank}"
            self._file("text").write(f"{key} {nbest.texts[i]}\n".encode())
            for name, values in scores.items():
                self._file(name).write(f"{key} {values[i]:.6f}\n".encode())

    def _file(self, name: str) -> BinaryIO:
        if name not in self._files:
            self._files[name] = self._stack.enter_context((self._folder / name).open("xb"))
        return self._files[name]


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder that becomes `path` when it is complete, and is removed otherwise. Raises OutputError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir()
        try:
            yield temporary
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error


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
    """The references, or the sources, of lists, read from a text into memory."""

    def __init__(self, name: str, *, always_keyed: bool, what: Literal["reference", "source"] = "reference") -> None:
        """Begin with the first line.

        always_keyed: whether every line must begin with the id of its list; otherwise they do if the first line
        does.

        what: the name of a line's content, for messages. Raises TextError.
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

    def skip(self, id: str) -> None:
        """To be called for a list with this id that could not be read: its line, if it has one, is not needed."""
        if self._by_key is not None:
            self._by_key.pop(id, None)

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
