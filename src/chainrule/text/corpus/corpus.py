"""Sources of text: files, folders, standard input, or lines in memory, read as blocks of documents. Knows no tokens.

A corpus is read block by block, so that it may be larger than memory.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from chainrule.base.arguments import as_paths
from chainrule.base.files import check_new_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus.bad_records import BadRecords
from chainrule.text.corpus.block import Block, byte_array
from chainrule.text.corpus.plain_text import file_block, line_blocks
from chainrule.text.corpus.reading import Reading, may_hold, text_suffix
from chainrule.text.corpus.record_blocks import parquet_blocks, record_blocks
from chainrule.text.corpus.streams import STANDARD_INPUT, file_size, open_stream, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.text.corpus.reading import Document

    Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_LINE_END = re.compile("\r?\n")


@runtime_checkable
class Source(Protocol):
    """A text that can be read any number of times (standard input: once)."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of its files, folders or other parts."""

    @property
    def record(self) -> dict[str, Any]:
        """The record of what was read, for a model.

        `data`: the SHA-256 of each source that has been read completely.
        """

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Return the documents, in blocks. progress: a callback that gets `task` and the bytes read so far."""
        ...


class ReadSource(Source, Protocol):
    """A text in files: of lines and records, or of trees."""

    @property
    def paths(self) -> list[str]:
        """Its files, without standard input."""

    def blocks_as_they_come(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Return the blocks of `blocks`, but the documents of a pipe as soon as they arrive."""


@dataclass(frozen=True)
class Lines:
    """A text in memory, one document a line. A newline inside a line becomes a space, except for `correct`; one at its
    end is dropped.
    """

    lines: Iterable[str]
    name: str = "the given lines"
    numbers: Int64[ndarray, " lines"] | None = field(default=None, compare=False)  # of the lines, for messages

    def __post_init__(self) -> None:
        if isinstance(self.lines, str):
            raise TypeError("Lines takes several lines; put a single one in a list")
        lines = tuple(self.lines)  # an iterator can be read only once
        for line in lines:
            if not isinstance(line, str):
                raise TypeError(f"Lines takes strings, not {type(line).__name__}")
        object.__setattr__(self, "lines", lines)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def record(self) -> dict[str, Any]:
        return {"data": {self.name: hashlib.sha256(self._joined()).hexdigest()}}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Implement `Source.blocks`. Raises TextError if there is no line."""
        if not self.lines:
            raise TextError(f"{self.name}: there is no text in it; at least one line is needed")
        yield Block(byte_array(self._joined()), self.name, 1, numbers=self.numbers)

    def texts(self) -> list[str]:
        """Return the lines as they were given, with the newlines inside them, for what changes texts rather than learns
        from them.

        A newline at the end is dropped.
        """
        lines = (line.removesuffix("\n").removesuffix("\r") for line in self.lines)
        return [line.encode("utf-8", "replace").decode() for line in lines]

    def _joined(self) -> bytes:
        lines = (_LINE_END.sub(" ", line.removesuffix("\n").removesuffix("\r")) for line in self.lines)
        return "".join(line + "\n" for line in lines).encode("utf-8", "replace")


@dataclass
class Corpus:
    """Files and folders, read one after another; "-" is standard input.

    After it has been read, `digests` has the SHA-256 of each source: of a file's bytes, decompressed unless it is
    Parquet, and in UTF-8; of a folder, that of the lines that `sha256sum` would print for its files in order. `repairs`
    has the number of repaired UTF-8 errors of each source with any, `bad` the records that were skipped. `unended` has
    the files whose last line has no newline. keeps_fields: whether blocks have the other fields of records, too.
    """

    sources: tuple[str, ...]
    reading: Reading
    files: tuple[tuple[str, ...], ...]  # of each source
    digests: dict[str, str] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    unended: list[str] = field(default_factory=list)
    bad: BadRecords = field(default_factory=lambda: BadRecords("stop"), compare=False)
    keeps_fields: bool = False

    @classmethod
    def of(cls, sources: Paths, reading: Reading | None = None, bad: BadRecords | None = None) -> Corpus:
        """The corpus of some paths. bad: skipped records are added to these. Raises TextError if a path is missing, or
        a folder without text; SettingError.
        """
        reading = reading or Reading()
        names = tuple(as_paths(sources))
        if names.count(STANDARD_INPUT) > 1:
            raise TextError("standard input, -, can be read only once")
        if not names:
            raise TextError("no text was given; name one or more files or folders, or - for standard input")
        files = tuple(_files_of(name, reading) for name in names)
        for file in (file for some in files for file in some):
            reading.format_of(file)
        if reading.bad_records_out is not None:
            check_new_file(Path(reading.bad_records_out), overwrite=True, inputs=[*chain(*files)])
        return cls(names, reading, files, bad=BadRecords.of(reading) if bad is None else bad)

    @property
    def paths(self) -> list[str]:
        """Its files, without standard input."""
        return [file for files in self.files for file in files if file != STANDARD_INPUT]

    @property
    def documents(self) -> tuple[Document, ...]:
        """The kinds of documents (line, file, record) of its files, sorted: more than one if files differ."""
        return tuple(sorted({self.reading.document_of(file) for files in self.files for file in files}))

    @property
    def record(self) -> dict[str, Any]:
        skipped = {"skipped": self.bad.count} if self.bad.count else {}
        return {"data": dict(self.digests), "reading": self.reading.record, "repaired": dict(self.repairs), **skipped}

    @property
    def has_records(self) -> bool:
        """Whether some of its files have records, and not plain text."""
        return any(self.reading.format_of(file) != "plain" for file in chain(*self.files))

    def with_fields(self) -> Corpus:
        """The same corpus, whose blocks keep all fields of records."""
        return replace(self, keeps_fields=True)

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Implement `Source.blocks`. Raises TextError if a source cannot be read or is not UTF-8, or if all are
        empty.
        """
        is_empty = True
        for block in self._blocks(progress, task, wait=True):
            is_empty = False
            yield block
        if is_empty:
            raise TextError(f"{', '.join(self.sources)}: there is no text in it; at least one document is needed")

    def blocks_as_they_come(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """As `blocks`, but yields the documents of a pipe as soon as they arrive, before it is closed.

        Raises TextError if a source cannot be read or is not UTF-8.
        """
        yield from self._blocks(progress, task, wait=False)

    def _blocks(self, progress: Progress, task: str, *, wait: bool) -> Iterator[Block]:
        sizes = [[file_size(file) for file in files] for files in self.files]
        total = sum(map(sum, sizes)) or None
        done = 0.0
        self.unended.clear()
        progress(task, done, total)
        for source, files, its_sizes in zip(self.sources, self.files, sizes, strict=True):
            digests: dict[str, str] = {}
            repairs = 0
            for file, size in zip(files, its_sizes, strict=True):
                for block, place in self._file_blocks(file, size, digests, wait=wait):
                    repairs += block.repaired
                    yield block
                    progress(task, done + place, total)
                done += size
            self.digests[source] = digests[source] if source in digests else _listing_digest(source, digests)
            self.repairs.pop(source, None)
            if repairs:
                self.repairs[source] = repairs
        self.bad.save()

    def _file_blocks(
        self, name: str, size: int, digests: dict[str, str], *, wait: bool
    ) -> Iterator[tuple[Block, float]]:
        """The blocks of a file, each with the number of bytes read so far. Fills in `digests` and `unended`, too."""
        reading, fields = self.reading, self.keeps_fields
        kind = reading.format_of(name)
        if kind == "parquet":
            from chainrule.text.corpus.parquet import parquet_digest

            for block, share in parquet_blocks(name, reading, self.bad, fields=fields or self.bad.keeps):
                yield block, share * size
            digests[name] = parquet_digest(name)
            return
        with open_stream(name, reading.encoding, reading.encoding_errors) as stream:
            if kind != "plain":
                blocks = record_blocks(stream, kind, reading, self.bad, wait=wait, fields=fields)
            elif reading.document == "file":
                blocks = iter([file_block(stream, reading.encoding_errors)])
            else:
                blocks = line_blocks(stream, reading.encoding_errors, wait=wait)
            for block in blocks:
                yield block, stream.position
            digests[name] = stream.hexdigest()
            if kind == "plain" and reading.document != "file" and stream.last not in (b"", b"\n"):
                self.unended.append(name)


_LIKE_A_PATH = re.compile(r"[/\\]|^\S*\.\w+$|^$")  # with a folder or a suffix


def source_of(text: Source | Paths, document: Document | None = None) -> Source:
    """Return a Source unchanged; paths as a Corpus. document: see `read_as`. Raises as `Corpus.of`."""
    if isinstance(text, Source) and not isinstance(text, type):  # the class Lines itself has a Source's attributes
        return text
    paths = as_paths(text)
    missing = next((path for path in paths if path != STANDARD_INPUT and not os.path.exists(path)), None)
    if missing is not None and not _LIKE_A_PATH.search(missing):
        raise TextError(
            f"{missing!r} is taken for the path of a file, and there is no such file; for texts themselves, use "
            "chainrule.Lines([...])"
        )
    return read_as(Corpus.of(paths), document)


def read_as(corpus: Corpus, document: Document | None) -> Corpus:
    """Return the corpus with the given kind of documents, such as that of a model's training text.

    A corpus whose reading sets a kind already, or that cannot have such documents, stays unchanged.
    """
    files = [file for of_source in corpus.files for file in of_source]
    is_set = corpus.reading.document is not None or (document == "file" and corpus.reading.field is not None)
    if document is None or is_set or not all(may_hold(file, document) for file in files):
        return corpus
    return Corpus(corpus.sources, replace(corpus.reading, document=document), corpus.files, bad=corpus.bad)


def _files_of(name: str, reading: Reading) -> tuple[str, ...]:
    """Return a source's files: itself, or all files below a folder, in the order of their names."""
    if name == STANDARD_INPUT:
        return (name,)
    if not os.path.exists(name):
        raise TextError(f"{name or 'an empty name'}: there is no such file")
    if not os.path.isdir(name):
        return (name,)
    paths = []
    others = 0
    try:
        for file in _files_below(name):
            if reading.takes(file):
                paths.append(file)
            else:
                others += 1
    except OSError as error:
        raise unreadable(error.filename or name, error) from error
    if not paths:
        raise TextError(
            f"{name}: there is no text in this folder, only {others:,} file{'s' * (others != 1)} of other kinds; "
            f"expected names that end in {', '.join(reading.suffixes)}, also compressed; suffixes=... names others"
        )
    return tuple(sorted(paths, key=lambda file: os.path.relpath(file, name).split(os.sep)))


def _files_below(folder: str) -> Iterator[str]:
    """Yield all files in a folder, without those in hidden folders. Raises OSError."""
    for inner, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(inner, name) for name in names)


def unread_tables(corpus: Corpus) -> dict[str, int]:
    """Return how many .csv files there are in each folder of a corpus that reads none, where there are any."""
    if ".csv" in corpus.reading.suffixes:
        return {}
    folders = [name for name in corpus.sources if os.path.isdir(name)]
    return {name: n for name in folders if (n := sum(text_suffix(file) == ".csv" for file in _files_below(name)))}


def _raise(error: OSError) -> None:
    raise error


def _listing_digest(folder: str, digests: dict[str, str]) -> str:
    """Return the SHA-256 of what sha256sum prints for a folder's files, with names relative to the folder."""
    digest = hashlib.sha256()
    for file, its_digest in digests.items():
        path = os.path.relpath(file, folder).replace(os.sep, "/")
        digest.update(f"{its_digest}  ./{path}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
