"""The texts that are read: files, folders, standard input, or lines in memory, as blocks of documents. Knows no tokens.

Reading goes block by block, so that a corpus may be larger than memory.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.block import Block, byte_array
from chainrule.text.parquet import parquet_blocks, parquet_digest
from chainrule.text.plain import file_block, line_blocks
from chainrule.text.reading import Reading, may_hold
from chainrule.text.records import json_blocks
from chainrule.text.streams import STANDARD_INPUT, file_size, opened, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.text.reading import Document

    Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_LINE_END = re.compile("\r?\n")


@runtime_checkable
class Source(Protocol):
    """What text can be read from, any number of times unless it is standard input."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def record(self) -> dict[str, Any]:
        """What was read, for a model's record. `data`: the SHA-256 of each source that has been read to its end."""

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]: ...


@dataclass(frozen=True)
class Lines:
    """A text in memory, a document a line; a line end inside of one is a space, and one at its end is dropped."""

    lines: Iterable[str]
    name: str = "the given lines"
    numbers: Int64[ndarray, " lines"] | None = field(default=None, compare=False)  # of the lines, for messages

    def __post_init__(self) -> None:
        if isinstance(self.lines, str):
            raise TypeError("Lines takes several lines; put a single one in a list")
        lines = tuple(self.lines)  # what can be read only once is read now
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
        """Raises TextError if there is no line."""
        if not self.lines:
            raise TextError(f"{self.name}: there is no text in it; at least one line is needed")
        yield Block(byte_array(self._joined()), self.name, 1, numbers=self.numbers)

    def _joined(self) -> bytes:
        lines = (_LINE_END.sub(" ", line.removesuffix("\n").removesuffix("\r")) for line in self.lines)
        return "".join(line + "\n" for line in lines).encode("utf-8", "replace")


@dataclass
class Corpus:
    """Files and folders that are read one after the other; "-" is standard input.

    After a pass, `digests` holds the SHA-256 of each source: of a file's bytes, decompressed unless it is Parquet; of a
    folder, that of the lines which `sha256sum` would print for its files in order. `repairs` holds the places in each
    that were not UTF-8, where there were some. `unended` holds the files of lines whose last line has no newline.
    """

    sources: tuple[str, ...]
    reading: Reading
    files: tuple[tuple[str, ...], ...]  # of each source
    digests: dict[str, str] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    unended: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, sources: Paths, reading: Reading | None = None) -> Corpus:
        """Raises TextError if a source is missing, or is a folder without text; SettingError, as `Reading`."""
        if isinstance(sources, str | os.PathLike):
            sources = [sources]
        reading = reading or Reading()
        names = tuple(os.fspath(source) for source in sources)
        if names.count(STANDARD_INPUT) > 1:
            raise TextError("standard input, -, can be read only once")
        if not names:
            raise TextError("no text was given; name one or more files or folders, or - for standard input")
        files = tuple(_files_of(name, reading) for name in names)
        for file in (file for some in files for file in some):
            reading.format_of(file)
        return cls(names, reading, files)

    @property
    def documents(self) -> tuple[Document, ...]:
        """What of its files is a document, in alphabetical order; more than one where files differ in that."""
        return tuple(sorted({self.reading.document_of(file) for files in self.files for file in files}))

    @property
    def record(self) -> dict[str, Any]:
        return {"data": dict(self.digests), "reading": asdict(self.reading), "repaired": dict(self.repairs)}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Raises TextError if a source cannot be read, is not UTF-8, or where all are empty."""
        is_empty = True
        for block in self._blocks(progress, task, wait=True):
            is_empty = False
            yield block
        if is_empty:
            raise TextError(f"{', '.join(self.sources)}: there is no text in it; at least one document is needed")

    def blocks_as_they_come(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Blocks of the documents that are there now, so that a pipe gets its answers before it closes.

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
                for block, place in _file_blocks(file, size, self.reading, digests, self.unended, wait=wait):
                    repairs += block.repaired
                    yield block
                    progress(task, done + place, total)
                done += size
            self.digests[source] = digests[source] if source in digests else _listing_digest(source, digests)
            self.repairs.pop(source, None)
            if repairs:
                self.repairs[source] = repairs


def source_of(text: Source | Paths, document: Document | None = None) -> Source:
    """What is none yet, as a Corpus. document: as `read_as` has it. Raises as `Corpus.of`."""
    if isinstance(text, Source) and not isinstance(text, type):  # the class Lines has what a Source has, too
        return text
    return read_as(Corpus.of(text), document)  # type: ignore[arg-type]


def read_as(corpus: Corpus, document: Document | None) -> Corpus:
    """A corpus whose reading does not say what a document is, read as another text was: a model's training text, say.

    document: what one was there; a corpus some of whose files cannot hold such documents stays as it is.
    """
    files = [file for some in corpus.files for file in some]
    if document is None or corpus.reading.document or not all(may_hold(file, document) for file in files):
        return corpus
    return Corpus(corpus.sources, replace(corpus.reading, document=document), corpus.files)


def _files_of(name: str, reading: Reading) -> tuple[str, ...]:
    """A source's files: itself, or those of a folder and of the folders in it, in the order of their names."""
    if name == STANDARD_INPUT:
        return (name,)
    if not os.path.exists(name):
        raise TextError(f"{name or 'an empty name'}: there is no such file")
    if not os.path.isdir(name):
        return (name,)
    found = []
    others = 0
    try:
        for folder, folders, names in os.walk(name, onerror=_raise):
            folders[:] = [inner for inner in folders if not inner.startswith(".")]
            taken = [os.path.join(folder, file) for file in names if reading.takes(file)]
            found += taken
            others += len(names) - len(taken)
    except OSError as error:
        raise unreadable(error.filename or name, error) from error
    if not found:
        raise TextError(
            f"{name}: there is no text in this folder, only {others:,} file{'s' * (others != 1)} of other kinds; "
            f"expected names that end in {', '.join(reading.suffixes)}, also compressed; suffixes=... names others"
        )
    return tuple(sorted(found, key=lambda file: os.path.relpath(file, name).split(os.sep)))


def _raise(error: OSError) -> None:
    raise error


def _file_blocks(
    name: str, size: int, reading: Reading, digests: dict[str, str], unended: list[str], *, wait: bool
) -> Iterator[tuple[Block, float]]:
    """Blocks of one file, each with how many bytes of it have been read; once it has been read, its digest, and whether
    it is among the `unended`.
    """
    kind = reading.format_of(name)
    if kind == "parquet":
        for block, share in parquet_blocks(name, reading):
            yield block, share * size
        digests[name] = parquet_digest(name)
        return
    with opened(name) as stream:
        if kind == "json":
            blocks = json_blocks(stream, reading, wait=wait)
        elif reading.document == "file":
            blocks = iter([file_block(stream, reading.encoding_errors)])
        else:
            blocks = line_blocks(stream, reading.encoding_errors, wait=wait)
        for block in blocks:
            yield block, stream.place
        digests[name] = stream.hexdigest()
        if kind == "plain" and reading.document != "file" and stream.last not in (b"", b"\n"):
            unended.append(name)


def _listing_digest(folder: str, digests: dict[str, str]) -> str:
    """The SHA-256 of what sha256sum prints for a folder's files, named from the folder on."""
    digest = hashlib.sha256()
    for file, its_digest in digests.items():
        path = os.path.relpath(file, folder).replace(os.sep, "/")
        digest.update(f"{its_digest}  ./{path}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
