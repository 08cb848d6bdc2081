"""Reads an ARPA file into an n-gram table: parses blocks of lines on all processors, then sorts each order.

Files are not trusted: nothing is allocated on the word of the header, and every error is a ModelFormatError that names
the line. The conventions are KenLM's.
"""

from __future__ import annotations

import codecs
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import map_in_order
from chainrule.ngram.arpa import reading_kernels as kernels
from chainrule.ngram.arpa.lines import CUT_SHORT, DAMAGED, ArpaBlock, ArpaSource, open_arpa
from chainrule.ngram.arpa.suffix_order import Part, SuffixOrder, join
from chainrule.ngram.config import MAX_ORDER
from chainrule.ngram.trie.assembly import DuplicateNgramError, Extra, Trie, complete_trie
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.block import byte_array
from chainrule.text.corpus.plain_text import kind_of
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary, slots_needed
from chainrule.text.tokenization.vocabulary_kernels import insert_all

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float32, Int, Int32, Int64, UInt8, UInt64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

T = TypeVar("T")

_OTHER_UNKNOWN = b"<UNK>"  # as some tools write <unk>
_LOG_PROB_WITHOUT_UNKNOWN = -100 * np.log(10)
_COUNT = re.compile(rb"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})")
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_COMMENT_LINES = 1000  # allowed before \data\
_CORRECT = "correct the line, or create the file again"


def read_arpa(
    path: str | os.PathLike[str],
    progress: Progress = silent,
    warn: Callable[[str], None] = warnings.warn,
    note: Callable[[str], None] = lambda message: None,
) -> tuple[Table, Vocabulary]:
    """Return the table and the vocabulary of a file, which may be compressed: .gz, .zst, .xz or .bz2.

    Word ids follow the order of the unigrams, after <unk>, <s> and </s>. The log-probability of <s> becomes -inf.
    Missing suffixes and contexts of n-grams are added as blanks, with the probabilities that backing off gives. warn: a
    callback, called if there is no <unk>, which then gets a log10 probability of -100, and if n-grams are dropped
    because they contain <s> after the first word, which no query can match. note: a callback that gets the number of
    blanks. Raises ModelFormatError.
    """
    with open_arpa(Path(path), progress) as source:
        counts = _header(source)
        section_lines = {1: _enter_section(source, "\\1-grams:")}
        vocabulary, known, levels = _read_unigrams(source, counts, warn)
        trie: Trie | None = None  # takes over from `levels` when an order is not in suffix order
        orphans: dict[int, Extra] = {}
        try:
            for order in range(2, len(counts) + 1):
                section_lines[order] = _enter_section(source, f"\\{order}-grams:")
                if trie is None:
                    trie, orphans[order] = _read_level_in_order(source, counts, known, levels, warn)
                else:
                    orphans[order] = _read_level(source, counts, known, trie, warn)
            _enter_section(source, "\\end\\")
            if trie is None:
                return levels.table(), vocabulary
            read = sum(trie.level_sizes) + sum(len(extra.rows) for extra in orphans.values())
            complete = complete_trie(trie, orphans)
            blanks = sum(complete.level_sizes) - read
            if blanks:
                note(
                    f"{source.name}: {blanks:,} n-grams that longer ones begin or end with are missing from the file; "
                    "they were added by backing off"
                )
            return complete.table(), vocabulary
        except DuplicateNgramError as error:
            order = len(error.ngram)
            ngram = b" ".join(vocabulary.token_bytes(word) for word in error.ngram).decode()
            source.fail(f"the {order}-gram {ngram!r} twice", "each n-gram once", _CORRECT, section_lines[order])


def _header(source: ArpaSource) -> list[int]:
    """Return the numbers of n-grams by order, as the header claims; only compared with the file."""
    advice = "is it an ARPA file?"
    for number in range(_COMMENT_LINES):
        line = source.next_line()
        if number == 0 and line is not None:
            advice = kind_of(line) or advice
        if line is None or line.removeprefix(_BYTE_ORDER_MARK) == b"\\data\\":
            break
    if line is None:
        source.fail("the end of the file", "\\data\\", advice)
    if line.removeprefix(_BYTE_ORDER_MARK) != b"\\data\\":
        source.fail(line, f"\\data\\ among the first {_COMMENT_LINES} lines", advice)
    counts: list[int] = []
    min_bytes = 0
    for line in source.lines_before_section():
        match = _COUNT.fullmatch(line)
        order = len(counts) + 1
        if match is None or int(match[1]) != order:
            source.fail(line, f"'ngram {order}=' and a number, or \\1-grams:", DAMAGED)
        if order > MAX_ORDER:
            source.fail(f"an order of {order}", f"at most {MAX_ORDER}", "cut the model down to a lower order")
        counts.append(int(match[2]))
        min_bytes += counts[-1] * (2 * order + 2)  # a digit, a byte for each word, the space before each, a newline
        if source.size is not None and min_bytes > source.size:
            source.fail(line, f"fewer n-grams in a file of {source.size:,} bytes", CUT_SHORT)
    if not counts:
        source.fail("no counts of n-grams after \\data\\", "'ngram 1=' and a number", DAMAGED)
    return counts


def _enter_section(source: ArpaSource, title: str) -> int:
    """Read the line that begins a section; return its line number."""
    line = source.next_line()
    if line is None:
        source.fail("the end of the file", title, CUT_SHORT)
    if line != title.encode():
        source.fail(line, title, DAMAGED)
    return source.line


@dataclass(frozen=True)
class _WordTable:
    """A vocabulary as a hash table; ids from `size` on are other spellings of <unk>. Empty for reading the unigrams."""

    size: int
    pool: UInt8[ndarray, " bytes"]
    offsets: Int64[ndarray, " tokens+1"]
    slots: UInt64[ndarray, " slots"]


_NO_WORDS = _WordTable(0, np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.uint64))


@dataclass(frozen=True)
class _Lines:
    """The n-grams of a block, up to the first error."""

    block: ArpaBlock
    rows: Int32[ndarray, "ngrams order"]  # word ids; for unigrams, the start and the end of the word in the block
    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " ngrams"]
    dropped: int  # n-grams with <s> after the first word
    status: int
    wrong: slice  # the bytes of the field that the status is about


def _parse(block: ArpaBlock, order: int, has_backoffs: bool, known: _WordTable) -> _Lines:
    min_bytes = 2 * order + 2  # of a line: a digit, a byte for each word, the space before each, a newline
    room = min(block.lines, (block.text.size + 1) // min_bytes) + 1  # blank lines must not cost memory
    rows = np.empty((room, max(order, 2)), np.int32)
    log_probs, log_backoffs = np.empty(room, np.float32), np.empty(room, np.float32)
    status, count, dropped, start, stop = kernels.parse_lines(
        block.text,
        order,
        has_backoffs,
        known.size,
        known.slots,
        known.pool,
        known.offsets,
        rows,
        log_probs,
        log_backoffs,
        np.zeros((3, order), np.int64),
        np.zeros(1 << kernels.CACHE_BITS, np.uint64),
        np.empty(1 << kernels.CACHE_BITS, np.int32),
    )
    return _Lines(block, rows[:count], log_probs[:count], log_backoffs[:count], dropped, status, slice(start, stop))


def _parse_section(
    source: ArpaSource, order: int, counts: Sequence[int], known: _WordTable, process: Callable[[_Lines], T]
) -> Iterator[tuple[_Lines, T]]:
    """Parse a section block by block, on threads; check that it has as many n-grams as the header says.

    process: a function of the lines of a block, which is called on the same thread.
    """
    section_line, expected = source.line, counts[order - 1]

    def parse_block(block: ArpaBlock) -> tuple[_Lines, T]:
        lines = _parse(block, order, order < len(counts), known)
        return lines, process(lines)

    seen = 0
    for lines, processed in map_in_order(parse_block, source.blocks_before_section()):
        if lines.status != kernels.OK:
            _fail_at(source, lines, order)
        seen += len(lines.rows) + lines.dropped
        if seen > expected:
            break
        yield lines, processed
    claim = f"{expected}, as \\data\\ says"
    if seen < expected and source.has_ended():
        source.fail(f"the end of the file after {seen} {order}-grams", claim, CUT_SHORT)
    if seen != expected:
        source.fail(f"{seen} {order}-grams{' or more' if seen > expected else ''}", claim, DAMAGED, section_line)


def _fail_at(source: ArpaSource, lines: _Lines, order: int) -> NoReturn:
    """Raise the error of the field or line at which the kernel stopped."""
    text = lines.block.text
    wrong = text[lines.wrong].tobytes()
    line = lines.block.first_line + int(np.count_nonzero(text[: lines.wrong.start] == ord("\n")))
    words = "word" if order == 1 else "words"
    expected = {
        kernels.BAD_PROBABILITY: "a log10 probability of at most 0",
        kernels.BAD_BACKOFF: f"a log10 backoff from {kernels.MIN_BACKOFF:g} to {kernels.MAX_BACKOFF:g}",
        kernels.NEEDLESS_BACKOFF: "no backoff at the highest order",
        kernels.UNKNOWN_WORD: "a word that is among the 1-grams",
        kernels.TOO_FEW_FIELDS: f"a log10 probability and {order} {words}",
        kernels.TOO_MANY_FIELDS: f"a log10 probability, {order} {words} and a log10 backoff",
    }
    source.fail(wrong, expected[lines.status], _CORRECT, line)


def _read_unigrams(
    source: ArpaSource, counts: Sequence[int], warn: Callable[[str], None]
) -> tuple[Vocabulary, _WordTable, SuffixOrder]:
    section_line = source.line
    # Word 0 is an <unk>, in case the file has none.
    texts = [byte_array(MARKER_TOKENS[UNKNOWN].encode())]
    spans_by_block = [np.array([[0, texts[0].size]])]  # the start and the end of each word
    log_probs, log_backoffs = [np.array([_LOG_PROB_WITHOUT_UNKNOWN], np.float32)], [np.zeros(1, np.float32)]
    size = texts[0].size

    def extract_words(lines: _Lines) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " words+1"]]:
        return _extract_words(lines.block.text, lines.rows)  # so that the text can be freed

    for lines, (words, ends) in _parse_section(source, 1, counts, _NO_WORDS, extract_words):
        _check_utf8(source, lines.block)
        texts.append(words)
        spans_by_block.append(np.column_stack([ends[:-1], ends[1:]]) + size)
        log_probs.append(lines.log_probs.copy())
        log_backoffs.append(lines.log_backoffs.copy())
        size += words.size
    text, spans = join(texts), join(spans_by_block)
    unknown, begin, end = (_find_word(marker.encode(), text, spans) for marker in MARKER_TOKENS)
    for marker, index in ((MARKER_TOKENS[BEGIN], begin), (MARKER_TOKENS[END], end)):
        if index == 0:
            source.fail(f"no {marker} among the 1-grams", "<s> and </s>", "create the model with both", section_line)
    other_unknown = _find_word(_OTHER_UNKNOWN, text, spans) if unknown == 0 else 0
    if other_unknown:
        unknown = other_unknown
        spans[other_unknown] = spans[0]
    if unknown == 0:
        warn(f"{source.name}: there is no <unk>, so unknown words get a log10 probability of -100")
    others = np.ones(len(spans), np.bool_)
    others[[0, unknown, begin, end]] = False
    by_id = np.concatenate([[unknown, begin, end], np.flatnonzero(others)])
    pool, offsets = _extract_words(text, spans[by_id])
    known = _empty_word_table(pool, offsets, other_unknown=other_unknown > 0)
    duplicate = insert_all(known.pool, known.offsets, known.offsets.size - 1, known.slots)
    if duplicate >= 0:
        word = known.pool[known.offsets[duplicate] : known.offsets[duplicate + 1]].tobytes().decode()
        source.fail(f"the word {word!r} twice among the 1-grams", "each word once", _CORRECT, section_line)
    sorted_log_probs = join(log_probs)[by_id]
    sorted_log_probs[BEGIN] = -np.inf
    levels = SuffixOrder(sorted_log_probs, join(log_backoffs)[by_id], node_limit=sum(counts) + 2)
    return Vocabulary.from_arrays(pool, offsets, None if other_unknown else known.slots), known, levels


def _check_utf8(source: ArpaSource, block: ArpaBlock) -> None:
    """Check a block of unigrams; words of longer n-grams must be among these, and need no check."""
    data = block.text.tobytes()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = block.first_line + data.count(b"\n", 0, error.start)
        source.fail(data[error.start : error.start + 1], "UTF-8", "convert it to UTF-8, for instance with iconv", line)


def _find_word(word: bytes, text: UInt8[ndarray, " bytes"], spans: Int64[ndarray, "words 2"]) -> int:
    """Return the index of the first span, after span 0, that holds this word; 0 if none does."""
    candidates = np.flatnonzero(spans[:, 1] - spans[:, 0] == len(word))
    candidates = candidates[candidates > 0]
    letters = text[spans[candidates, :1] + np.arange(len(word))]  # (candidates, letters)
    matches = candidates[np.all(letters == byte_array(word), axis=1)]
    return int(matches[0]) if matches.size else 0


def _extract_words(
    text: UInt8[ndarray, " bytes"], spans: Int[ndarray, "words 2"]
) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " words+1"]]:
    """Return the words at these spans, concatenated, and the offset of each."""
    offsets = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
    pool = np.empty(offsets[-1], np.uint8)
    kernels.copy_words(text, spans, pool, offsets)
    return pool, offsets


def _empty_word_table(
    pool: UInt8[ndarray, " bytes"], offsets: Int64[ndarray, " tokens+1"], *, other_unknown: bool
) -> _WordTable:
    """Return the hash table of a vocabulary, its slots still to be filled."""
    size = offsets.size - 1
    if other_unknown:
        pool = np.concatenate([pool, byte_array(_OTHER_UNKNOWN)])
        offsets = np.append(offsets, pool.size)
    slots = np.zeros(slots_needed(offsets.size - 1), np.uint64)
    return _WordTable(size, pool, offsets, slots)


def _read_level_in_order(
    source: ArpaSource, counts: Sequence[int], known: _WordTable, levels: SuffixOrder, warn: Callable[[str], None]
) -> tuple[Trie | None, Extra]:
    """Add the next order to the levels if it is in suffix order, and otherwise to a trie built from them.

    Returns that trie, and the n-grams whose contexts are missing. Raises DuplicateNgramError.
    """
    order = levels.order + 1
    is_last = order == len(counts)
    parts: list[Part] = []
    dropped = 0

    def rank(lines: _Lines) -> Part:
        return levels.rank_part(lines.rows, lines.log_probs, lines.log_backoffs, is_last=is_last)

    for lines, part in _parse_section(source, order, counts, known, rank):
        dropped += lines.dropped
        parts.append(part)
    _warn_of_dropped(source, dropped, order, warn)
    if levels.add_level(parts, is_last=is_last):
        return None, _no_orphans(order)
    trie = levels.trie()

    def find_contexts(part: Part) -> tuple[Part, Int[ndarray, " ngrams"]]:
        return part, trie.nodes_of(part.rows, order - 1) if part.ranks is None else levels.context_nodes(part.ranks)

    return trie, _add_level(trie, map_in_order(find_contexts, parts), is_last=is_last)


def _read_level(
    source: ArpaSource, counts: Sequence[int], known: _WordTable, trie: Trie, warn: Callable[[str], None]
) -> Extra:
    """Add the next order to the trie; return the n-grams whose contexts are missing. Raises DuplicateNgramError."""
    order = trie.order + 1
    dropped = 0

    def find_contexts(lines: _Lines) -> Int[ndarray, " ngrams"]:
        return trie.nodes_of(lines.rows, order - 1)

    def parse() -> Iterator[tuple[_Lines, Int[ndarray, " ngrams"]]]:
        nonlocal dropped
        for lines, contexts in _parse_section(source, order, counts, known, find_contexts):
            dropped += lines.dropped
            yield lines, contexts
        _warn_of_dropped(source, dropped, order, warn)

    return _add_level(trie, parse(), is_last=order == len(counts))


def _add_level(trie: Trie, ngrams: Iterable[tuple[_Lines | Part, Int[ndarray, " ngrams"]]], *, is_last: bool) -> Extra:
    """Add n-grams to the trie; return those without a context.

    ngrams: batches, each with the nodes of its contexts, or NO_NODE where there is none. Raises DuplicateNgramError.
    """
    contexts, words = [np.empty(0, trie.index)], [np.empty(0, np.int32)]
    log_probs, log_backoffs = [np.empty(0, np.float32)], [np.empty(0, np.float32)]
    orphans = _no_orphans(trie.order + 1)
    for batch, nodes in ngrams:
        missing = nodes == NO_NODE
        kept: slice | ndarray = slice(None)
        if missing.any():
            orphans += Extra(batch.rows[missing], batch.log_probs[missing], batch.log_backoffs[missing])
            kept = ~missing
        contexts.append(nodes[kept])
        words.append(np.ascontiguousarray(batch.rows[kept, -1]))
        log_probs.append(batch.log_probs[kept])
        if not is_last:
            log_backoffs.append(batch.log_backoffs[kept])
    trie.add_level(join(contexts), join(words), join(log_probs), join(log_backoffs))
    return orphans


def _no_orphans(order: int) -> Extra:
    return Extra.blanks(np.empty((0, order), np.int32))


def _warn_of_dropped(source: ArpaSource, dropped: int, order: int, warn: Callable[[str], None]) -> None:
    if dropped:
        warn(f"{source.name}: {dropped} {order}-grams with <s> after the first word are dropped")
