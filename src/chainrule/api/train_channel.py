"""Channels of errors, learned from pairs: of wrong and right words, or, for grammar, of wrong and right texts."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.api.progress_line import ProgressOption, shows_progress
from chainrule.applications.channel.channel_file import channel_of, write_channel
from chainrule.applications.channel.english import english_grammar
from chainrule.applications.channel.grammar import words_and_marks
from chainrule.applications.channel.grammar_file import write_grammar
from chainrule.applications.channel.grammar_learning import learn_grammar
from chainrule.applications.channel.inflections import english_inflections, read_inflections
from chainrule.applications.channel.learning import learn_channel
from chainrule.base.progress import silent
from chainrule.errors import TextError
from chainrule.text.pairs import pairs_of
from chainrule.text.plain_text import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.applications.channel.channel import Channel
    from chainrule.applications.channel.confusions import Confusions
    from chainrule.applications.channel.grammar import GrammarChannel
    from chainrule.base.progress import Progress


_PRIOR_RATE = 0.03  # of the errors of English, which the pairs outweigh
_RATE_IN_WRONG_WORDS = 0.15  # of errors at a character: about one in each word
_LETTER = re.compile(r"[^\W\d_]")
_PARTS = re.compile(r"([.,;:!?\"'()_~*-]*)(.*?)([.,;:!?\"'()_~*-]*)")
_ALIKE = 0.5  # the least likeness of two words in texts: less, and they are not the same word


class ErrorPairs(NamedTuple):
    """Pairs (wrong, right) of words with their counts. left_out: pairs of texts in which no word goes wrong."""

    pairs: list[tuple[str, str]]
    counts: list[float]
    left_out: int


def read_error_pairs(path: str | PathLike[str]) -> ErrorPairs:
    """Pairs from lines `wrong<TAB>right`, or `wrong<TAB>right<TAB>count`; see `wrong_words` for texts of several words.

    Raises TextError with file and line.
    """
    texts: list[tuple[str, str]] = []
    counts: list[float] = []
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) not in (2, 3):
            raise TextError(f"{path}, line {number}: {len(fields)} columns; expected wrong<TAB>right, maybe <TAB>count")
        try:
            count = float(fields[2]) if len(fields) == 3 else 1.0
        except ValueError:
            raise TextError(f"{path}, line {number}: {fields[2]!r} is no count; expected a number") from None
        if not 0 < count < float("inf"):
            raise TextError(f"{path}, line {number}: the count is {fields[2]}; expected a number above 0")
        texts.append((fields[0], fields[1]))
        counts.append(count)
    read = _error_pairs(texts, counts)
    if not read.pairs:
        raise TextError(f"{path}: no pair of a wrong and a right word that differ; expected lines of wrong<TAB>right")
    return read


def _error_pairs(texts: Sequence[tuple[str, str]], counts: Sequence[float]) -> ErrorPairs:
    words = [list(wrong_words(wrong, right)) for wrong, right in texts]
    pairs = [pair for row in words for pair in row]
    of_pairs = [count for row, count in zip(words, counts, strict=True) for _ in row]
    return ErrorPairs(pairs, of_pairs, sum(not row for row in words))


def wrong_words(wrong: str, right: str) -> Iterator[tuple[str, str]]:
    """The words of a text that went wrong, with what they should be, in lower case.

    Of texts of several words, only words that replace as many others and are like them; the marks before and after
    them are pairs of their own, and so are signs where nothing should be.

    good:  list(wrong_words("He saw, tbe dog", "he saw the dog")) == [("tbe", "the")]
    """
    written, meant = wrong.lower().split(), right.lower().split()
    if len(written) == len(meant) == 1:
        if written != meant:
            yield written[0], meant[0]
        return
    for kind, i, j, a, b in SequenceMatcher(None, written, meant, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        ours, theirs = written[i:j], meant[a:b]
        if len(ours) > len(theirs):
            yield from ((signs, "") for signs in ours if not _LETTER.search(signs))
            ours = [word for word in ours if _LETTER.search(word)]
        if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                yield from _differing_parts(one, other)


def _differing_parts(written: str, meant: str) -> Iterator[tuple[str, str]]:
    """The marks before a word, it, and the marks after it, where they differ; nothing if it is another word."""
    sides = [match.groups() for text in (written, meant) if (match := _PARTS.fullmatch(text))]
    core, right = (side[1] for side in sides)
    if (len(core), len(right)) == (1, 1) or SequenceMatcher(None, core, right).ratio() >= _ALIKE:
        yield from (pair for pair in zip(*sides, strict=True) if pair[0] != pair[1])


@shows_progress
def train_channel(
    pairs: Iterable[tuple[str, str]] | str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    rounds: int = 8,
    prior: Confusions | Channel | PathLike[str] | None = None,
    progress: ProgressOption = None,
) -> Channel:
    """Learns by EM how words go wrong, in lower case, for `correct`.

    pairs: (wrong, right), or a file of them, see `read_error_pairs`. output: where to write the channel, JSON; the
    file is replaced. rounds: of EM. prior: keyboard or ocr, or a channel learned before, or its file: what it expects
    counts where the pairs say little. Raises TextError, SettingError, ModelFormatError, OutputError.

    good:  channel = chainrule.train_channel([("teh", "the"), ("recieve", "receive")])
    """
    if isinstance(pairs, (str, PathLike)):
        read = read_error_pairs(pairs)
    else:
        texts = list(pairs)
        read = _error_pairs(texts, [1.0] * len(texts))
    before = None if prior is None else channel_of(prior, _RATE_IN_WRONG_WORDS)
    reported: Progress = progress if callable(progress) else silent
    channel = learn_channel(read.pairs, weights=read.counts, rounds=rounds, prior=before, progress=reported)
    if output is not None:
        record: dict[str, Any] = {"pairs": len(read.pairs), "left_out": read.left_out, "rounds": rounds}
        if before is not None:
            record["prior"] = before.name
        write_channel(channel, Path(output), record)
    return channel


def train_grammar(
    pairs: Iterable[tuple[str, str]] | str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    inflections: str | PathLike[str] | None = None,
) -> GrammarChannel:
    """Counts what goes wrong in the grammar of texts, for `correct` and `noise`.

    pairs: (wrong, right) texts, or a file with a tab between them. output: where to write the channel, JSON; the file
    is replaced. inflections: a file with the forms of words; by default from rules of English and the words of the
    right texts. What the pairs do not show keeps the rates of `english`. Raises TextError, SettingError, OutputError.

    good:  grammar = chainrule.train_grammar([("he go home", "he goes home")])
    """
    if isinstance(pairs, (str, PathLike)):
        read = pairs_of([str(pairs)], ("wrong", "right"))
        texts = list(zip(read.sources, read.targets, strict=True))
    else:
        texts = list(pairs)
    words = Counter(word.lower() for _, right in texts for word in words_and_marks(right))
    forms = english_inflections(words) if inflections is None else read_inflections(inflections)
    learnt = learn_grammar(texts, forms, english_grammar(_PRIOR_RATE))
    if output is not None:
        write_grammar(learnt, Path(output), {"pairs": len(texts)})
    return learnt
