"""Subword tokenization with the library `tokenizers`, as a splitter: text to pieces, and back; with a cache.

Only the library's segmentation is used, not its ids: pieces get theirs from our vocabulary, so that <unk>, <s>, </s>
are 0, 1, 2 as everywhere, and an ARPA file over the same pieces may number them in any order. A file's special tokens
are left out: its unknown token becomes <unk>, and documents begin and end with our <s> and </s>, whatever its
post-processor would add. Special tokens in a text are treated as text.

The cache splits a text into chunks, each roughly a word with the space before it, and tokenizes each distinct chunk
once. The library needs 0.4 s for a megabyte, but many megabytes have few distinct chunks, and our own hash table finds
those seen before.
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.memory import release_freed_memory
from chainrule.errors import ChainruleError, ModelFormatError, SettingError, installing
from chainrule.protocol import END
from chainrule.text.corpus.block import LINE_FEED, byte_array
from chainrule.text.tokenization.splitters import character_classes
from chainrule.text.tokenization.subword_decoders import Spelling, parts_of, spelling_of
from chainrule.text.tokenization.tokenizer_kernels import LINE_FEED_INSIDE, SPACE_INSIDE, cut_at_spaces, write_pieces
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from jaxtyping import Int, Int64, UInt8
    from numpy import ndarray

    from chainrule.text.tokenization.detokenizer import Alignment

REMEMBERED = 1 << 20  # chunks; the cache is cleared when it has more


class Chunks:
    """The subwords of each chunk seen so far.

    cut: a function from texts to their subwords, separated by spaces, with a newline after each text.
    """

    def __init__(self, cut: Callable[[list[bytes]], Iterable[UInt8[ndarray, " bytes"]]]) -> None:
        self._cut = cut
        self._lock = threading.Lock()
        self._forget()

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int) -> UInt8[ndarray, " bytes"]:
        """Implement `Splitter.rewrite`."""
        out = np.empty(3 * text.size, np.uint8)
        chunked = out[: cut_at_spaces(text, document_end, character_classes(), out)]
        with self._lock:
            if len(self._vocabulary) > REMEMBERED:
                self._forget()
            stream = self._vocabulary.encode(chunked, grow=True).ids
            self._learn()
            pool, offsets = self._pool, self._offsets
        ends = np.flatnonzero(stream == END)
        return write_documents(stream[stream != END], np.diff(ends, prepend=-1) - 1, pool, offsets)

    def _forget(self) -> None:
        self._vocabulary = Vocabulary()
        self._pool, self._offsets = pack([b""] * len(self._vocabulary))

    def _learn(self) -> None:
        """Add the subwords of new chunks."""
        new = range(self._offsets.size - 1, len(self._vocabulary))
        if not new:
            return
        chunks = [self._vocabulary.token_bytes(chunk)[1:].translate(_UNESCAPED) for chunk in new]
        pieces = b"".join(part.tobytes() for part in self._cut(chunks)).split(b"\n")[:-1]
        pool, offsets = pack(pieces)
        self._pool = np.concatenate([self._pool, pool])
        self._offsets = np.concatenate([self._offsets, self._offsets[-1] + offsets[1:]])


def write_documents(
    pieces: Int[ndarray, " pieces"],
    lengths: Int64[ndarray, " documents"],
    pool: UInt8[ndarray, " bytes"],
    offsets: Int64[ndarray, " known+1"],
) -> UInt8[ndarray, " bytes"]:
    """Return documents as tokens: each is the next `lengths[i]` of `pieces`.

    Piece p is pool[offsets[p]:offsets[p + 1]].
    """
    size = int((offsets[pieces + 1] - offsets[pieces]).sum()) + pieces.size + lengths.size
    out = np.empty(size, np.uint8)
    return out[: write_pieces(pieces, lengths, pool, offsets, out)]


def pack(pieces: Sequence[bytes]) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " pieces+1"]]:
    """Return all subwords, concatenated, and the offset of each."""
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    return byte_array(b"".join(pieces)), np.concatenate([[0], np.cumsum(lengths)])


_UNESCAPED = bytes.maketrans(bytes([SPACE_INSIDE, LINE_FEED_INSIDE]), b" \n")

_MOST_GAPS = 100  # largest id / number of pieces; only a damaged file has more
BATCH_BYTES = 1 << 20  # passed to the library at a time, so that Ctrl-C is heard in between


def library() -> ModuleType:
    """Return the library `tokenizers`. Raises SettingError if it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise SettingError(
            f"subword tokenizers need the library tokenizers, which is not installed: {installing('subword')}"
        ) from None
    return tokenizers


class Subword:
    """The splitter of a Hugging Face tokenizer.json. source: its name, for messages.

    Raises ModelFormatError if it is damaged, SettingError if it cannot be used here.
    """

    def __init__(self, definition: bytes, source: str) -> None:
        self._source = source
        self.definition = definition
        text, model, self.post_processor = _clean_definition(definition, source)
        with _library_errors(source, "is not a readable tokenizer.json"):
            self._library = library().Tokenizer.from_str(text)
        release_freed_memory()  # of parsing: 30 MB for 49,152 pieces, which would stay with the process
        self._library.encode_special_tokens = True
        self.name = type(self._library.model).__name__.lower()
        described = _with_defaults(self._library, model)
        self.spelling: Spelling = spelling_of(described, source)
        self.loses = self.spelling.loses
        self._prefix = "".join(part.get("prepend", "") for part in parts_of(described["normalizer"]))
        self._added = {token["content"]: token["special"] for token in described["added_tokens"]}
        self._unknown, self._unknown_content = _unknown_piece(described["model"], self._library)
        self._token_of = cache(self._read_token)
        self._chunks = Chunks(self.write) if _cuts_at_spaces(described) else None
        if self._unknown is None and not self.spells_everything:
            raise SettingError(
                f"{source}: has neither all bytes nor an unknown token, so it would drop unknown characters"
            )

    @property
    def unknown(self) -> int | None:
        """The library's id of the unknown token, if there is one."""
        return self._unknown

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The library's id of each of its subwords, special ones included."""
        numbers: dict[str, int] = self._library.get_vocab(with_added_tokens=True)
        return numbers

    def forget_numbers(self) -> None:
        """Give back their memory, 20 MB for 150,000 subwords; they are read again when they are asked for."""
        vars(self).pop("numbers", None)

    @property
    def special_tokens(self) -> list[str]:
        """The texts of the special tokens, such as <|im_start|>."""
        return [content for content, is_special in self._added.items() if is_special]

    @property
    def added_tokens(self) -> list[str]:
        """The texts that are always one token, special ones included."""
        return list(self._added)

    def encode_with_special_tokens(self, text: str) -> list[int]:
        """Return the library's ids of a text in which special tokens are not text, and to which nothing is added.

        Raises ModelFormatError.
        """
        with _library_errors(self._source, "cannot be used on this text"):
            numbers: list[int] = self._reads_special_tokens.encode(text, add_special_tokens=False).ids
        return numbers

    @cached_property
    def _reads_special_tokens(self) -> Any:
        """As `_library`, but special tokens in a text are tokens: only for texts that nobody else has written."""
        return library().Tokenizer.from_str(_clean_definition(self.definition, self._source)[0])

    @cached_property
    def alphabet(self) -> tuple[bytes, ...]:
        """As `Splitter.alphabet`."""
        special = {content for content, is_special in self._added.items() if is_special}
        left_out = {*special, self._unknown_content, *MARKER_TOKENS, ""}
        own = sorted(self.numbers.keys() - left_out, key=self.numbers.__getitem__)
        return tuple(dict.fromkeys(token for token in map(self._token, own) if token))

    @cached_property
    def spells_everything(self) -> bool:
        """As `Splitter.spells_everything`."""
        return self.spelling.is_complete(self.alphabet)

    def spelled(self, numbers: Mapping[str, int] | None = None) -> list[bytes]:
        """Return all subwords of the library as tokens, including special ones, by the library's id; empty for unused
        ids.

        numbers: other subwords, and their ids.
        """
        numbers = self.numbers if numbers is None else numbers
        spelled = [b""] * (max(numbers.values(), default=-1) + 1)
        for content, number in numbers.items():
            spelled[number] = self._token(content)
        return spelled

    def _token(self, content: str) -> bytes:
        """Return a piece of the library as a token."""
        return self.spelling.added(content) if content in self._added else self.spelling.piece(content)

    def _read_token(self, number: int) -> bytes:
        """Return the token of `_token`, by the library's id; `_token_of` remembers, so that only subwords that occur
        are ever spelled.
        """
        return self._token(self._library.id_to_token(number))

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        """Implement `Splitter.rewrite`."""
        if self._chunks is not None:
            return self._chunks.rewrite(text, document_end)
        documents = text.tobytes().split(bytes([document_end]))[:-1]
        return np.concatenate([np.empty(0, np.uint8), *self.write(documents)])

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        """Implement `Splitter.align`."""
        return self.spelling.align(tokens)

    def write(self, documents: list[bytes]) -> Iterator[UInt8[ndarray, " bytes"]]:
        """Yield the subwords of documents, in the form of `rewrite`, batch by batch."""
        for batch in _batches(documents):
            with _library_errors(self._source, "cannot be used on this text"):
                yield self._write([document.decode() for document in batch])

    def _write(self, documents: list[str]) -> UInt8[ndarray, " bytes"]:
        rows = [encoded.ids for encoded in self._library.encode_batch_fast(documents, add_special_tokens=False)]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        pieces = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        unknown = np.flatnonzero(pieces == self._unknown) if self._unknown is not None else np.empty(0, np.int64)
        occurring = np.flatnonzero(np.bincount(pieces))
        pool, offsets = pack([self._token_of(piece) for piece in occurring.tolist()])
        pieces = np.searchsorted(occurring, pieces).astype(np.int32)
        if unknown.size:
            having = [document for document, row in zip(documents, rows, strict=True) if self._unknown in row]
            more, more_offsets = pack(self._surfaces(having))
            pieces[unknown] = offsets.size - 1 + np.arange(unknown.size, dtype=np.int32)
            pool, offsets = np.concatenate([pool, more]), np.concatenate([offsets, offsets[-1] + more_offsets[1:]])
        return write_documents(pieces, lengths, pool, offsets)

    def _surfaces(self, documents: list[str]) -> list[bytes]:
        """Return the text of each unknown piece of some documents, spelled as subwords are.

        The library has it only in unigram models; in others it is normalised here, without what the normaliser puts
        before a text.
        """
        normaliser = self._library.normalizer
        surfaces = []
        for document, encoded in zip(
            documents, self._library.encode_batch(documents, add_special_tokens=False), strict=True
        ):
            for piece, surface, (start, stop) in zip(encoded.ids, encoded.tokens, encoded.offsets, strict=True):
                if piece == self._unknown:
                    if self.name != "unigram":
                        surface = document[start:stop]
                        surface = normaliser.normalize_str(surface) if normaliser is not None else surface
                        surface = surface.removeprefix(self._prefix)
                    surfaces.append(self.spelling.added(surface) or "�".encode())
        return surfaces


@contextmanager
def _library_errors(source: str, failure: str) -> Iterator[None]:
    """Turn the library's errors into ModelFormatErrors; its panics are not even an Exception."""
    try:
        yield
    except (ChainruleError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise ModelFormatError(f"{source}: {failure}: {error}") from error


def _clean_definition(definition: bytes, source: str) -> tuple[str, dict[str, Any], Any]:
    """Return a tokenizer.json without settings that would change documents, its model without subwords and merges, and
    what it puts around a text.

    Those settings are truncation, padding and random dropout.
    """
    try:
        text = definition.decode(json.detect_encoding(definition))
        described = json.loads(text)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise ModelFormatError(f"{source}: is not a tokenizer.json: {error}") from error
    if not isinstance(described, dict) or not isinstance(described.get("model"), dict):
        raise ModelFormatError(f"{source}: is not a tokenizer.json: it has no model")
    _check_character_maps(described.get("normalizer"), source)
    model = described["model"]
    vocabulary = model.get("vocab")
    numbered = vocabulary.values() if isinstance(vocabulary, dict) else ()
    numbers = [number for number in numbered if isinstance(number, int)]
    if numbers and max(numbers) > _MOST_GAPS * len(numbers):  # the library would allocate as many
        raise ModelFormatError(f"{source}: numbers {len(numbers):,} tokens up to {max(numbers):,}; it is damaged")
    changes = [described.get("truncation"), described.get("padding"), model.get("dropout")]
    if changes != [None] * len(changes):
        cleaned = {**model, "dropout": None} if "dropout" in model else model
        text = json.dumps({**described, "truncation": None, "padding": None, "model": cleaned}, ensure_ascii=False)
    without_pieces = {name: value for name, value in model.items() if name not in ("vocab", "merges")}
    return text, without_pieces, described.get("post_processor")


def _check_character_maps(normaliser: Any, source: str) -> None:
    """Raise ModelFormatError where a map of characters is damaged: the library would panic, and say so on screen."""
    if not isinstance(normaliser, dict):
        return
    nested = normaliser.get("normalizers")
    for part in nested if isinstance(nested, list) else []:
        _check_character_maps(part, source)
    coded = normaliser.get("precompiled_charsmap")
    if normaliser.get("type") == "Precompiled" and isinstance(coded, str):
        try:
            is_sound = is_sound_map(base64.b64decode(coded, validate=True))
        except ValueError:
            is_sound = False
        if not is_sound:
            raise ModelFormatError(f"{source}: its map of characters (precompiled_charsmap) is cut off or damaged")


@lru_cache(maxsize=4)
def is_sound_map(data: bytes) -> bool:
    """Return whether no look-up in a map of characters leads out of it.

    The size of a trie; the trie, a double array of units of 32 bits, as darts-clone writes it; the replacements, each
    up to a zero byte. Every state that is reached from the root is followed by all 256 bytes.
    """
    size = int.from_bytes(data[:4], "little")
    units, replacements = np.frombuffer(data[4 : 4 + size // 4 * 4], "<u4").astype(np.int64), data[4 + size :]
    if len(data) < 4 or size % 4 or not size or len(units) * 4 != size:
        return False
    try:
        replacements.decode()
    except UnicodeDecodeError:
        return False
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    begins = np.array([(byte & 0xC0) != 0x80 for byte in replacements] + [True])  # characters, and the end
    states, seen = offsets[:1], np.zeros(len(units), np.bool_)
    while len(states):
        if states.max() | 255 >= len(units):
            return False
        seen[states] = True
        places = (states[:, None] ^ np.arange(1, 256)).ravel()
        labels = np.tile(np.arange(1, 256), len(states))
        places = places[(units[places] & (1 << 31 | 255)) == labels]
        after = places ^ offsets[places]
        if len(after) and after.max() >= len(units):
            return False
        values = units[after[(units[places] >> 8) & 1 == 1]] & ((1 << 31) - 1)
        if len(values) and (values.max() >= len(begins) or not begins[values].all()):
            return False
        after = np.unique(after)
        states = after[~seen[after]]
    return True


def _with_defaults(tokenizer: Any, model: dict[str, Any]) -> dict[str, Any]:
    """Return a tokenizer.json as the library understood it, with all defaults filled in, but without subwords and
    merges.

    Written by the library from the parts alone: its own text of the whole takes 0.1 s and 35 MB for 49,152 subwords.
    """
    parts = library().Tokenizer(library().models.BPE())
    parts.normalizer, parts.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    parts.decoder = tokenizer.decoder
    added = tokenizer.get_added_tokens_decoder().values()
    return {
        **json.loads(parts.to_str()),
        "model": {**model, "type": type(tokenizer.model).__name__},
        "added_tokens": [{"content": token.content, "special": token.special} for token in added],
    }


def _unknown_piece(model: dict[str, Any], tokenizer: Any) -> tuple[int | None, str | None]:
    """Return the library's id of the unknown token, and its text; None if there is none."""
    if model.get("unk_id") is not None:
        return model["unk_id"], tokenizer.id_to_token(model["unk_id"])
    unknown = model.get("unk_token")
    return (None, None) if unknown is None else (tokenizer.token_to_id(unknown), unknown)


def _cuts_at_spaces(described: dict[str, Any]) -> bool:
    """Return whether a text can be split before single spaces and its parts tokenized separately.

    That is so if words are split by GPT-2's regular expression or at white space and punctuation, after a normaliser
    that does not work across a space between visible characters, and if there are no added tokens.
    """
    cutter = described["pre_tokenizer"] or {"type": ""}
    normalisers = {part["type"] for part in parts_of(described["normalizer"])}
    on_bytes = cutter["type"] == "ByteLevel" and cutter["use_regex"] and not cutter["add_prefix_space"]
    bordered = {"NFC", "NFKC", "Lowercase"} | ({"BertNormalizer"} if cutter["type"] == "BertPreTokenizer" else set())
    if any(not token["special"] for token in described["added_tokens"]):
        return False
    return normalisers <= bordered and (on_bytes or cutter["type"] == "BertPreTokenizer")


def _batches(documents: list[bytes]) -> Iterator[list[bytes]]:
    """Yield batches of documents of about BATCH_BYTES."""
    batch: list[bytes] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document) + 1
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
