"""Writes an n-gram table as a word list of Android keyboards (.combined), of which their dictionaries are built.

    dictionary=main:en_us,locale=en_US,description=...,date=1795737600,version=54
     word=good,f=162
      shortcut=...,f=whitelist
      bigram=morning,f=214

f is logarithmic, from 0 to 255, of words at any place of a text and of words after the word above:

    f = 255 + 11 ln P, at least 1

so that *the*, at P = 0.05, has 222, as in Android's own English list, and 1 is P = 1e-10. The format's builder keeps of
a bigram how much more probable it makes a word; so only such bigrams are listed. Words are tokens with a letter and
without the signs of the format. A capitalised form is left out if the same word in small letters is more probable.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.files import compressing, read_text, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Float, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.features.exports.config import WordListConfig
    from chainrule.ngram.trie.table import Table

TASK = "writing the word list"
_MOST, _STEPS = 255, 11  # f of probability 1; steps of f in a nat
_VERSION = 54  # of Android's own lists; above 18, keyboards take a list for one of today's format
_LONGEST = 48  # characters of a word
_SIGNS = ",=\t\n\r "
_AT_ONCE = 1 << 14
_ROUNDS, _CHANGE = 100, 1e-9  # of the stationary distribution: at most, and until no word changes by more


def write_word_list(
    path: Path,
    table: Table,
    words: Sequence[str],
    config: WordListConfig,
    description: str,
    date: int,
    progress: Progress = silent,
) -> None:
    """Write the list; a name that ends in .gz, .zst, .xz or .bz2 is compressed.

    words: by id, after the markers whole words. date: in seconds since 1970. Raises OutputError; SettingError where
    there are no words; TextError where the file of shortcuts is wrong.
    """
    shortcuts = {} if config.shortcuts is None else _read_shortcuts(Path(config.shortcuts))
    log_probs = word_log_probs(table)
    kept = _kept(words, log_probs, config.words)
    if not kept.size:
        raise SettingError(f"{path}: none of the model's tokens is a word; expected a model of words")
    following = _following(table, kept, log_probs, config.bigrams)
    header = f"dictionary=main:{config.locale.lower()},locale={config.locale},description={_plain(description)}"
    with replace_file(path) as raw, compressing(raw, path) as file:
        file.write(f"{header},date={date},version={_VERSION}\n".encode())
        parts = _lines(words, log_probs, kept, following, shortcuts)
        for number, part in enumerate(parts):
            file.write(part.encode())
            progress(TASK, min((number + 1) * _AT_ONCE, kept.size), kept.size)


def word_log_probs(table: Table) -> Float64[ndarray, " V"]:
    """Return log P of each word at a random place of a text, by the table's bigrams: their stationary distribution.

    Unigrams of Kneser-Ney tell after how many different words a word comes, not how often.
    """
    unigrams = np.exp(table.log_probs[table.level(1)].astype(np.float64))
    unigrams[BEGIN] = 0
    probs = unigrams / unigrams.sum()
    if table.order > 1:
        firsts, seconds, log_probs = _bigrams(table)
        backoffs = np.exp(table.log_backoffs[table.level(1)].astype(np.float64))
        gains = np.exp(log_probs.astype(np.float64)) - backoffs[firsts] * unigrams[seconds]
        for _ in range(_ROUNDS):
            before = probs.copy()
            before[BEGIN], before[END] = probs[END], 0  # a text begins after the end of another
            after = np.bincount(seconds, before[firsts] * gains, unigrams.size) + before @ backoffs * unigrams
            after = np.maximum(after, 0) / np.maximum(after, 0).sum()
            change = abs(after - probs).max()
            probs = after
            if change < _CHANGE:
                break
    with np.errstate(divide="ignore"):
        return np.log(probs)


def _bigrams(
    table: Table,
) -> tuple[Int64[ndarray, " bigrams"], Int32[ndarray, " bigrams"], Float32[ndarray, " bigrams"]]:
    """Return the first and second words of the table's bigrams, and log P of the second."""
    unigrams, level = table.level(1), table.level(2)
    firsts = np.repeat(np.arange(table.vocabulary_size), np.diff(table.begin[unigrams.start : unigrams.stop + 1]))
    is_possible = table.words[level] != BEGIN
    return firsts[is_possible], table.words[level][is_possible], table.log_probs[level][is_possible]


def frequencies(log_probs: Float[ndarray, " n"]) -> Int64[ndarray, " n"]:
    """Return f of log-probabilities in nats."""
    return np.clip(np.rint(_MOST + _STEPS * log_probs.astype(np.float64)), 1, _MOST).astype(np.int64)


def _kept(words: Sequence[str], log_probs: Float64[ndarray, " V"], most: int | None) -> Int64[ndarray, " kept"]:
    """Return the ids of the words of the list, the most probable first."""
    ids = {word: id for id, word in enumerate(words) if id > END and _is_word(word)}

    def is_better_small(word: str, id: int) -> bool:
        small = ids.get(word.lower(), id)
        return bool(small != id and log_probs[small] > log_probs[id])

    chosen = np.array([id for word, id in ids.items() if not is_better_small(word, id)], np.int64)
    chosen = chosen[np.isfinite(log_probs[chosen])]
    return chosen[np.argsort(-log_probs[chosen], kind="stable")][:most]


def _is_word(word: str) -> bool:
    return (
        len(word) <= _LONGEST
        and any(map(str.isalpha, word))
        and not any(sign in word for sign in _SIGNS)
        and "\ufffd" not in word
    )


def _following(
    table: Table, kept: Int64[ndarray, " kept"], log_probs: Float64[ndarray, " V"], most: int
) -> dict[int, list[tuple[int, float]]]:
    """Return the most probable next words of each word, with log P, where they are more probable than by themselves."""
    if table.order < 2 or not most:
        return {}
    is_kept = np.zeros(table.vocabulary_size, bool)
    is_kept[kept] = True
    firsts, seconds, own = _bigrams(table)
    rows = np.flatnonzero(is_kept[firsts] & is_kept[seconds] & (own > log_probs[seconds]))
    rows = rows[np.lexsort((seconds[rows], -own[rows], firsts[rows]))]
    following: dict[int, list[tuple[int, float]]] = {}
    for first, second, log_prob in zip(firsts[rows].tolist(), seconds[rows].tolist(), own[rows].tolist(), strict=True):
        listed = following.setdefault(first, [])
        if len(listed) < most:
            listed.append((second, log_prob))
    return following


def _lines(
    words: Sequence[str],
    log_probs: Float64[ndarray, " V"],
    kept: Int64[ndarray, " kept"],
    following: Mapping[int, Sequence[tuple[int, float]]],
    shortcuts: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """Yield the words, most probable first, and then the shortcuts of all else."""
    of_words = frequencies(log_probs[kept]).tolist()
    for at in range(0, kept.size, _AT_ONCE):
        lines = []
        for id, frequency in zip(kept[at : at + _AT_ONCE].tolist(), of_words[at : at + _AT_ONCE], strict=True):
            lines.append(f" word={words[id]},f={frequency}\n")
            lines += [f"  shortcut={meant},f=14\n" for meant in shortcuts.get(words[id], ())]
            after = following.get(id, ())
            bigrams = frequencies(np.array([log_prob for _, log_prob in after], np.float32)).tolist()
            lines += [f"  bigram={words[second]},f={own}\n" for (second, _), own in zip(after, bigrams, strict=True)]
        yield "".join(lines)
    known = {words[id] for id in kept.tolist()}
    yield "".join(
        f" word={typed},f=0,not_a_word=true\n" + "".join(f"  shortcut={meant},f=whitelist\n" for meant in all_meant)
        for typed, all_meant in shortcuts.items()
        if typed not in known
    )


def _read_shortcuts(path: Path) -> dict[str, list[str]]:
    """Read the shortcuts in a file: what is typed, with what it stands for. Raises TextError with file and line."""
    try:
        lines = read_text(path).splitlines()
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: is not UTF-8; expected a text") from error
    shortcuts: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        typed, tab, meant = line.partition("\t")
        if not tab or not typed.strip() or not meant.strip() or any(sign in typed + meant for sign in ",=\t"):
            raise TextError(
                f"{path}, line {number}: expected what is typed, a tab, and what it stands for, without commas and "
                "equals signs"
            )
        shortcuts.setdefault(typed.strip(), []).append(meant.strip())
    return shortcuts


def _plain(text: str) -> str:
    return "".join(" " if sign in ",=\t\n\r" else sign for sign in text)
