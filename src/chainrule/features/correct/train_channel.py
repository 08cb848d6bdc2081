"""Trains channels of errors on pairs of wrong and right words or, for grammar, texts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.arguments import check_text_pairs
from chainrule.base.options import takes
from chainrule.errors import TextError
from chainrule.features.correct.channel.files import channel_of, write_channel, write_grammar
from chainrule.features.correct.channel.inflections import english_inflections, read_inflections
from chainrule.features.correct.channel.learning import learn_channel, learn_grammar, marks_as_word
from chainrule.features.correct.channel.word_channel import english_grammar, words_and_marks
from chainrule.features.correct.options import TrainChannelOptions, TrainGrammarOptions
from chainrule.models.progress_line import showing
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.numbers import number_of
from chainrule.text.parallel import pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.word_channel import WordChannel

_PRIOR_RATE = 0.03  # of English errors, before any pairs are counted
_RATE_IN_WRONG_WORDS = 0.15  # of errors at a character: about one in each word
_LETTER = re.compile(r"[^\W\d_]")
_AROUND = ".,;:!?\"'()_~*-"  # marks around words
_ALIKE = 0.5  # the least likeness of two words in texts: less, and they are not the same word


class ErrorPairs(NamedTuple):
    """Pairs (wrong, right) of words, and of marks, with their counts. left_out: texts in which nothing is wrong."""

    pairs: list[tuple[str, str]]
    counts: list[float]
    left_out: int


def read_error_pairs(path: str | PathLike[str]) -> ErrorPairs:
    """Return pairs from lines `wrong<TAB>right`, or `wrong<TAB>right<TAB>count`; see `wrong_words` for texts of several
    words.

    Raises TextError with file and line.
    """
    texts: list[tuple[str, str]] = []
    counts: list[float] = []
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) not in (2, 3):
            raise TextError(
                f"{path}, line {number}: {len(fields)} columns; expected wrong<TAB>right or wrong<TAB>right<TAB>count"
            )
        try:
            count = number_of(fields[2]) if len(fields) == 3 else 1.0
        except ValueError:
            raise TextError(f"{path}, line {number}: {fields[2]!r} is not a count; expected a number") from None
        if not 0 < count < float("inf"):
            raise TextError(f"{path}, line {number}: the count is {fields[2]}; expected a number above 0")
        texts.append((fields[0], fields[1]))
        counts.append(count)
    read = _error_pairs(texts, counts)
    if not read.pairs:
        raise TextError(f"{path}: no pair of a wrong and a right word that differ; expected lines of wrong<TAB>right")
    return read


def _error_pairs(texts: Sequence[tuple[str, str]], counts: Sequence[float]) -> ErrorPairs:
    words, marks = (defaultdict[tuple[str, str], float](float) for _ in range(2))
    left_out = 0
    for (wrong, right), count in zip(texts, counts, strict=True):
        differing, around = wrong_words(wrong, right), marks_around(wrong, right)
        left_out += not differing and all(one == other for one, other in around)
        for pairs, row in ((words, differing), (marks, around)):
            for pair in row:
                pairs[pair] += count
    if all(one == other for one, other in marks):
        marks.clear()  # nothing goes wrong with them
    of_marks = {(marks_as_word(one), marks_as_word(other)): count for (one, other), count in marks.items()}
    return ErrorPairs([*words, *of_marks], [*words.values(), *of_marks.values()], left_out)


def wrong_words(wrong: str, right: str) -> list[tuple[str, str]]:
    """Return the wrong words of a text, with what they should be, in lower case.

    Of texts of several words, those that replace as many others and are like them, without the marks around them; and
    one that replaces two, or two that replace one, whose space was lost or inserted.

    good:  wrong_words("He saw, tbe dog", "he saw the dog") == [("tbe", "the")]
    """
    if len(wrong.split()) == len(right.split()) == 1:
        pair = wrong.strip().lower(), right.strip().lower()
        return [pair] if pair[0] != pair[1] else []
    cores = [(written[1], meant[1]) for written, meant in _aligned(wrong, right)]
    return [(written, meant) for written, meant in cores if written != meant and written and meant]


def marks_around(wrong: str, right: str) -> list[tuple[str, str]]:
    """Return the marks before and after each word of a text of several, as written and as meant; and marks between
    words.

    good:  marks_around("It is:", "it is.") == [("", ""), ("", ""), ("", ""), (":", ".")]
    """
    if len(wrong.split()) == len(right.split()) == 1:
        return []
    return [
        pair
        for written, meant in _aligned(wrong, right)
        for pair in ([(written[0], meant[0]), (written[2], meant[2])] if meant[1] else [(written[0], "")])
    ]


def _aligned(wrong: str, right: str) -> Iterator[tuple[tuple[str, str, str], tuple[str, str, str]]]:
    """Yield words of two texts that stand for one another, and marks that stand for nothing: the marks before, the
    word, those after.
    """
    written, meant = wrong.lower().split(), right.lower().split()
    for _, i, j, a, b in SequenceMatcher(None, written, meant, autojunk=False).get_opcodes():
        ours, theirs = written[i:j], meant[a:b]
        if sorted((len(ours), len(theirs))) == [1, 2] and all(map(_LETTER.search, ours + theirs)):
            ours, theirs = [" ".join(ours)], [" ".join(theirs)]  # a space was lost or inserted
        if len(ours) > len(theirs):
            yield from (((signs, "", ""), ("", "", "")) for signs in ours if not _LETTER.search(signs))
            ours = [word for word in ours if _LETTER.search(word)]
        if len(ours) == len(theirs):
            for pair in zip(map(_parts, ours), map(_parts, theirs), strict=True):
                core, other = pair[0][1], pair[1][1]
                is_like = core == other or len(core) == len(other) == 1
                if is_like or SequenceMatcher(None, core, other).ratio() >= _ALIKE:
                    yield pair


def _parts(chunk: str) -> tuple[str, str, str]:
    rest = chunk.lstrip(_AROUND)
    core = rest.rstrip(_AROUND)
    return chunk[: len(chunk) - len(rest)], core, rest[len(core) :]


@takes(TrainChannelOptions)
def train_channel(options: TrainChannelOptions) -> Channel:
    """Train a channel of spelling errors, in lower case, by EM, for `correct`.

    pairs: (wrong, right), or a file of them, see `read_error_pairs`. output: the JSON file to write the channel to,
    which is replaced. rounds: of EM. prior: english, keyboard or ocr, or a channel learned before, or its file: its
    probabilities count where there are few pairs. Raises TextError, SettingError, ModelFormatError, OutputError.

    good:  channel = chainrule.train_channel([("teh", "the"), ("recieve", "receive")])
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainChannelOptions, progress: Progress) -> Channel:
    if isinstance(options.pairs, (str, PathLike)):
        read = read_error_pairs(options.pairs)
    else:
        texts = check_text_pairs("pairs", options.pairs, "('teh', 'the')")
        read = _error_pairs(texts, [1.0] * len(texts))
    prior, rounds = options.prior, options.rounds
    before = None if prior is None else channel_of(prior, _RATE_IN_WRONG_WORDS)
    channel = learn_channel(read.pairs, weights=read.counts, rounds=rounds, prior=before, progress=progress)
    if options.output is not None:
        record: dict[str, Any] = {"pairs": len(read.pairs), "left_out": read.left_out, "rounds": rounds}
        if before is not None:
            record["prior"] = before.name
        write_channel(channel, Path(options.output), record)
    return channel


@takes(TrainGrammarOptions)
def train_grammar(options: TrainGrammarOptions) -> WordChannel:
    """Train a channel of grammatical errors, by counting them, for `correct` and `noise`.

    pairs: (wrong, right) texts, or a file with a tab between them. output: the JSON file to write the channel to, which
    is replaced. inflections: a file with the forms of words; by default, rules of English make them from the words of
    the right texts. Errors that the pairs do not show keep the rates of `english`. Raises TextError, SettingError,
    OutputError.

    good:  grammar = chainrule.train_grammar([("he go home", "he goes home")])
    """
    if isinstance(options.pairs, (str, PathLike)):
        read = pairs_of([str(options.pairs)], ("wrong", "right"))
        texts = list(zip(read.sources, read.targets, strict=True))
    else:
        texts = check_text_pairs("pairs", options.pairs, "('he go home', 'he goes home')")
    words = Counter(word.lower() for _, right in texts for word in words_and_marks(right))
    forms = english_inflections(words) if options.inflections is None else read_inflections(options.inflections)
    learned = learn_grammar(texts, forms, english_grammar(_PRIOR_RATE))
    if options.output is not None:
        write_grammar(learned, Path(options.output), {"pairs": len(texts)})
    return learned
