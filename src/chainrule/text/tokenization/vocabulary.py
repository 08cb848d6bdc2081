"""The vocabulary: the tokens that a model knows, and their ids.

Ids 0, 1, 2 are <unk>, <s>, </s>; the others follow in order of first occurrence. The bytes of all tokens are in one
array, with an open-addressing hash table for look-up. Every match is compared byte by byte, so that two tokens are
never confused.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.vocabulary_kernels import DONE, FIRST_ORDINARY, FULL, absorb, insert_all, look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Int32, Int64, UInt8, UInt64
    from numpy import ndarray

_BATCH = 64  # tokens looked up together
_FIRST_SLOTS = 1024  # slots to search for an empty one first; a valid table almost surely has one there
Markers = Literal["error", "skip", "keep"]
MARKER_TOKENS = ("<unk>", "<s>", "</s>")
# The markers removed from a text, by rule. <s> and </s> carry no information beyond the ends of lines.
DROPPED: dict[Markers, frozenset[bytes]] = {
    "error": frozenset(),
    "skip": frozenset((b"<unk>", b"<s>", b"</s>")),
    "keep": frozenset((b"<s>", b"</s>")),
}


@dataclass(frozen=True)
class Encoded:
    """Documents as one stream of ids, each document followed by </s>."""

    ids: Int32[ndarray, " T"]
    text: UInt8[ndarray, " bytes"]  # the documents as written by the splitter

    @cached_property
    def starts(self) -> Int64[ndarray, " T"]:
        """The position of each token's first byte in the text; for </s>, that of the newline."""
        is_newline = self.text == ord("\n")
        is_gap = is_newline | (self.text == ord(" "))
        begins = ~is_gap
        begins[1:] &= is_gap[:-1]
        return np.flatnonzero(begins | is_newline)

    def surface(self, position: int) -> bytes:
        """Return the token at a position as written in the text; empty for </s>."""
        start = stop = int(self.starts[position])
        while self.text[stop] not in b" \n":
            stop += 1
        return self.text[start:stop].tobytes()


class Vocabulary:
    """Tokens and their ids. Only `encode` with grow=True and `absorb` add tokens."""

    def __init__(self, tokens: Iterable[bytes] = ()) -> None:
        """Store the tokens after the markers.

        tokens: those after the three markers, in the order of their ids, without white space or duplicates.
        """
        spelled = [*(marker.encode() for marker in MARKER_TOKENS), *tokens]
        lengths = np.fromiter(map(len, spelled), np.int64, len(spelled))
        self._adopt(byte_array(b"".join(spelled)), np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def from_arrays(
        cls,
        text: UInt8[ndarray, " bytes"],
        offsets: Int64[ndarray, " tokens+1"],
        slots: UInt64[ndarray, " slots"] | None = None,
    ) -> Vocabulary:
        """Restore a vocabulary from `arrays`. Raises ModelFormatError if they contradict each other.

        slots: the hash table; the ids in it are checked when used. Without it, it is built, and duplicate tokens raise.
        """
        if text.dtype != np.uint8 or text.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
            raise ModelFormatError(
                f"the vocabulary's text and offsets are {text.dtype} {text.shape} and {offsets.dtype} {offsets.shape}, "
                "expected one dimension of uint8 and one of int64; the file is damaged"
            )
        offsets = offsets.copy()  # kernels trust them once checked, so later changes of the file must not reach them
        ordered = offsets.size > len(MARKER_TOKENS) and offsets[0] == 0 and offsets[-1] == text.size
        if not ordered or np.any(offsets[1:] <= offsets[:-1]):
            raise ModelFormatError(
                "the vocabulary's offsets do not rise from 0 to the size of its text; the file is damaged"
            )
        if offsets[:4].tolist() != [0, 5, 8, 12] or bytes(text[:12]) != b"<unk><s></s>":
            raise ModelFormatError("the vocabulary does not begin with <unk>, <s>, </s>; the file is damaged")
        expected = slots_needed(offsets.size - 1)
        if slots is not None and (slots.dtype != np.uint64 or slots.shape != (expected,)):
            raise ModelFormatError(
                f"the vocabulary's hash table is {slots.dtype} {slots.shape}, expected {expected} of uint64; "
                "the file is damaged"
            )
        if slots is not None and slots[:_FIRST_SLOTS].all() and slots.all():
            raise ModelFormatError("the vocabulary's hash table has no empty slot, so a search in it would never end")
        vocabulary = cls.__new__(cls)
        vocabulary._adopt(text, offsets, slots)
        return vocabulary

    def _adopt(
        self,
        text: UInt8[ndarray, " bytes"],
        offsets: Int64[ndarray, " tokens+1"],
        slots: UInt64[ndarray, " slots"] | None = None,
    ) -> None:
        self._size = offsets.size - 1
        self._text, self._offsets = text, offsets  # with spare capacity while growing
        self._given_slots = slots  # the caller's, so not to be changed
        self._slots = self._build_slots(slots_needed(self._size)) if slots is None else slots

    def _build_slots(self, size: int) -> UInt64[ndarray, " slots"]:
        slots = np.zeros(size, np.uint64)
        twin = insert_all(self._text, self._offsets, self._size, slots)
        if twin >= 0:
            raise ModelFormatError(f"the vocabulary has {self.token(twin)!r} twice")
        return slots

    def __len__(self) -> int:
        return self._size

    def id_of(self, token: str) -> int:
        """Return the id of a token; that of <unk> if it is unknown."""
        if token in MARKER_TOKENS:
            return MARKER_TOKENS.index(token)
        if not token or set(token) & set(" \n"):
            return UNKNOWN
        return int(self.encode(byte_array(token.encode("utf-8", "surrogatepass") + b"\n")).ids[0])

    def token(self, token_id: int) -> str:
        """Return the token of an id. Raises SettingError if there is no such id."""
        return self.token_bytes(token_id).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        if not 0 <= token_id < self._size:
            raise SettingError(f"there is no token {token_id}: the vocabulary has {self._size}")
        return self._text[self._offsets[token_id] : self._offsets[token_id + 1]].tobytes()

    def tokens(self) -> list[bytes]:
        """Return all tokens, by id."""
        text, offsets = self._text.tobytes(), self._offsets[: self._size + 1].tolist()
        return [text[start:stop] for start, stop in itertools.pairwise(offsets)]

    def arrays(self) -> dict[str, ndarray]:
        """Return the arrays for `from_arrays`, which do not depend on how the vocabulary has grown."""
        needed = slots_needed(self._size)
        return {
            "text": self._text[: self._offsets[self._size]],
            "offsets": self._offsets[: self._size + 1],
            "slots": self._slots if self._slots.size == needed else self._build_slots(needed),
        }

    def encode(self, text: UInt8[ndarray, " bytes"], *, markers: Markers = "error", grow: bool = False) -> Encoded:
        """Return the ids of tokens as written by a splitter: separated by single spaces, with a newline after each
        document.

        markers: for a literal <s>, </s> or <unk> in the text: "error" raises MarkerError, "skip" removes it, and "keep"
        removes <s> and </s> and counts <unk> as the unknown word.
        grow: whether a new token gets the next id, or becomes <unk>.
        """
        if grow:
            self._own_slots()
        if markers != "error":
            text = _drop_tokens(text, DROPPED[markers])
        ids = np.empty(text.size, np.int32)
        places, hashes = np.empty((2, _BATCH), np.int64), np.empty(_BATCH, np.uint64)
        position = count = 0
        while True:
            status, position, count, self._size = look_up(
                text,
                position,
                self._slots,
                self._text,
                self._offsets,
                self._size,
                grow,
                markers == "keep",
                ids,
                count,
                places,
                hashes,
            )
            if status == DONE:
                return Encoded(ids[:count], text)
            if status == FULL:
                self._make_room(text.size)
                continue
            document = int(np.count_nonzero(text[:position] == ord("\n"))) + 1
            raise MarkerError(text[position:].tobytes().split(maxsplit=1)[0].decode(), document)

    def absorb(self, other: Vocabulary) -> Int32[ndarray, " T"]:
        """Add the tokens of another vocabulary, in their order; return the id in this vocabulary of each id in the
        other.
        """
        self._own_slots()
        mapping = np.arange(len(other), dtype=np.int32)  # markers have the same ids in all
        done = FIRST_ORDINARY
        while True:
            given = other._text, other._offsets, done, mapping
            done, self._size = absorb(*given, self._slots, self._text, self._offsets, self._size)
            if done == mapping.size:
                return mapping
            self._make_room(int(other._offsets[len(other)]))

    def _own_slots(self) -> None:
        if self._slots is self._given_slots:
            self._slots, self._given_slots = self._slots.copy(), None

    def _make_room(self, text_size: int) -> None:
        """Double the capacity, between two calls of the kernel."""
        used = int(self._offsets[self._size])
        self._text = _grow(self._text, used, 2 * used + text_size)
        self._offsets = _grow(self._offsets, self._size + 1, 2 * self._size + 1024)
        self._slots = self._build_slots(slots_needed(2 * self._size))


class MarkerError(TextError):
    """A text contains a literal marker. document: counted from 1 within the encoded text."""

    def __init__(self, marker: str, document: int, place: str | None = None) -> None:
        self.marker, self.document = marker, document
        super().__init__(
            f"{place or f'the text, line {document}'}: {marker} occurs in the text, but is a marker of the model. "
            "Remove it, or set markers='skip', which removes markers, or markers='keep', which counts <unk> as the "
            "unknown word; where this cannot be set, the rule of training applies"
        )

    def at(self, place: str) -> MarkerError:
        """Return the same error with its location in a file."""
        return MarkerError(self.marker, self.document, place)


def _drop_tokens(text: UInt8[ndarray, " bytes"], dropped: frozenset[bytes]) -> UInt8[ndarray, " bytes"]:
    """Remove tokens from documents as written by a splitter."""
    data = text.tobytes()
    if not any(token in data for token in dropped):
        return text
    lines = (line.split(b" ") for line in data.split(b"\n"))
    return byte_array(b"\n".join(b" ".join(token for token in line if token not in dropped) for line in lines))


def slots_needed(size: int) -> int:
    """Return the size of a hash table that is at most half full with `size` tokens."""
    return 1 << max(10, int(2 * size).bit_length())


def _grow(array: ndarray, used: int, capacity: int) -> ndarray:
    grown = np.empty(capacity, array.dtype)
    grown[:used] = array[:used]
    return grown
