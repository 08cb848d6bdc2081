"""Documents to a file, as lines of plain text or as JSON lines, compressed or not, as its name says."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from chainrule.base.files import compressing, replace_file
from chainrule.errors import OutputError, TextError
from chainrule.text.block import LINE_FEED
from chainrule.text.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chainrule.text.block import Block


_WRITTEN_AT_ONCE = 1 << 18  # bytes: compressing a whole block would leave Ctrl-C unheard for seconds


class DocumentFile:
    """A file that is being written. `documents` and `bytes`: how much has been, before compression."""

    def __init__(self, name: str, file: BinaryIO, field: str) -> None:
        self.documents = self.bytes = 0
        self._name, self._file, self._field = name, file, field
        self._is_json = text_suffix(name) in FORMATS

    def write(self, block: Block) -> None:
        """Raises TextError if a document holds newlines and the file has a line for each; OSError."""
        data = self._as_json(block) if self._is_json else self._as_lines(block)
        for start in range(0, len(data), _WRITTEN_AT_ONCE):
            self._file.write(data[start : start + _WRITTEN_AT_ONCE])
        self.documents += int((block.text == block.document_end).sum())
        self.bytes += len(data)

    def _as_json(self, block: Block) -> bytes:
        records = (json.dumps({self._field: text}, ensure_ascii=False) for text in block.documents())
        return "".join(record + "\n" for record in records).encode()

    def _as_lines(self, block: Block) -> bytes:
        text = block.text.tobytes()
        if block.document_end == LINE_FEED:
            return text
        end = bytes([block.document_end])
        if b"\n" in text:
            place = block.place(text[: text.index(b"\n")].count(end) + 1)
            raise TextError(
                f"{place}: the document holds newlines, and {self._name} has a line for each; give that a name that "
                "ends in .jsonl, or cut documents into lines with document='line'"
            )
        return text.replace(end, b"\n")


@contextmanager
def document_file(path: Path, field: str = "text") -> Iterator[DocumentFile]:
    """A file that takes the place of `path` when all went well, and vanishes otherwise.

    field: of the records, where these are JSON lines. Raises OutputError.
    """
    check_format(path)
    with replace_file(path) as raw, compressing(raw, path) as file:
        yield DocumentFile(str(path), file, field)


def check_format(path: Path) -> None:
    """Asked before the work. Raises OutputError if files of this name are not written."""
    if FORMATS.get(text_suffix(str(path))) == "parquet":
        raise OutputError(f"{path}: Parquet is read, not written; give it a name that ends in .jsonl, or .jsonl.zst")
