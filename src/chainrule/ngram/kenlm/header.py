"""The binaries of KenLM's build_binary: what kind of one a file is, and what all kinds have in common.

A header, a vocabulary of hashes, the n-grams as a hash table ("probing") or as a trie, and the words themselves, each
with a NUL behind it. Files are mapped and not believed: sizes are compared with the file's before anything is read.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.ngram.arpa.reading_kernels import MAX_BACKOFF, MIN_BACKOFF
from chainrule.ngram.config import MAX_ORDER
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.block import byte_array
from chainrule.text.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, UInt8
    from numpy import ndarray

PROBING, REST_PROBING, TRIE, QUANTISED_TRIE, ARRAY_TRIE, QUANTISED_ARRAY_TRIE = range(6)
KINDS = (
    "probing",
    "rest probing",
    "trie",
    "quantised trie",
    "array-compressed trie",
    "quantised array-compressed trie",
)
LOG_10 = float(np.log(10))

_ANY_MAGIC = b"mmap lm http://kheafield.com/code"
_VERSION = re.compile(re.escape(_ANY_MAGIC) + rb" format version (\d{1,9})\n\0")
_VERSION_KNOWN = 5
_MAGIC_BYTES = 56
_TEST_VALUES = struct.pack("<3f3IQ", 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1)
_PARAMETERS = struct.Struct("<B3xfIB3xI")  # order, multiplier, kind, whether there are words, the layout's version
_WHITE = b" \t\n\r"
_BY_ANOTHER = "build it again from its ARPA file with KenLM's current build_binary"
_AGAIN = "get it anew, or build it again from its ARPA file with build_binary"


@dataclass(frozen=True)
class Binary:
    """A file whose header is sound. counts: n-grams by order, as the header claims."""

    path: str
    data: UInt8[ndarray, " bytes"]
    kind: int
    counts: tuple[int, ...]
    multiplier: float  # how much room the hash tables have
    has_words: bool
    version: int  # of the layout of its kind
    body: int  # the place behind the header

    @property
    def order(self) -> int:
        return len(self.counts)

    def fail(self, found: str, expected: str, advice: str = _AGAIN) -> NoReturn:
        raise ModelFormatError(f"{self.path}: found {found}, expected {expected}; {advice}")

    def check_size(self, stop: int) -> None:
        """Raises ModelFormatError where the file ends before this place."""
        if stop > self.data.size:
            self.fail(
                f"{self.data.size:,} bytes", f"{stop:,} or more for the n-grams that the header tells ({self.counts})"
            )

    def check_version(self, known: int) -> None:
        if self.version != known:
            self.fail(f"version {self.version} of the {KINDS[self.kind]} layout", f"version {known}", _BY_ANOTHER)


def is_binary(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as KenLM's binaries do, of whatever version. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(len(_ANY_MAGIC)) == _ANY_MAGIC


def open_binary(path: str | os.PathLike[str]) -> Binary:
    """Maps a file and checks its header. Raises ModelFormatError."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelFormatError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    data = np.frombuffer(mapped, np.uint8)
    head = data[:4096].tobytes()
    _check_magic(name, head)
    start = _MAGIC_BYTES + len(_TEST_VALUES)
    if len(head) < start + _PARAMETERS.size:
        raise ModelFormatError(f"{name}: found {len(head)} bytes, expected a whole header; {_AGAIN}")
    order, multiplier, kind, has_words, version = _PARAMETERS.unpack_from(head, start)
    start += _PARAMETERS.size
    if kind >= len(KINDS):
        raise ModelFormatError(
            f"{name}: found a data structure of number {kind}, expected 0 to {len(KINDS) - 1} ({', '.join(KINDS)}); "
            f"{_BY_ANOTHER}"
        )
    if not 2 <= order <= MAX_ORDER:
        raise ModelFormatError(f"{name}: found an order of {order}, expected 2 to {MAX_ORDER}; {_AGAIN}")
    if len(head) < start + 8 * order:
        raise ModelFormatError(f"{name}: found {len(head)} bytes, expected a whole header; {_AGAIN}")
    counts = struct.unpack_from(f"<{order}Q", head, start)
    if max(counts) > data.size or counts[0] < len(MARKER_TOKENS) - 1:
        raise ModelFormatError(
            f"{name}: found {counts} n-grams by order in its header, expected what fits a file of {data.size:,} bytes "
            f"and <s> and </s>; {_AGAIN}"
        )
    body = start + 8 * order
    if not 1 <= multiplier < 1e6:  # NaN is not, either
        raise ModelFormatError(f"{name}: found a multiplier of {multiplier}, expected 1 or more; {_AGAIN}")
    return Binary(name, data, kind, counts, multiplier, has_words != 0, version, body + -body % 8)


def _check_magic(name: str, head: bytes) -> None:
    magic = _VERSION.match(head)
    if head.startswith(_ANY_MAGIC + b" incomplete"):
        raise ModelFormatError(f"{name}: KenLM did not finish building this binary; build it again")
    if magic is None:
        raise ModelFormatError(f"{name}: found {head[:60]!r}, expected the first line of a KenLM binary; {_AGAIN}")
    if int(magic[1]) != _VERSION_KNOWN:
        raise ModelFormatError(
            f"{name}: found format version {int(magic[1])} of KenLM's binaries, expected {_VERSION_KNOWN}; "
            f"{_BY_ANOTHER}"
        )
    found = head[_MAGIC_BYTES : _MAGIC_BYTES + len(_TEST_VALUES)]
    if found == _TEST_VALUES:
        return
    if found == struct.pack(">3f3IQ", *struct.unpack("<3f3IQ", _TEST_VALUES)):
        raise ModelFormatError(
            f"{name}: found a binary of a machine with the other byte order, expected a little-endian one; "
            f"{_BY_ANOTHER}"
        )
    raise ModelFormatError(
        f"{name}: found test values that no 64-bit machine writes, expected those of format {_VERSION_KNOWN}; {_AGAIN}"
    )


def words_at(binary: Binary, place: int, expected: int) -> tuple[Vocabulary, Int32[ndarray, " vocab"]]:
    """The vocabulary, read from the words at the end of a file; and by id there, our ids.

    Ours are <unk>, <s>, </s>, then the others in the order of the file. Raises ModelFormatError.
    """
    if not binary.has_words:
        binary.fail("no words, only their hashes", "a binary with its vocabulary", "build it without build_binary's -v")
    if expected > binary.data.size:
        binary.fail(f"a vocabulary of {expected:,}", "no more words than the file has bytes")
    text = binary.data[place:]
    ends = np.flatnonzero(text == 0)
    if ends.size != expected or ends[-1] != text.size - 1:
        binary.fail(f"{ends.size:,} words at the end", f"{expected:,} and nothing behind them")
    try:
        words = text.tobytes().decode().encode().split(b"\0")[:-1]
    except UnicodeDecodeError:
        binary.fail("words that are not UTF-8", "UTF-8", "convert its ARPA file with iconv and build it again")
    if words[0] != MARKER_TOKENS[UNKNOWN].encode():
        binary.fail(f"{words[0][:60]!r} as first word", "<unk>")
    missing = [marker for marker in MARKER_TOKENS if words.count(marker.encode()) != 1]
    if missing:
        binary.fail(f"{missing[0]} not once among the words", "<s> and </s>", "make the model with both")
    if any(white in text[: ends[-1]].tobytes() for white in (bytes([byte]) for byte in _WHITE)) or b"" in words:
        binary.fail("a word that is empty or has white space in it", "words without")
    begin, end = (words.index(MARKER_TOKENS[marker].encode()) for marker in (BEGIN, END))
    others = np.ones(expected, np.bool_)
    others[[UNKNOWN, begin, end]] = False
    by_our_id = np.concatenate([[UNKNOWN, begin, end], np.flatnonzero(others)])
    ours = np.empty(expected, np.int32)
    ours[by_our_id] = np.arange(expected, dtype=np.int32)
    spelled = [words[number] for number in by_our_id.tolist()]
    offsets = np.concatenate([[0], np.cumsum(np.fromiter(map(len, spelled), np.int64, expected))])
    try:
        return Vocabulary.from_arrays(byte_array(b"".join(spelled)), offsets), ours
    except ModelFormatError as error:
        raise ModelFormatError(f"{binary.path}: {error}") from error


def check_numbers(binary: Binary, log10_probs: Float32[ndarray, " n"], log10_backoffs: Float32[ndarray, " n"]) -> None:
    """Raises ModelFormatError where one is no log10 probability or back-off."""
    for name, values, low, high in (
        ("probability", log10_probs, -np.inf, 0.0),
        ("back-off", log10_backoffs, MIN_BACKOFF, MAX_BACKOFF),
    ):
        if values.size and not (values.min() >= low and values.max() <= high):  # NaN is not, either
            binary.fail(f"a log10 {name} of {values.min()} or {values.max()}", f"from {low:g} to {high:g}")
