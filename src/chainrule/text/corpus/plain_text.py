"""Plain text as blocks: each line, or the whole file, is a document.

Every block is checked to be UTF-8, or repaired. A byte-order mark at the start of a file and the carriage returns of
CRLF line ends are dropped. Each byte is copied once, from the file into the block.
"""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import TextError
from chainrule.text.corpus.block import LINE_FEED, NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.reading import UTF_8
from chainrule.text.corpus.streams import open_stream, repair, windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.text.corpus.reading import EncodingErrors
    from chainrule.text.corpus.streams import ByteStream

    Bytes = UInt8[ndarray, " bytes"]

BLOCK_BYTES = 1 << 23
DOCUMENT_BYTES = 1 << 31  # longer documents are refused
_CARRIAGE_RETURN = 13
_TAIL = 1 << 12  # bytes at the end of a block to search for its last newline first
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_MAGIC = {  # the first bytes of files that are not plain text
    codecs.BOM_UTF16_LE: "it looks like UTF-16; convert it to UTF-8 first, for instance with iconv -f UTF-16 -t UTF-8",
    codecs.BOM_UTF16_BE: "it looks like UTF-16; convert it to UTF-8 first, for instance with iconv -f UTF-16 -t UTF-8",
    b"\x1f\x8b": "it looks like gzip; give the file a name that ends in .gz, or decompress it first",
    b"\x28\xb5\x2f\xfd": "it looks like Zstandard; give the file a name that ends in .zst, or decompress it first",
    b"\xfd7zXZ\0": "it looks like xz; give the file a name that ends in .xz, or decompress it first",
    b"BZh": "it looks like bzip2; give the file a name that ends in .bz2, or decompress it first",
    b"PAR1": "it looks like Parquet; give the file a name that ends in .parquet",
}


def kind_of(beginning: bytes) -> str | None:
    """Return what a file that is no UTF-8 text seems to be, by its first bytes, and what to do; None if unknown."""
    return next((kind for magic, kind in _MAGIC.items() if beginning.startswith(magic)), None)


def lines_of(path: str | os.PathLike[str], encoding: str = UTF_8) -> Iterator[str]:
    """Yield the lines of a file such as a list of words; it may be compressed. Raises TextError."""
    with open_stream(os.fspath(path), encoding) as stream:
        for block in line_blocks(stream, "strict"):
            yield from block.documents()


def line_blocks(stream: ByteStream, rule: EncodingErrors, *, wait: bool = True) -> Iterator[Block]:
    """Read lines as documents. Raises TextError.

    wait: whether to fill blocks; if False, a block has the lines that have arrived, which suits pipes.
    """
    line, place = 1, 0  # of the next document
    for raw in _ended_by_newlines(stream, wait=wait):
        text, lines, places = _clean(raw, rule, stream.name, line, place)
        yield Block(text, stream.name, line, repaired=places)
        line, place = line + lines, place + raw.size


def file_block(stream: ByteStream, rule: EncodingErrors) -> Block:
    """Read a whole file as one document, without a newline at its end. Raises TextError."""
    (raw,) = _ended_by_newlines(stream, whole=True)
    text, _, places = _clean(raw, rule, stream.name, 1, 0)
    text[-1] = NEVER_IN_UTF8
    return Block(text, stream.name, 1, NEVER_IN_UTF8, unit="", repaired=places)


def invalid_utf8(text: Bytes, place: str) -> TextError:
    """Return the error for a text that is not UTF-8. place: the location and the byte, for the message."""
    kind = kind_of(text[:6].tobytes())
    if kind is None and 0 in text[:4096]:
        kind = "it looks like a binary file"
    advice = kind or (
        "convert it to UTF-8 first, for instance with iconv, or set encoding='latin-1' or what it is in, or "
        "encoding_errors='replace' or encoding_errors='skip', if a command has that"
    )
    return TextError(f"{place} is not UTF-8; {advice}")


def _ended_by_newlines(stream: ByteStream, *, wait: bool = True, whole: bool = False) -> Iterator[Bytes]:
    """Yield the bytes of a stream, split after newlines unless `whole`; a last line without a newline gets one."""
    held: list[Bytes] = []  # of a line whose end has not been read yet
    held_size = 0
    rest = np.empty(0, np.uint8)  # bytes after the last newline
    while True:
        buffer = np.empty(rest.size + BLOCK_BYTES, np.uint8)
        buffer[: rest.size] = rest
        read = stream.fill(buffer[rest.size :], wait=wait)
        data = buffer[: rest.size + read]
        cut = 0 if whole or not read else _after_last_newline(data)
        if cut:
            yield np.concatenate([*held, data[:cut]]) if held else data[:cut]
            held, held_size, rest = [], 0, data[cut:]
            continue
        if data.size:
            held.append(data if data.size > BLOCK_BYTES // 2 else data.copy())  # not to keep an empty buffer
            held_size, rest = held_size + data.size, data[:0]
        if not read:
            break
        if held_size > DOCUMENT_BYTES:
            raise TextError(
                f"{stream.name}: the document at offset {stream.size - held_size:,} is longer than {DOCUMENT_BYTES:,} "
                "bytes, the most that one may have; cut it into lines"
            )
    if held or whole:
        is_ended = bool(held) and held[-1][-1] == LINE_FEED
        yield np.concatenate([*held, np.array([] if is_ended else [LINE_FEED], np.uint8)])


def _after_last_newline(data: Bytes) -> int:
    """Return the position after the last newline; 0 if there is none."""
    start = max(data.size - _TAIL, 0)
    index = data[start:].tobytes().rfind(b"\n")
    return start + index + 1 if index >= 0 or start == 0 else data[:start].tobytes().rfind(b"\n") + 1


def _clean(text: Bytes, rule: EncodingErrors, name: str, line: int, place: int) -> tuple[Bytes, int, int]:
    """Return the text without a byte-order mark and carriage returns at line ends; the numbers of newlines and of
    repairs.

    line, place: the line and offset of the first byte, for messages.
    """
    invalid, lines, has_returns = _scan(text)
    places = 0
    if invalid is not None:
        if rule == "strict":
            line += int(np.count_nonzero(text[:invalid] == LINE_FEED))
            byte = f"byte 0x{text[invalid]:02x} at offset {place + invalid}"
            raise invalid_utf8(text, f"{name}, line {line}: {byte}")
        data, places = repair(text, rule)
        text = byte_array(data)
        _, lines, has_returns = _scan(text)
    if place == 0 and text[: len(_BYTE_ORDER_MARK)].tobytes() == _BYTE_ORDER_MARK:
        text = text[len(_BYTE_ORDER_MARK) :]
    if has_returns:
        text = byte_array(text.tobytes().replace(b"\r\n", b"\n"))
    return text, lines, places


def _scan(text: Bytes) -> tuple[int | None, int, bool]:
    """Return the position of the first byte that is not UTF-8; and before it, the newlines, and if any carriage
    return.
    """
    lines, has_returns = 0, False
    for start, window in windows(text):
        try:
            codecs.utf_8_decode(window.data, "strict", True)
        except UnicodeDecodeError as error:
            return start + error.start, lines, has_returns
        lines += int(np.count_nonzero(window == LINE_FEED))
        has_returns = has_returns or bool((window == _CARRIAGE_RETURN).any())
    return None, lines, has_returns
