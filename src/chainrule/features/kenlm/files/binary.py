"""The binaries of KenLM's build_binary: detects the kind of a file, and reads what all kinds have in common.

A binary has a header, a vocabulary of hashes, the n-grams as a hash table ("probing") or as a trie, and the words, each
terminated by NUL. Files are mapped and not trusted: sizes are checked against the file's before anything is read.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from chainrule.base.files import open_regular
from chainrule.errors import ModelFormatError
from chainrule.ngram.arpa.reading_kernels import MAX_BACKOFF, MIN_BACKOFF
from chainrule.ngram.config import MAX_ORDER
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

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
_SUPPORTED_VERSION = 5
_MAGIC_BYTES = 56
_TEST_VALUES = struct.pack("<3f3IQ", 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1)
_PARAMETERS = struct.Struct("<B3xfIB3xI")  # order, multiplier, kind, has_words, version of the layout
_WHITE = b" \t\n\r"
_REBUILD_CURRENT = "build it again from its ARPA file with KenLM's current build_binary"
_REBUILD = "get the file again, or build it again from its ARPA file with build_binary"


@dataclass(frozen=True)
class Binary:
    """A mapped file with a valid header. counts: n-grams by order, as the header claims."""

    path: str
    data: UInt8[ndarray, " bytes"]
    kind: int
    counts: tuple[int, ...]
    multiplier: float  # the size of the hash tables relative to their contents
    has_words: bool
    version: int  # of the layout of this kind
    body: int  # the offset after the header

    @property
    def order(self) -> int:
        return len(self.counts)

    def fail(self, found: str, expected: str, advice: str = _REBUILD) -> NoReturn:
        raise ModelFormatError(f"{self.path}: found {found}, expected {expected}; {advice}")

    def check_size(self, stop: int) -> None:
        """Raises ModelFormatError where the file ends before this offset."""
        if stop > self.data.size:
            self.fail(f"{self.data.size:,} bytes", f"{stop:,} or more for the n-grams of the header ({self.counts})")

    def check_version(self, supported: int) -> None:
        if self.version != supported:
            self.fail(
                f"version {self.version} of the {KINDS[self.kind]} layout", f"version {supported}", _REBUILD_CURRENT
            )


def is_binary(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a KenLM binary, of any version, by its first bytes. Raises OSError."""
    with open_regular(path) as file:
        return file.read(len(_ANY_MAGIC)) == _ANY_MAGIC


def open_binary(path: str | os.PathLike[str]) -> Binary:
    """Maps a file and checks its header. Raises ModelFormatError."""
    name = os.fspath(path)
    try:
        with open_regular(name) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelFormatError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    data = np.frombuffer(mapped, np.uint8)
    head = data[:4096].tobytes()
    _check_magic(name, head)
    start = _MAGIC_BYTES + len(_TEST_VALUES)
    if len(head) < start + _PARAMETERS.size:
        raise ModelFormatError(f"{name}: found {len(head)} bytes, expected a complete header; {_REBUILD}")
    order, multiplier, kind, has_words, version = _PARAMETERS.unpack_from(head, start)
    start += _PARAMETERS.size
    if kind >= len(KINDS):
        raise ModelFormatError(
            f"{name}: found data structure {kind}, expected 0 to {len(KINDS) - 1} ({', '.join(KINDS)}); "
            f"{_REBUILD_CURRENT}"
        )
    if not 2 <= order <= MAX_ORDER:
        raise ModelFormatError(f"{name}: found an order of {order}, expected 2 to {MAX_ORDER}; {_REBUILD}")
    if len(head) < start + 8 * order:
        raise ModelFormatError(f"{name}: found {len(head)} bytes, expected a complete header; {_REBUILD}")
    counts = struct.unpack_from(f"<{order}Q", head, start)
    if max(counts) > data.size or counts[0] < len(MARKER_TOKENS) - 1:
        raise ModelFormatError(
            f"{name}: found {counts} n-grams by order in its header, expected counts that fit a file of {data.size:,} "
            f"bytes, with <s> and </s>; {_REBUILD}"
        )
    body = start + 8 * order
    if not 1 <= multiplier < 1e6:  # also fails for NaN
        raise ModelFormatError(f"{name}: found a multiplier of {multiplier}, expected 1 or more; {_REBUILD}")
    return Binary(name, data, kind, counts, multiplier, has_words != 0, version, body + -body % 8)


def _check_magic(name: str, head: bytes) -> None:
    magic = _VERSION.match(head)
    if head.startswith(_ANY_MAGIC + b" incomplete"):
        raise ModelFormatError(f"{name}: KenLM did not finish building this binary; build it again")
    if magic is None:
        raise ModelFormatError(f"{name}: found {head[:60]!r}, expected the first line of a KenLM binary; {_REBUILD}")
    if int(magic[1]) != _SUPPORTED_VERSION:
        raise ModelFormatError(
            f"{name}: found format version {int(magic[1])} of KenLM's binaries, expected {_SUPPORTED_VERSION}; "
            f"{_REBUILD_CURRENT}"
        )
    found = head[_MAGIC_BYTES : _MAGIC_BYTES + len(_TEST_VALUES)]
    if found == _TEST_VALUES:
        return
    if found == struct.pack(">3f3IQ", *struct.unpack("<3f3IQ", _TEST_VALUES)):
        raise ModelFormatError(
            f"{name}: found a binary of a machine with the other byte order, expected a little-endian one; "
            f"{_REBUILD_CURRENT}"
        )
    raise ModelFormatError(
        f"{name}: found test values that no 64-bit machine writes, expected those of format {_SUPPORTED_VERSION}; "
        f"{_REBUILD}"
    )


def read_words(binary: Binary, offset: int, expected: int) -> tuple[Vocabulary, Int32[ndarray, " vocab"]]:
    """The vocabulary, from the words at the end of a file; and our id of each of KenLM's ids.

    Ours begin with <unk>, <s>, </s>; the others follow in the order of the file. Raises ModelFormatError.
    """
    if not binary.has_words:
        binary.fail("hashes of words only", "the words, too", "build it again without the option -v of build_binary")
    if expected > binary.data.size:
        binary.fail(f"a vocabulary size of {expected:,}", "fewer words than the file has bytes")
    text = binary.data[offset:]
    ends = np.flatnonzero(text == 0)
    if ends.size != expected or ends[-1] != text.size - 1:
        binary.fail(f"{ends.size:,} words at the end", f"{expected:,} and nothing after them")
    try:
        words = text.tobytes().decode().encode().split(b"\0")[:-1]
    except UnicodeDecodeError:
        binary.fail("words that are not UTF-8", "UTF-8", "convert its ARPA file with iconv and build it again")
    if words[0] != MARKER_TOKENS[UNKNOWN].encode():
        binary.fail(f"{words[0][:60]!r} as the first word", "<unk>")
    missing = [marker for marker in MARKER_TOKENS if words.count(marker.encode()) != 1]
    if missing:
        binary.fail(f"no {missing[0]}, or several, among the words", "<s> and </s> once", "create the model with both")
    if any(white in text[: ends[-1]].tobytes() for white in (bytes([byte]) for byte in _WHITE)) or b"" in words:
        binary.fail("a word that is empty or contains white space", "words without white space")
    begin, end = (words.index(MARKER_TOKENS[marker].encode()) for marker in (BEGIN, END))
    others = np.ones(expected, np.bool_)
    others[[UNKNOWN, begin, end]] = False
    kenlm_ids = np.concatenate([[UNKNOWN, begin, end], np.flatnonzero(others)])
    ours = np.empty(expected, np.int32)
    ours[kenlm_ids] = np.arange(expected, dtype=np.int32)
    spelled = [words[kenlm_id] for kenlm_id in kenlm_ids.tolist()]
    offsets = np.concatenate([[0], np.cumsum(np.fromiter(map(len, spelled), np.int64, expected))])
    try:
        return Vocabulary.from_arrays(byte_array(b"".join(spelled)), offsets), ours
    except ModelFormatError as error:
        raise ModelFormatError(f"{binary.path}: {error}") from error


def check_numbers(binary: Binary, log10_probs: Float32[ndarray, " n"], log10_backoffs: Float32[ndarray, " n"]) -> None:
    """Raises ModelFormatError where a number is not a possible log10 probability or backoff."""
    for name, values, low, high in (
        ("probability", log10_probs, -np.inf, 0.0),
        ("backoff", log10_backoffs, MIN_BACKOFF, MAX_BACKOFF),
    ):
        if values.size and not (values.min() >= low and values.max() <= high):  # also fails for NaN
            binary.fail(f"a log10 {name} of {values.min()} or {values.max()}", f"from {low:g} to {high:g}")
