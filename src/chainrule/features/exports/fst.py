"""Writes an n-gram table as a weighted automaton, in OpenFst's text, with the symbols of its words.

A state is a history. An n-gram (h, w) is an arc from h, with the label w and the cost -ln p(w | h), to the longest
history that hw ends in; p(</s> | h) is the final weight of h. Back-off is an arc from h to the next shorter history,
with the input #0, the output <eps> and the cost of the back-off weight. The first line belongs to the initial state,
the history <s>. A history without n-grams and without a weight has no state. (C. Allauzen, M. Mohri and B. Roark,
Generalized algorithms for constructing language models, 2003; #0 is the name in Kaldi's arpa2fst.)

With #0 as a failure transition, taken only where a word has no arc, the cost of a sentence is exactly -ln P of it and
its end. As an epsilon arc it lets words take a shorter history, which may be cheaper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.ngram.trie.table import ROOT
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table
    from chainrule.text.tokenization.vocabulary import Vocabulary

TASK = "writing the automaton"
EPSILON, BACKOFF = b"<eps>", b"#0"
_AT_ONCE = 1 << 16  # lines


def write_fst(
    path: Path,
    symbols: Path,
    table: Table,
    vocabulary: Vocabulary,
    begin: Int64[ndarray, " contexts"],
    progress: Progress = silent,
) -> None:
    """Write both files; a name that ends in .gz, .zst, .xz or .bz2 is compressed.

    begin: the nodes of the contexts in which documents begin, the shortest first. Raises OutputError, and SettingError
    where a word of the vocabulary is a symbol of the automaton.
    """
    tokens = vocabulary.tokens()
    reserved = next((token for token in tokens if token in (EPSILON, BACKOFF)), None)
    if reserved is not None:
        raise SettingError(f"the vocabulary has the word {reserved.decode()}, which is a symbol of automata")
    ordered = [EPSILON, *(token for i, token in enumerate(tokens) if i not in (BEGIN, END))]
    ordered += [BACKOFF, tokens[BEGIN], tokens[END]]
    with replace_file(symbols) as raw, compressing(raw, symbols) as file:
        file.writelines(b"%b\t%d\n" % pair for pair in zip(ordered, range(len(ordered)), strict=True))
    with replace_file(path) as raw, compressing(raw, path) as file:
        for part in _parts(table, tokens, begin, progress):
            file.write(part)


class _States(NamedTuple):
    """Which contexts of a table are states, and how they are connected; all by node."""

    is_state: Bool[ndarray, " inner"]
    shorter: Int64[ndarray, " inner"]  # the longest state that a context ends in, without itself
    targets: Int64[ndarray, " nodes"]  # the state after each n-gram


def _states(table: Table) -> _States:
    sizes: Int64[ndarray, " inner"] = np.diff(table.begin.astype(np.int64))
    inner = sizes.size
    is_state = (sizes > 0) | (table.log_backoffs != 0)
    is_state[ROOT] = True
    shorter, targets = np.zeros(inner, np.int64), np.zeros(table.words.size, np.int64)
    for order in range(1, table.order + 1):
        level = table.level(order)
        back = np.zeros(level.stop - level.start, np.int64)
        if order > 1:
            contexts = np.repeat(np.arange(inner)[table.level(order - 1)], sizes[table.level(order - 1)])
            _find_suffixes(table, table.words[level], shorter[contexts], is_state, shorter, back)
        nodes = np.arange(level.start, level.stop)
        if order < table.order:
            shorter[level] = back
            targets[level] = np.where(is_state[level], nodes, back)
        else:
            targets[level] = back
    return _States(is_state, shorter, targets)


def _find_suffixes(
    table: Table,
    words: Int32[ndarray, " ngrams"],
    contexts: Int64[ndarray, " ngrams"],
    is_state: Bool[ndarray, " inner"],
    shorter: Int64[ndarray, " inner"],
    found: Int64[ndarray, " ngrams"],
) -> None:
    """Write the longest state that each n-gram ends in, without itself. contexts: the states shorter than its own."""
    left = np.arange(words.size)
    contexts = contexts.copy()
    while left.size:
        nodes, is_there = _children(table, contexts[left], words[left])
        there, known = left[is_there], nodes[is_there]
        found[there] = np.where(is_state[known], known, shorter[known])
        left = left[~is_there]
        contexts[left] = shorter[contexts[left]]  # unigrams have all words, so this ends at the root


def _children(
    table: Table, contexts: Int64[ndarray, " n"], words: Int32[ndarray, " n"]
) -> tuple[Int64[ndarray, " n"], Bool[ndarray, " n"]]:
    """Return the nodes of n-grams, by binary search among the children of their contexts; and whether there are
    such.
    """
    low, stop = (table.begin[contexts + i].astype(np.int64) for i in (0, 1))
    high = stop.copy()
    while (low < high).any():
        middle = (low + high) // 2
        is_below = (table.words[np.minimum(middle, table.words.size - 1)] < words) & (low < high)
        low, high = np.where(is_below, middle + 1, low), np.where(is_below | (low >= high), high, middle)
    nodes = np.minimum(low, table.words.size - 1)
    return nodes, (low < stop) & (table.words[nodes] == words)


def _parts(
    table: Table, tokens: list[bytes], begin: Int64[ndarray, " contexts"], progress: Progress
) -> Iterator[bytes]:
    """Yield the lines of the automaton, in parts; those of the initial state come first."""
    states = _states(table)
    start = int(begin[-1]) if begin.size else ROOT
    start = start if states.is_state[start] else int(states.shorter[start])
    numbers = np.cumsum(states.is_state) - 1
    numbers += np.arange(numbers.size) < start
    numbers[start] = 0
    edges = table.begin.astype(np.int64)
    total = table.words.size
    yield _arcs(table, tokens, states, numbers, np.arange(edges[start], edges[start + 1]), np.array([start]))
    yield _backoffs(table, states, numbers, np.array([start]))
    for order in range(1, table.order + 1):
        contexts = np.arange(edges.size - 1)[table.level(order - 1)]
        owners = np.repeat(contexts, np.diff(edges)[contexts])
        first = table.level(order).start
        for at in range(0, owners.size, _AT_ONCE):
            own = owners[at : at + _AT_ONCE]
            nodes = np.arange(first + at, first + at + own.size)
            yield _arcs(table, tokens, states, numbers, nodes[own != start], own[own != start])
            progress(TASK, first + at, total)
    others = np.flatnonzero(states.is_state)
    others = others[(others != start) & (others != ROOT)]
    for at in range(0, others.size, _AT_ONCE):
        yield _backoffs(table, states, numbers, others[at : at + _AT_ONCE])
    progress(TASK, total, total)


def _arcs(
    table: Table,
    tokens: list[bytes],
    states: _States,
    numbers: Int64[ndarray, " inner"],
    nodes: Int64[ndarray, " ngrams"],
    contexts: Int64[ndarray, " ngrams"],
) -> bytes:
    """Return the arcs and final weights of n-grams after contexts; <s> is never predicted, nor what has
    probability 0.
    """
    contexts = np.broadcast_to(contexts, nodes.shape)
    words, costs = table.words[nodes], 0 - table.log_probs[nodes]
    is_possible = (words != BEGIN) & np.isfinite(costs)
    lines = []
    for source, target, word, cost in zip(
        numbers[contexts[is_possible]].tolist(),
        numbers[states.targets[nodes[is_possible]]].tolist(),
        words[is_possible].tolist(),
        costs[is_possible].tolist(),
        strict=True,
    ):
        if word == END:
            lines.append(b"%d\t%.9g\n" % (source, cost))
        else:
            token = tokens[word]
            lines.append(b"%d\t%d\t%b\t%b\t%.9g\n" % (source, target, token, token, cost))
    return b"".join(lines)


def _backoffs(
    table: Table, states: _States, numbers: Int64[ndarray, " inner"], contexts: Int64[ndarray, " n"]
) -> bytes:
    costs = 0 - table.log_backoffs[contexts]
    columns = contexts, numbers[contexts], numbers[states.shorter[contexts]], costs
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return b"".join(
        b"%d\t%d\t%b\t%b\t%.9g\n" % (source, target, BACKOFF, EPSILON, cost)
        for node, source, target, cost in rows
        if node != ROOT and np.isfinite(cost)
    )
