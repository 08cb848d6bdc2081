"""Reads the lines of an ARPA file, plain or compressed, in blocks; and raises its errors."""

from __future__ import annotations

import os
import re
import stat
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import numpy as np

from chainrule.base.files import DECOMPRESSION_ERRORS, DECOMPRESSORS
from chainrule.errors import ModelFormatError, os_errors_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.base.progress import Progress

TASK = "reading ARPA"
BLOCK_BYTES = 1 << 22  # also the longest possible line
CUT_SHORT = "the file is cut short; get it again"
DAMAGED = "the file is damaged, or is not an ARPA file"
_SECTION = b"\\"  # the first byte of a line that begins a section
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_SHOWN = 60  # bytes of a file that a message quotes, at most


@dataclass(frozen=True)
class ArpaBlock:
    """Whole lines of a file."""

    text: UInt8[ndarray, " bytes"]
    first_line: int
    lines: int


class ArpaSource:
    """Reads a file once, forwards. `line` is the number of the last line that was returned."""

    def __init__(self, name: str, file: BinaryIO, on_read: Callable[[], None], size: int | None) -> None:
        """Start at the beginning of the file.

        size: that of the file in bytes, if known. on_read: a callback, called after each block.
        """
        self.name, self.size, self.line = name, size, 0
        self._file, self._on_read = file, on_read
        self._block, self._at, self._rest = bytearray(), 0, b""

    def next_line(self) -> bytes | None:
        """Return the next line that is not blank, without white space around it; None at the end."""
        while self._fill():
            self._skip_blank_lines()
            stop = self._block.find(b"\n", self._at) + 1 or len(self._block)
            line = bytes(self._block[self._at : stop]).strip()
            if line:
                self.line, self._at = self.line + 1, stop
                return line
            self._at = stop
        return None

    def lines_before_section(self) -> Iterator[bytes]:
        """Yield lines that are not blank, up to the next one that begins a section."""
        while self._fill():
            self._skip_blank_lines()
            if self._at == len(self._block):
                continue
            if self._is_at_section() or (line := self.next_line()) is None:
                return
            yield line

    def _skip_blank_lines(self) -> None:
        """Skip the blank lines at the current position in the block."""
        text = _NOT_BLANK.search(self._block, self._at)
        start = self._block.rfind(b"\n", self._at, text.start() if text else None) + 1 or self._at
        self.line += self._block.count(b"\n", self._at, start)
        self._at = start

    def blocks_before_section(self) -> Iterator[ArpaBlock]:
        """Yield lines up to the next one that begins a section, in blocks."""
        while self._fill() and not self._is_at_section():
            stop = len(self._block)
            if _SECTION in self._block:  # a search for a single byte is much faster, and backslashes are rare
                stop = self._block.find(b"\n" + _SECTION, self._at) + 1 or stop
            text = np.frombuffer(self._block, np.uint8)[self._at : stop]
            lines = int(np.count_nonzero(text == ord("\n"))) + int(text[-1] != ord("\n"))
            block = ArpaBlock(text, self.line + 1, lines)
            self.line, self._at = self.line + lines, stop
            yield block

    def has_ended(self) -> bool:
        return not self._fill()

    def fail(self, found: str | bytes, expected: str, advice: str, line: int | None = None) -> NoReturn:
        """Raise ModelFormatError, which says what was found and what was expected.

        found: the text in its place; bytes are quoted. line: by default the last one that was returned.
        """
        if isinstance(found, bytes):
            found = repr(found[:_SHOWN].decode(errors="replace") + ("..." if len(found) > _SHOWN else ""))
        where = f"{self.name}, line {max(self.line if line is None else line, 1)}"
        raise ModelFormatError(f"{where}: found {found}, expected {expected}; {advice}")

    def _is_at_section(self) -> bool:
        return self._block.startswith(_SECTION, self._at)

    def _fill(self) -> bool:
        """Read the next block if the current one is used up; return whether anything is left."""
        while self._at == len(self._block):
            data = self._read()
            if not data and not self._rest:
                return False
            block = bytearray(self._rest)
            block += data
            cut = block.rfind(b"\n") + 1 if data else len(block)
            if cut == 0 and len(block) >= BLOCK_BYTES:
                self.fail(f"a line of more than {BLOCK_BYTES:,} bytes", "an n-gram in fewer", DAMAGED, self.line + 1)
            self._rest = bytes(block[cut:])
            del block[cut:]
            self._block, self._at = block, 0
        return True

    def _read(self) -> bytes:
        try:
            data = self._file.read(BLOCK_BYTES)
        except (OSError, *DECOMPRESSION_ERRORS) as error:
            self.fail(f"bytes that cannot be read ({error})", "more lines", "the file is damaged; get it again")
        self._on_read()
        return data


@contextmanager
def open_arpa(path: Path, progress: Progress) -> Iterator[ArpaSource]:
    """Open a file, compressed or not. Raises ModelFormatError where it cannot be read."""
    with ExitStack() as stack:
        with os_errors_as(ModelFormatError, path, "read"):
            raw = stack.enter_context(open(path, "rb"))
        status = os.fstat(raw.fileno())
        is_regular = stat.S_ISREG(status.st_mode)  # a pipe's size is not known

        def report() -> None:
            if is_regular:
                progress(TASK, raw.tell(), status.st_size)

        opener = DECOMPRESSORS.get(path.suffix.lower())
        if opener is None:
            yield ArpaSource(str(path), raw, report, status.st_size if is_regular else None)
        else:
            yield ArpaSource(str(path), stack.enter_context(opener(raw)), report, None)
