"""The tokenizer: text to token ids, and back. It is a splitter with a vocabulary.

In texts with masks, each mask stands for one token to be predicted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import map_file
from chainrule.base.threads import map_in_order
from chainrule.errors import OutputError, SettingError
from chainrule.protocol import BEGIN, END
from chainrule.text.corpus.block import LINE_FEED, NEVER_IN_UTF8, byte_array
from chainrule.text.tokenization.splitters import AS_IT_IS, Normaliser, Splitter, splitter_named
from chainrule.text.tokenization.vocabulary import DROPPED, MARKER_TOKENS, Encoded, MarkerError, Markers, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import BinaryIO

    from jaxtyping import Int32, UInt8
    from numpy import ndarray

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.detokenizer import Alignment


TIE = "‿"
_MARKS = {" ": "·", "\n": "¶", "\t": "→", "\r": "←", "\u00a0": "⍽"}
# White space, and characters that are invisible or turn the direction of what follows; bytes that are no text.
_UNSEEN = re.compile(
    "[\\s\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc\ufffe\uffff\ud800-\udfff]"
)


def show_unseen(text: str) -> str:
    """Return the text with a mark for each character without ink, see `Tokenizer.read_tokens`: for display only."""
    return _UNSEEN.sub(_mark, text)


def _mark(unseen: re.Match[str]) -> str:
    """Return what is shown for a character without ink. A byte that is no character comes as a lone surrogate."""
    c = unseen[0]
    return _MARKS.get(c) or (f"<{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else f"‹U+{ord(c):04X}›")


class Tokenizer:
    """Encodes and decodes text. `decode(encode(text))` is the normalised text if every token is known."""

    def __init__(
        self,
        splitter: Splitter,
        vocabulary: Vocabulary,
        markers: Markers = "error",
        normaliser: Normaliser = AS_IT_IS,
    ) -> None:
        if markers not in DROPPED:
            raise SettingError(f"there is no rule for markers called {markers!r}; choose one of {', '.join(DROPPED)}")
        self.splitter, self.vocabulary, self.markers, self.normaliser = splitter, vocabulary, markers, normaliser

    @classmethod
    def untrained(cls, name: str = "word", markers: Markers = "error", normaliser: Normaliser = AS_IT_IS) -> Tokenizer:
        """Return a tokenizer that knows only the markers and the splitter's alphabet; `encode` with grow=True adds
        tokens.

        Raises SettingError.
        """
        splitter = splitter_named(name)
        return cls(splitter, Vocabulary(splitter.alphabet), markers, normaliser)

    @property
    def name(self) -> str:
        return self.splitter.name

    @property
    def loses(self) -> str:
        """The properties of a text that its normalised form does not preserve, for signatures."""
        return ",".join([*self.splitter.loses, *self.normaliser.steps]) or "nothing"

    @property
    def spells_everything(self) -> bool:
        """Whether its tokens can spell any text, so that no token is ever unknown."""
        return self.splitter.spells_everything and set(self.splitter.alphabet) <= set(self.vocabulary.tokens())

    @property
    def sees_markers(self) -> bool:
        """Whether a literal <unk> in a text comes out as one token, for which `markers` is a rule; where tokens are
        subwords or characters, it is cut up like any other text.
        """
        rewritten = self.splitter.rewrite(byte_array(b"<unk>\n"), LINE_FEED)
        return b"<unk>" in rewritten.tobytes().split()

    @property
    def vocabulary_size(self) -> int:
        return len(self.vocabulary)

    def with_markers(self, markers: Markers) -> Tokenizer:
        """Return the same tokenizer with another rule for literal markers. Raises SettingError."""
        return Tokenizer(self.splitter, self.vocabulary, markers, self.normaliser)

    def with_vocabulary(self, vocabulary: Vocabulary) -> Tokenizer:
        """Return the same tokenizer with another vocabulary."""
        return Tokenizer(self.splitter, vocabulary, self.markers, self.normaliser)

    def encode(self, text: UInt8[ndarray, " bytes"], *, document_end: int = LINE_FEED, grow: bool = False) -> Encoded:
        """Return the ids of documents, each ended by the byte `document_end`. text: valid UTF-8. Raises MarkerError."""
        rewritten = self.splitter.rewrite(self.normaliser(text, document_end), document_end)
        return self.vocabulary.encode(rewritten, markers=self.markers, grow=grow)

    def encode_block(self, block: Block, *, grow: bool = False) -> Encoded:
        """Encode a block as `encode` does; a MarkerError names file and line."""
        try:
            return self.encode(block.text, document_end=block.document_end, grow=grow)
        except MarkerError as error:
            raise error.at(block.locate(error.document)) from None

    def encode_texts(self, texts: Iterable[str]) -> Encoded:
        """Encode texts, each as one document, even if it has newlines."""
        texts = [*texts, ""]
        try:
            lines = "\n".join(texts).encode("utf-8", "replace")
        except TypeError:
            odd = next(text for text in texts if not isinstance(text, str))
            raise TypeError(f"this takes text, each a str; found {odd!r}") from None
        if lines.count(b"\n") == len(texts) - 1:  # one pass over all, since no text has a newline
            return self.encode(byte_array(lines))
        joined = bytes([NEVER_IN_UTF8]).join([text.encode("utf-8", "replace") for text in texts])
        return self.encode(byte_array(joined), document_end=NEVER_IN_UTF8)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens; </s> becomes a newline."""
        tokens = b" ".join(b"\n" if token == END else self.vocabulary.token_bytes(int(token)) for token in ids)
        return self.restore(tokens.replace(b" \n", b"\n").replace(b"\n ", b"\n")).decode("utf-8", "replace")

    def shown(self, ids: Iterable[int]) -> list[str]:
        """Return each token as people read it, see `read_tokens`."""
        return self.read_tokens([self.vocabulary.token_bytes(int(token)) for token in ids])

    def read_tokens(self, tokens: Sequence[bytes]) -> list[str]:
        """Return tokens, as the vocabulary spells them, as people read them: their text, with a mark for what has no
        ink.

        · is a space, ¶ a line end, → a tab, ← a carriage return, ⍽ a space that does not break; ‹U+200B› is another
        character that is invisible or turns the text after it, <E2> a byte that is no character by itself. Where tokens
        stand apart by themselves, ‿ marks the side on which one touches its neighbour. For display only.

        good:  bpe.read_tokens(["Ġthe".encode(), "s".encode()]) == ["·the", "s"]
        good:  word.read_tokens([b"the", "￭s".encode()]) == ["the", "‿s"]
        """
        # Each token between two others, so that all sides are seen; the first line tells whether tokens stand apart.
        texts = [token.decode("utf-8", "replace") for token in tokens]
        lines = "".join(f"x {text or 'x'} x\n" for text in ("x", *texts))
        aligned = self.splitter.align(byte_array(lines.encode()))
        starts, stops = aligned.starts.reshape(-1, 4), aligned.stops.reshape(-1, 4)  # x, the token, x, </s>
        touches_left, touches_right = starts[:, 1] == stops[:, 0], starts[:, 2] == stops[:, 1]
        tie = "" if touches_left[0] else TIE
        written = aligned.text.tobytes()
        shown = []
        for i, text in enumerate(texts, 1):
            if text in MARKER_TOKENS or not text:
                shown.append(text)
                continue
            own = show_unseen(written[starts[i, 1] : stops[i, 1]].decode("utf-8", "surrogateescape"))
            shown.append((tie if touches_left[i] else "") + own + (tie if touches_right[i] else ""))
        return shown

    def restore(self, tokens: bytes) -> bytes:
        """Return the normalised text of tokens, which are separated by spaces, with a newline after each document."""
        return self.splitter.align(byte_array(tokens)).text.tobytes()

    def align(self, encoded: Encoded) -> Alignment:
        """Return the normalised text of encoded documents, and the position of each token in it, including unknown
        ones.
        """
        return self.splitter.align(encoded.text)


def encode_stream(
    tokenizer: Tokenizer,
    source: Source,
    progress: Progress = silent,
    *,
    grow: bool = False,
    expecting: Callable[[int], None] | None = None,
    file: BinaryIO | None = None,
) -> Int32[ndarray, " T"]:
    """Encode a whole source, on threads, as one stream of ids, with </s> after each document.

    grow: whether to add new tokens to the tokenizer's vocabulary, in order of first occurrence.
    expecting: a callback, called once, after the first block, with the expected number of tokens, if the source knows
    its size. file: where to write the ids; the stream is then mapped from there, and may be larger than memory.
    Raises TextError with file and line; OutputError if the file cannot be written.
    """
    shares: list[float] = []  # of the source read so far, block by block

    def note_share(task: str, done: float, total: float | None) -> None:
        if done:
            shares.append(done / total if total else 0.0)
        progress(task, done, total)

    def encoded(block: Block) -> tuple[Int32[ndarray, " T"], Vocabulary]:
        if not grow:
            return tokenizer.encode_block(block).ids, tokenizer.vocabulary
        own = tokenizer.with_vocabulary(Vocabulary())
        return own.encode_block(block, grow=True).ids, own.vocabulary

    stream = np.empty(0, np.int32)
    size, is_first = 0, True
    for ids, vocabulary in map_in_order(encoded, source.blocks(note_share)):
        expected = int(ids.size / shares[0]) if is_first and shares and shares[0] > 0 else 0
        if expected and expecting is not None:
            expecting(expected)
        numbers = tokenizer.vocabulary.absorb(vocabulary) if grow else None
        if file is None:
            if stream.size < size + ids.size:  # the system allocates pages only when they are written
                stream = _with_room(stream[:size], max(2 * (size + ids.size), expected + expected // 4))
            part = stream[size : size + ids.size]
            if numbers is None:
                part[:] = ids
            else:
                np.take(numbers, ids, out=part, mode="clip")  # each is in range, and "raise" would buffer
        else:
            _append(file, ids if numbers is None else numbers[ids])
        size, is_first = size + ids.size, False
    return stream[:size] if file is None else map_file(file, np.int32)


def _with_room(stream: Int32[ndarray, " T"], room: int) -> Int32[ndarray, " room"]:
    grown = np.empty(room, np.int32)
    grown[: stream.size] = stream
    return grown


def _append(file: BinaryIO, ids: Int32[ndarray, " T"]) -> None:
    """Append ids to a file. Raises OutputError."""
    try:
        file.write(np.ascontiguousarray(ids, np.int32).data)
        file.flush()
    except OSError as error:
        raise OutputError(
            f"the ids of the text, 4 bytes a token, cannot be written to disk: {error.strerror}; free some space"
        ) from error


def documents_of(stream: Int32[ndarray, " T"]) -> list[Int32[ndarray, " T"]]:
    """Return the documents of a stream, which end with </s>, without it."""
    ends = np.flatnonzero(stream == END)
    starts = np.concatenate([[0], ends + 1])[:-1]
    return [stream[start:stop] for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)]


MASK = "[MASK]"


def masked_tokens(tokenizer: Tokenizer, text: str, mask: str = MASK) -> Int32[ndarray, " T"]:
    """Return the tokens of a text, with one <s> in place of the tokens of each mask.

    Raises SettingError if the text has no mask, or the tokenizer does not separate it from its neighbours; MarkerError.
    """
    if not mask.strip():
        raise SettingError("the mask is empty; expected a string that occurs in the text, such as [MASK]")
    masks = text.count(mask)
    if not masks:
        raise SettingError(
            f"there is no {mask} in {text!r}; put one in place of each token to predict, or name another: mask=..."
        )
    encoded = tokenizer.encode_texts([text])
    aligned = tokenizer.align(encoded)
    written = tokenizer.align(tokenizer.encode_texts([mask])).text.tobytes()[:-1]
    whole = aligned.text.tobytes()
    ids, mask_of = encoded.ids[:-1].copy(), np.zeros(encoded.ids.size - 1, np.int64)  # mask_of: from 1; 0 for none
    has_space_tokens = tokenizer.name in ("character", "byte")  # other tokens include the space before them, if any
    start = -1
    for number in range(1, masks + 1):
        start = whole.find(written, start + 1)
        if start < 0 or not written:
            raise SettingError(f"the {tokenizer.name} tokenizer does not keep {mask}; use mask=... and a word it knows")
        before = start if has_space_tokens else len(whole[:start].rstrip(b" "))
        inside = (aligned.starts[:-1] < start + len(written)) & (aligned.stops[:-1] > before)
        around = (
            whole[aligned.starts[:-1][inside].min() : start]
            + whole[start + len(written) : aligned.stops[:-1][inside].max()]
        )
        if around.strip():
            raise SettingError(f"a token of {text!r} contains more than {mask}; put spaces around it")
        mask_of[inside] = number
    ids[mask_of > 0] = BEGIN
    return np.asarray(ids[(mask_of == 0) | (np.diff(mask_of, prepend=0) != 0)])
