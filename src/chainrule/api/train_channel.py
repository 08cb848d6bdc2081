"""Trains channels of errors on pairs of wrong and right words or, for grammar, texts."""

from __future__ import annotations

from collections import Counter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chainrule.api.progress_line import ProgressOption, shows_progress
from chainrule.applications.channel.channel_file import write_channel
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
    from collections.abc import Iterable

    from chainrule.applications.channel.channel import Channel
    from chainrule.applications.channel.grammar import GrammarChannel
    from chainrule.base.progress import Progress


_PRIOR_RATE = 0.03  # of English errors, before any pairs are counted


class ErrorPairs(NamedTuple):
    """Pairs (wrong, right) with their counts. left_out: how many were empty, equal, or of several words."""

    pairs: list[tuple[str, str]]
    counts: list[float]
    left_out: int


def read_error_pairs(path: str | PathLike[str]) -> ErrorPairs:
    """Reads pairs from lines `wrong<TAB>right` or `wrong<TAB>right<TAB>count`. Raises TextError with file and line."""
    pairs, counts, left_out = [], [], 0
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) not in (2, 3):
            raise TextError(
                f"{path}, line {number}: {len(fields)} columns; expected wrong<TAB>right or wrong<TAB>right<TAB>count"
            )
        try:
            count = float(fields[2]) if len(fields) == 3 else 1.0
        except ValueError:
            raise TextError(f"{path}, line {number}: {fields[2]!r} is not a count; expected a number") from None
        if not 0 < count < float("inf"):
            raise TextError(f"{path}, line {number}: the count is {fields[2]}; expected a number above 0")
        wrong, right = fields[0].strip().lower(), fields[1].strip().lower()
        if not wrong or not right or wrong == right or " " in wrong + right:
            left_out += 1
            continue
        pairs.append((wrong, right))
        counts.append(count)
    if not pairs:
        raise TextError(f"{path}: no pair of a wrong and a right word that differ; expected lines of wrong<TAB>right")
    return ErrorPairs(pairs, counts, left_out)


@shows_progress
def train_channel(
    pairs: Iterable[tuple[str, str]] | str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    rounds: int = 8,
    progress: ProgressOption = None,
) -> Channel:
    """Trains a channel of spelling errors, in lower case, by EM, for `correct`.

    pairs: (wrong, right), or a file of them; see `read_error_pairs`. output: the JSON file to write the channel to,
    which is replaced. rounds: of EM. Raises TextError, SettingError, OutputError.

    good:  channel = chainrule.train_channel([("teh", "the"), ("recieve", "receive")])
    """
    if isinstance(pairs, (str, PathLike)):
        read = read_error_pairs(pairs)
    else:
        lowered = [(wrong.lower(), right.lower()) for wrong, right in pairs]
        read = ErrorPairs(lowered, [1.0] * len(lowered), 0)
    on_progress: Progress = progress if callable(progress) else silent
    channel = learn_channel(read.pairs, weights=read.counts, rounds=rounds, progress=on_progress)
    if output is not None:
        record = {"pairs": len(read.pairs), "left_out": read.left_out, "rounds": rounds}
        write_channel(channel, Path(output), record)
    return channel


def train_grammar(
    pairs: Iterable[tuple[str, str]] | str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    inflections: str | PathLike[str] | None = None,
) -> GrammarChannel:
    """Trains a channel of grammatical errors, by counting them, for `correct` and `noise`.

    pairs: (wrong, right) texts, or a file with a tab between them. output: the JSON file to write the channel to, which
    is replaced. inflections: a file with the forms of words; by default, rules of English make them from the words of
    the right texts. Errors that the pairs do not show keep the rates of `english`. Raises TextError, SettingError,
    OutputError.

    good:  grammar = chainrule.train_grammar([("he go home", "he goes home")])
    """
    if isinstance(pairs, (str, PathLike)):
        read = pairs_of([str(pairs)], ("wrong", "right"))
        texts = list(zip(read.sources, read.targets, strict=True))
    else:
        texts = list(pairs)
    words = Counter(word.lower() for _, right in texts for word in words_and_marks(right))
    forms = english_inflections(words) if inflections is None else read_inflections(inflections)
    learned = learn_grammar(texts, forms, english_grammar(_PRIOR_RATE))
    if output is not None:
        write_grammar(learned, Path(output), {"pairs": len(texts)})
    return learned
