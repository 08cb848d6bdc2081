"""Writes documents to a file, as lines of plain text or as JSON lines, compressed or not, according to its suffix."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from chainrule.base.files import compressing, replace_file
from chainrule.errors import OutputError, TextError
from chainrule.text.corpus.block import LINE_FEED
from chainrule.text.corpus.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chainrule.text.corpus.block import Block

_CHUNK = 1 << 18  # bytes written at a time, since compressing a whole block would delay Ctrl-C for seconds


class DocumentFile:
    """A file being written. documents, bytes: written so far, before compression."""

    def __init__(self, name: str, file: BinaryIO, field: str) -> None:
        self.documents = self.bytes = 0
        self._name, self._file, self._field = name, file, field
        self._is_json = text_suffix(name) in FORMATS

    def write(self, block: Block) -> None:
        """Writes a block. Raises TextError if a document has newlines but the file one document a line; OSError."""
        data = self._as_json(block) if self._is_json else self._as_lines(block)
        for start in range(0, len(data), _CHUNK):
            self._file.write(data[start : start + _CHUNK])
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
            place = block.locate(text[: text.index(b"\n")].count(end) + 1)
            raise TextError(
                f"{place}: the document has newlines, but {self._name} has one document a line; give it a name that "
                "ends in .jsonl, or split documents into lines with document='line'"
            )
        return text.replace(end, b"\n")


@contextmanager
def document_file(path: Path, field: str = "text") -> Iterator[DocumentFile]:
    """A file to write documents to, which replaces `path` at the end of the `with` block, unless the block fails.

    field: the field for the text, in JSON lines. Raises OutputError.
    """
    check_format(path)
    with replace_file(path) as raw, compressing(raw, path) as file:
        yield DocumentFile(str(path), file, field)


def check_format(path: Path) -> None:
    """Raises OutputError if the format cannot be written; to be called before the work, not after it."""
    if FORMATS.get(text_suffix(str(path))) == "parquet":
        raise OutputError(f"{path}: Parquet can only be read; give it a name that ends in .jsonl or .jsonl.zst")
