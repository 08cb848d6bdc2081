"""Reads the bytes of files or of standard input, decompressed, with their SHA-256; checks and repairs UTF-8.

Knows no documents. CPython's decoder checks, window by window, so that its strings fit into the processor's cache: four
times as fast as whole blocks, and without memory for a line of a gigabyte.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import numpy as np

from chainrule.base.files import DECOMPRESSION_ERRORS, DECOMPRESSORS
from chainrule.errors import TextError
from chainrule.text.corpus.reading import UTF_8, compression_suffix, is_utf_8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.text.corpus.reading import EncodingErrors

STANDARD_INPUT = "-"
# A compressed file that expands to more bytes than this, and to this many times its size, is refused as a bomb.
EXPANSION_BYTES = 1 << 30
EXPANSION = 250
_MIN_HASHED_ON_THREAD = 1 << 20  # bytes; hashing fewer is not worth a thread


class ByteStream:
    """The bytes of one source, read once from front to end. position: the bytes of the file on disk read so far."""

    def __init__(self, name: str, file: _Readable, counted: _Counted | None, *, is_text: bool) -> None:
        """Begin at the front of the file.

        file: yields the decompressed bytes. counted: the compressed file, if it is compressed. is_text: whether a byte
        order mark at the beginning is left out.
        """
        self._beginning = None if is_text else b""  # what was read to look for the mark; None before that
        self.name, self.size, self.last = name, 0, b""  # last: the last byte read
        self._file, self._counted = file, counted
        self._digest = _Digest()

    @property
    def position(self) -> int:
        return self.size if self._counted is None else self._counted.size

    def fill(self, room: UInt8[ndarray, " bytes"], *, wait: bool = True) -> int:
        """Read bytes into `room` and return their number, which is smaller than the room only at the end.

        wait: whether to fill the room; if False, returns what has arrived, and 0 only at the end. Raises TextError.
        """
        if self._beginning is None:
            self._beginning = self._without_mark()
        held = min(room.size, len(self._beginning))
        if not held:
            return self._fill(room, wait=wait)
        room[:held] = np.frombuffer(self._beginning, np.uint8, held)
        self._beginning = self._beginning[held:]
        return held + (self._fill(room[held:], wait=True) if wait and held < room.size else 0)

    def _without_mark(self) -> bytes:
        """Read the first bytes, as few as decide whether they are a mark, and return them unless they are."""
        beginning = b""
        while beginning != codecs.BOM_UTF8 and codecs.BOM_UTF8.startswith(beginning):
            room = np.empty(len(codecs.BOM_UTF8) - len(beginning), np.uint8)
            size = self._fill(room, wait=False)
            if not size:
                break
            beginning += room[:size].tobytes()
        return b"" if beginning == codecs.BOM_UTF8 else beginning

    def _fill(self, room: UInt8[ndarray, " bytes"], *, wait: bool) -> int:
        try:
            size = self._file.readinto(room.data) if wait else self._file.readinto1(room.data)
        except (OSError, *DECOMPRESSION_ERRORS) as error:
            raise unreadable(self.name, error) from error
        if size is None:
            raise TextError(f"{self.name}: cannot be read, since it is non-blocking; pipe it through cat")
        self.size += size
        self.last = room[size - 1 : size].tobytes() or self.last
        self._check_expansion()
        self._digest.update(room[:size])
        return size

    def hexdigest(self) -> str:
        """Return the SHA-256 of the bytes read so far."""
        return self._digest.hexdigest()

    def _check_expansion(self) -> None:
        if self._counted is not None and self.size > max(EXPANSION_BYTES, EXPANSION * self._counted.size):
            raise TextError(
                f"{self.name}: {self._counted.size:,} bytes of it give over {self.size:,} bytes of text, more than "
                f"{EXPANSION} times as many, like a decompression bomb, so reading stopped; if that is intended, "
                "decompress the file first"
            )


@contextmanager
def open_stream(
    name: str, encoding: str = UTF_8, rule: EncodingErrors = "strict", *, is_text: bool = False
) -> Iterator[ByteStream]:
    """Open a file, decompressed according to its suffix, or standard input; as UTF-8, whatever the encoding is.

    rule: what to do about bytes that are no text in an encoding other than UTF-8. is_text: whether a byte order mark at
    the beginning is left out; `line_blocks` and `file_block` leave it out themselves. Raises TextError.
    """
    if name == STANDARD_INPUT:
        yield _stream(name, cast("_Readable", sys.stdin.buffer), None, encoding, rule, is_text)
        return
    opener = DECOMPRESSORS.get(compression_suffix(name))
    try:
        raw = open(name, "rb")  # noqa: SIM115
    except OSError as error:
        raise unreadable(name, error) from error
    with raw:
        if opener is None:
            yield _stream(name, cast("_Readable", raw), None, encoding, rule, is_text)
        else:
            counted = _CountingFile(raw)
            with opener(counted) as file:
                yield _stream(name, file, counted, encoding, rule, is_text)


def _stream(
    name: str, file: _Readable, counted: _CountingFile | None, encoding: str, rule: EncodingErrors, is_text: bool
) -> ByteStream:
    if is_utf_8(encoding):
        return ByteStream(name, file, counted, is_text=is_text)
    recoded = _RecodedFile(name, file, encoding, rule)
    return ByteStream(name, recoded, counted or recoded, is_text=is_text)


def file_size(name: str) -> int:
    """Return the size of a file in bytes; 0 if unknown, as for standard input. Raises TextError."""
    try:
        return 0 if name == STANDARD_INPUT else os.path.getsize(name)
    except OSError as error:
        raise unreadable(name, error) from error


def unreadable(name: str, error: Exception) -> TextError:
    """Return the error for a file that the system or a decompressor could not read."""
    if isinstance(error, OSError) and error.strerror:
        return TextError(f"{name}: cannot be read: {error.strerror}")
    return TextError(f"{name}: cannot be read: {error}; the file is damaged, cut short, or not what its name says")


class _Readable(Protocol):
    def readinto(self, room: memoryview, /) -> int | None: ...
    def readinto1(self, room: memoryview, /) -> int | None: ...


class _Counted(Protocol):
    size: int


class _RecodedFile:
    """A file in another encoding, as UTF-8. size: the bytes read from it. Bytes that are no text become 0xFF, which is
    never in UTF-8 and so is repaired later; or raise TextError, if the rule is strict.
    """

    def __init__(self, name: str, file: _Readable, encoding: str, rule: EncodingErrors) -> None:
        self.size = 0
        self._name, self._file, self._encoding = name, file, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict" if rule == "strict" else _MARKED)
        self._read = bytearray(1 << 16)
        self._ready, self._ended = memoryview(b""), False

    def readinto1(self, room: memoryview, /) -> int:
        """Fill the room with what has arrived: 0 bytes only at the end."""
        while not len(self._ready) and not self._ended:
            size = self._file.readinto1(memoryview(self._read)) or 0
            self._ended = not size
            self._ready = memoryview(self._recoded(bytes(self._read[:size])))
            self.size += size
        size = min(len(room), len(self._ready))
        room[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def readinto(self, room: memoryview, /) -> int:
        """Fill the whole room, except at the end."""
        filled = 0
        while filled < len(room) and (size := self.readinto1(room[filled:])):
            filled += size
        return filled

    def _recoded(self, data: bytes) -> bytes:
        held = self.size - len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise TextError(
                f"{self._name}: byte 0x{error.object[error.start]:02x} at offset {held + error.start} is no text in "
                f"{self._encoding}; name the encoding that it has with encoding=..., or set encoding_errors='replace' "
                "or encoding_errors='skip'"
            ) from error
        return text.encode("utf-8", "surrogateescape")


_MARKED = "chainrule-marked"
codecs.register_error(_MARKED, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


class _CountingFile:
    """A file that counts the bytes read from it, since a pipe has no position."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        return data


class _Digest:
    """A SHA-256 computed on a separate thread during reading, at most one step late."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._running: threading.Thread | None = None

    def update(self, data: UInt8[ndarray, " bytes"]) -> None:
        """Add data, which must not change afterwards."""
        self._wait()
        if data.size <= _MIN_HASHED_ON_THREAD:
            self._sha256.update(data.data)
        else:
            self._running = threading.Thread(target=self._sha256.update, args=(data.data,), daemon=True)
            self._running.start()

    def hexdigest(self) -> str:
        self._wait()
        return self._sha256.hexdigest()

    def _wait(self) -> None:
        if self._running is not None:
            self._running.join()
            self._running = None


WINDOW_BYTES = 1 << 18
REPLACEMENT = "\ufffd"


def windows(text: UInt8[ndarray, " bytes"]) -> Iterator[tuple[int, UInt8[ndarray, " bytes"]]]:
    """Yield parts of a text, each with its position, that do not split a character."""
    start = 0
    while start < text.size:
        stop = min(start + WINDOW_BYTES, text.size)
        lead = _character_start(text, stop) if stop < text.size else stop
        yield start, text[start:lead]
        start = lead


def _character_start(text: UInt8[ndarray, " bytes"], position: int) -> int:
    """Return the start of the character that the byte at `position` belongs to; `position` if it belongs to none."""
    for i in range(position, position - 4, -1):  # a character has at most three continuation bytes
        if text[i] & 0xC0 != 0x80:
            return i
    return position


def repair(text: UInt8[ndarray, " bytes"], rule: EncodingErrors) -> tuple[bytes, int]:
    """Replace invalid UTF-8 by U+FFFD, or remove it; return the result, and the number of invalid sequences.

    A sequence is what Unicode calls a maximal subpart: the longest prefix of a character, or else a single byte.
    """
    pieces = []
    places = 0
    for _, window in windows(text):
        replaced = codecs.utf_8_decode(window.data, "replace", True)[0]
        places += replaced.count(REPLACEMENT) - window.tobytes().count(REPLACEMENT.encode())
        pieces.append((replaced if rule == "replace" else codecs.utf_8_decode(window.data, "ignore", True)[0]).encode())
    return b"".join(pieces), places


def encode_string(text: str, rule: EncodingErrors) -> tuple[bytes, int]:
    """Return a string as UTF-8, with lone surrogates replaced or removed; and their number.

    Raises UnicodeEncodeError if there are any and the rule is strict.
    """
    try:
        return text.encode(), 0
    except UnicodeEncodeError:
        if rule == "strict":
            raise
        places = sum("\ud800" <= character <= "\udfff" for character in text)
        kept = REPLACEMENT if rule == "replace" else ""
        return "".join(kept if "\ud800" <= c <= "\udfff" else c for c in text).encode(), places
