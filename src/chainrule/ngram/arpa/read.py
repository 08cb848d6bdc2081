"""An ARPA file to an n-gram table, streaming: blocks of lines are parsed on all processors, then each order is sorted.

A file is not believed: nothing is allocated because of what its header says, and what is wrong gets a ModelFormatError
that names the line. The conventions are KenLM's.
"""

from __future__ import annotations

import codecs
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from chainrule.base.jit import map_in_order
from chainrule.base.progress import Progress, silent
from chainrule.ngram.arpa import reading_kernels as kernels
from chainrule.ngram.arpa.lines import CUT_SHORT, DAMAGED, ArpaBlock, ArpaSource, opened
from chainrule.ngram.arpa.suffix_order import Part, SuffixOrder
from chainrule.ngram.config import MAX_ORDER
from chainrule.ngram.trie.assembly import Extra, Trie, TwiceError, closed
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.block import byte_array
from chainrule.text.vocabulary import MARKER_TOKENS, Vocabulary, slots_needed
from chainrule.text.vocabulary_kernels import insert_all

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float32, Int, Int32, Int64, UInt8, UInt64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

T = TypeVar("T")

_OTHER_UNKNOWN = b"<UNK>"  # what some tools call <unk>
_LOG_PROB_WITHOUT_UNKNOWN = -100 * np.log(10)
_COUNT = re.compile(rb"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})")
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_COMMENT_LINES = 1000  # that may stand before \data\
_AGAIN = "correct the line, or make the file again"


def read_arpa(
    path: str | os.PathLike[str],
    progress: Progress = silent,
    warn: Callable[[str], None] = warnings.warn,
    note: Callable[[str], None] = lambda message: None,
) -> tuple[Table, Vocabulary]:
    """The table and the vocabulary of a file, which may be compressed: .gz, .zst, .xz or .bz2.

    Ids are given by first appearance among the unigrams, after <unk>, <s> and </s>. The log-probability of <s> becomes
    -inf. An n-gram whose suffix or context is not in the file gets it, as a blank with what backing off gives.
    warn: told where there is no <unk>, which then gets a log10 probability of -100, and where n-grams are left out
    since <s> is in them but not first: nothing would ever ask for them. note: told how many blanks there are.
    Raises ModelFormatError.
    """
    with opened(Path(path), progress) as source:
        counts = _header(source)
        section_lines = {1: _enter_section(source, "\\1-grams:")}
        vocabulary, known, levels = _read_unigrams(source, counts, warn)
        trie: Trie | None = None  # what takes over where the n-grams are not in suffix order
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
            given = sum(trie.level_sizes) + sum(len(extra.rows) for extra in orphans.values())
            whole = closed(trie, orphans)
            blanks = sum(whole.level_sizes) - given
            if blanks:
                note(
                    f"{source.name}: {blanks:,} n-grams are not in the file, but are the end or the beginning of some "
                    "that are; they were added, with what backing off gives"
                )
            return whole.table(), vocabulary
        except TwiceError as error:
            order = len(error.ngram)
            ngram = b" ".join(vocabulary.token_bytes(word) for word in error.ngram).decode()
            source.fail(f"the {order}-gram {ngram!r} twice", "each once", _AGAIN, section_lines[order])


def _header(source: ArpaSource) -> list[int]:
    """The numbers of n-grams by order. They are claims: no more than that is done with them."""
    for _ in range(_COMMENT_LINES):
        line = source.next_line()
        if line is None or line.removeprefix(_BYTE_ORDER_MARK) == b"\\data\\":
            break
    if line is None:
        source.fail("the end of the file", "\\data\\", "is it an ARPA file?")
    if line.removeprefix(_BYTE_ORDER_MARK) != b"\\data\\":
        source.fail(line, f"\\data\\ among the first {_COMMENT_LINES} lines", "is it an ARPA file?")
    counts: list[int] = []
    least_bytes = 0
    for line in source.lines_before_section():
        match = _COUNT.fullmatch(line)
        order = len(counts) + 1
        if match is None or int(match[1]) != order:
            source.fail(line, f"'ngram {order}=' and a number, or \\1-grams:", DAMAGED)
        if order > MAX_ORDER:
            source.fail(f"an order of {order}", f"at most {MAX_ORDER}", "cut the model down to a lower order")
        counts.append(int(match[2]))
        least_bytes += counts[-1] * (2 * order + 2)  # a digit, a byte for each word, the space before each, a newline
        if source.size is not None and least_bytes > source.size:
            source.fail(line, f"fewer n-grams in a file of {source.size:,} bytes", CUT_SHORT)
    if not counts:
        source.fail("no numbers of n-grams after \\data\\", "'ngram 1=' and a number", DAMAGED)
    return counts


def _enter_section(source: ArpaSource, title: str) -> int:
    """Passes over the line that begins a section; returns its number."""
    line = source.next_line()
    if line is None:
        source.fail("the end of the file", title, CUT_SHORT)
    if line != title.encode():
        source.fail(line, title, DAMAGED)
    return source.line


@dataclass(frozen=True)
class _Words:
    """A vocabulary as a hash table; ids from `size` on are other names of <unk>. Empty until the unigrams are read."""

    size: int
    pool: UInt8[ndarray, " bytes"]
    offsets: Int64[ndarray, " tokens+1"]
    slots: UInt64[ndarray, " slots"]


_NO_WORDS = _Words(0, np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.uint64))


@dataclass(frozen=True)
class _Lines:
    """The n-grams of a block, or what is wrong with one."""

    block: ArpaBlock
    rows: Int32[ndarray, "ngrams order"]  # of word ids; for unigrams, of where their word starts and stops
    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " ngrams"]
    left_out: int
    status: int
    wrong: slice  # bytes of the block


def _parse(block: ArpaBlock, order: int, has_backoffs: bool, known: _Words) -> _Lines:
    least = 2 * order + 2  # bytes of a line: a digit, a byte for each word, the space before each, a newline
    room = min(block.lines, (block.text.size + 1) // least) + 1  # a blank line must cost no memory
    rows = np.empty((room, max(order, 2)), np.int32)
    log_probs, log_backoffs = np.empty(room, np.float32), np.empty(room, np.float32)
    status, count, left_out, start, stop = kernels.parse_lines(
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
        np.zeros(1 << kernels.REMEMBERED_BITS, np.uint64),
        np.empty(1 << kernels.REMEMBERED_BITS, np.int32),
    )
    return _Lines(block, rows[:count], log_probs[:count], log_backoffs[:count], left_out, status, slice(start, stop))


def _parsed(
    source: ArpaSource, order: int, counts: Sequence[int], known: _Words, then: Callable[[_Lines], T]
) -> Iterator[tuple[_Lines, T]]:
    """All of a section, block by block, parsed on threads, checked to be as many n-grams as the header says.

    then: what is made of the lines of a block, on the same thread.
    """
    section_line, expected = source.line, counts[order - 1]

    def parsed(block: ArpaBlock) -> tuple[_Lines, T]:
        lines = _parse(block, order, order < len(counts), known)
        return lines, then(lines)

    seen = 0
    for lines, made in map_in_order(parsed, source.blocks_before_section()):
        if lines.status != kernels.FINE:
            _fail_at(source, lines, order)
        seen += len(lines.rows) + lines.left_out
        if seen > expected:
            break
        yield lines, made
    said = f"{expected}, as \\data\\ says"
    if seen < expected and source.has_ended():
        source.fail(f"the end of the file after {seen} {order}-grams", said, CUT_SHORT)
    if seen != expected:
        source.fail(f"{seen} {order}-grams{' or more' if seen > expected else ''}", said, DAMAGED, section_line)


def _fail_at(source: ArpaSource, lines: _Lines, order: int) -> NoReturn:
    """Says what is wrong with the field or line that the kernel stopped at."""
    text = lines.block.text
    wrong = text[lines.wrong].tobytes()
    line = lines.block.first_line + int(np.count_nonzero(text[: lines.wrong.start] == ord("\n")))
    words = "word" if order == 1 else "words"
    expected = {
        kernels.BAD_PROBABILITY: "a log10 probability, which is a number of at most 0",
        kernels.BAD_BACKOFF: f"a log10 back-off from {kernels.LEAST_BACKOFF:g} to {kernels.LARGEST_BACKOFF:g}",
        kernels.NEEDLESS_BACKOFF: "no back-off at the highest order",
        kernels.UNKNOWN_WORD: "a word that is among the 1-grams",
        kernels.TOO_FEW_FIELDS: f"a log10 probability and {order} {words}",
        kernels.TOO_MANY_FIELDS: f"a log10 probability, {order} {words} and a log10 back-off",
    }
    source.fail(wrong, expected[lines.status], _AGAIN, line)


def _read_unigrams(
    source: ArpaSource, counts: Sequence[int], warn: Callable[[str], None]
) -> tuple[Vocabulary, _Words, SuffixOrder]:
    section_line = source.line
    # In front stands an <unk>, in case that the file has none.
    texts = [byte_array(MARKER_TOKENS[UNKNOWN].encode())]
    places = [np.array([[0, texts[0].size]])]  # where each word starts and stops
    log_probs, log_backoffs = [np.array([_LOG_PROB_WITHOUT_UNKNOWN], np.float32)], [np.zeros(1, np.float32)]
    size = texts[0].size

    def spelled(lines: _Lines) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " words+1"]]:
        return _spelled(lines.block.text, lines.rows)  # the text itself is let go

    for lines, (words, ends) in _parsed(source, 1, counts, _NO_WORDS, spelled):
        _check_utf8(source, lines.block)
        texts.append(words)
        places.append(np.column_stack([ends[:-1], ends[1:]]) + size)
        log_probs.append(lines.log_probs.copy())
        log_backoffs.append(lines.log_backoffs.copy())
        size += words.size
    text, where = _joined(texts), _joined(places)
    unknown, begin, end = (_index_of(marker.encode(), text, where) for marker in MARKER_TOKENS)
    for marker, index in ((MARKER_TOKENS[BEGIN], begin), (MARKER_TOKENS[END], end)):
        if index == 0:
            source.fail(f"no {marker} among the 1-grams", "<s> and </s>", "make the model with both", section_line)
    other_unknown = _index_of(_OTHER_UNKNOWN, text, where) if unknown == 0 else 0
    if other_unknown:
        unknown = other_unknown
        where[other_unknown] = where[0]
    if unknown == 0:
        warn(f"{source.name}: there is no <unk>, so that unknown words get a log10 probability of -100")
    others = np.ones(len(where), np.bool_)
    others[[0, unknown, begin, end]] = False
    by_id = np.concatenate([[unknown, begin, end], np.flatnonzero(others)])
    pool, offsets = _spelled(text, where[by_id])
    known = _known(pool, offsets, other_unknown=other_unknown > 0)
    twin = insert_all(known.pool, known.offsets, known.offsets.size - 1, known.slots)
    if twin >= 0:
        word = known.pool[known.offsets[twin] : known.offsets[twin + 1]].tobytes().decode()
        source.fail(f"the word {word!r} twice among the 1-grams", "each once", _AGAIN, section_line)
    sorted_log_probs = _joined(log_probs)[by_id]
    sorted_log_probs[BEGIN] = -np.inf
    levels = SuffixOrder(sorted_log_probs, _joined(log_backoffs)[by_id], node_limit=sum(counts) + 2)
    return Vocabulary.from_arrays(pool, offsets, None if other_unknown else known.slots), known, levels


def _check_utf8(source: ArpaSource, block: ArpaBlock) -> None:
    """The words of longer n-grams need no check, since they have to be among the 1-grams."""
    data = block.text.tobytes()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = block.first_line + data.count(b"\n", 0, error.start)
        source.fail(data[error.start : error.start + 1], "UTF-8", "convert it to UTF-8, for instance with iconv", line)


def _index_of(word: bytes, text: UInt8[ndarray, " bytes"], places: Int64[ndarray, "words 2"]) -> int:
    """Of the first of the words that is this one, not counting the one in front; 0 where there is none."""
    candidates = np.flatnonzero(places[:, 1] - places[:, 0] == len(word))
    candidates = candidates[candidates > 0]
    letters = text[places[candidates, :1] + np.arange(len(word))]  # (candidates, letters)
    found = candidates[np.all(letters == byte_array(word), axis=1)]
    return int(found[0]) if found.size else 0


def _spelled(
    text: UInt8[ndarray, " bytes"], places: Int[ndarray, "words 2"]
) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " words+1"]]:
    """The words at these places one after the other, and where each begins."""
    offsets = np.concatenate([[0], np.cumsum(places[:, 1] - places[:, 0])])
    pool = np.empty(offsets[-1], np.uint8)
    kernels.copy_words(text, places, pool, offsets)
    return pool, offsets


def _known(pool: UInt8[ndarray, " bytes"], offsets: Int64[ndarray, " tokens+1"], *, other_unknown: bool) -> _Words:
    """A hash table with nothing in it yet."""
    size = offsets.size - 1
    if other_unknown:
        pool = np.concatenate([pool, byte_array(_OTHER_UNKNOWN)])
        offsets = np.append(offsets, pool.size)
    slots = np.zeros(slots_needed(offsets.size - 1), np.uint64)
    return _Words(size, pool, offsets, slots)


def _read_level_in_order(
    source: ArpaSource, counts: Sequence[int], known: _Words, levels: SuffixOrder, warn: Callable[[str], None]
) -> tuple[Trie | None, Extra]:
    """Adds the next order to the levels, where it is in suffix order as they are; else to a trie made of them.

    Returns the trie, and the n-grams whose contexts are not in it. Raises TwiceError.
    """
    order = levels.order + 1
    is_last = order == len(counts)
    parts: list[Part] = []
    left_out = 0

    def placed(lines: _Lines) -> Part:
        return levels.part(lines.rows, lines.log_probs, lines.log_backoffs, is_last=is_last)

    for lines, part in _parsed(source, order, counts, known, placed):
        left_out += lines.left_out
        parts.append(part)
    _warn_of_left_out(source, left_out, order, warn)
    if levels.add_level(parts, is_last=is_last):
        return None, _no_orphans(order)
    trie = levels.trie()

    def found(part: Part) -> tuple[Part, Int[ndarray, " ngrams"]]:
        return part, trie.nodes_of(part.rows, order - 1) if part.ranks is None else levels.context_nodes(part.ranks)

    return trie, _add_level(trie, map_in_order(found, parts), is_last=is_last)


def _read_level(
    source: ArpaSource, counts: Sequence[int], known: _Words, trie: Trie, warn: Callable[[str], None]
) -> Extra:
    """Adds the next order to the trie; returns the n-grams whose contexts are not in it. Raises TwiceError."""
    order = trie.order + 1
    left_out = 0

    def found(lines: _Lines) -> Int[ndarray, " ngrams"]:
        return trie.nodes_of(lines.rows, order - 1)

    def parsed() -> Iterator[tuple[_Lines, Int[ndarray, " ngrams"]]]:
        nonlocal left_out
        for lines, contexts in _parsed(source, order, counts, known, found):
            left_out += lines.left_out
            yield lines, contexts
        _warn_of_left_out(source, left_out, order, warn)

    return _add_level(trie, parsed(), is_last=order == len(counts))


def _add_level(trie: Trie, ngrams: Iterable[tuple[_Lines | Part, Int[ndarray, " ngrams"]]], *, is_last: bool) -> Extra:
    """ngrams: some at a time, with the nodes of their contexts, or NO_NODE; those without are returned.

    Raises TwiceError.
    """
    contexts, words = [np.empty(0, trie.index)], [np.empty(0, np.int32)]
    log_probs, log_backoffs = [np.empty(0, np.float32)], [np.empty(0, np.float32)]
    orphans = _no_orphans(trie.order + 1)
    for some, nodes in ngrams:
        lacking = nodes == NO_NODE
        kept: slice | ndarray = slice(None)
        if lacking.any():
            orphans += Extra(some.rows[lacking], some.log_probs[lacking], some.log_backoffs[lacking])
            kept = ~lacking
        contexts.append(nodes[kept])
        words.append(np.ascontiguousarray(some.rows[kept, -1]))
        log_probs.append(some.log_probs[kept])
        if not is_last:
            log_backoffs.append(some.log_backoffs[kept])
    trie.add_level(_joined(contexts), _joined(words), _joined(log_probs), _joined(log_backoffs))
    return orphans


def _no_orphans(order: int) -> Extra:
    return Extra.blanks(np.empty((0, order), np.int32))


def _warn_of_left_out(source: ArpaSource, left_out: int, order: int, warn: Callable[[str], None]) -> None:
    if left_out:
        warn(f"{source.name}: {left_out} {order}-grams are left out, since <s> is in them but not first")


def _joined(parts: list[ndarray]) -> ndarray:
    """The parts in one array; they themselves are let go, so that not all is in memory twice."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole
