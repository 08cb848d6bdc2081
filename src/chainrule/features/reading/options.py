"""How reading times are explained. Imports nothing heavy: the flags of `chainrule reading` are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import changed, option
from chainrule.models.run_options import CheckpointOptions
from chainrule.text.corpus.bad_records import BadRecordsOption
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption


@dataclass(frozen=True, kw_only=True)
class ReadingTimesOptions(BadRecordsOption):
    """How reading times are explained.

    frequencies: a file of counts, a dictionary of these, or a unigram model or its folder. word: the column of words.
    time: that of times, in ms. key: the columns that both tables share, and that name a word; by default all of the
    same name but words, times and row numbers. story: the column that says which words are one text, in which a word's
    context is all that comes before; by default, of the key's columns whose values are contiguous, that of the fewest
    values. by: the column of groups that folds and intervals
    are made of: a story or sentence; by default the story. shift: the words that times come too early: with 1, a time
    is that of the next word. previous: how many words before have predictors, too. log: whether ln of the times is
    predicted. surprisals: columns of the text that are surprisals in bits, and stand beside the models. word_ends,
    convention: see `SurprisalOptions`. bad_records: what becomes of a row of times that cannot be read or joined; a
    word of the text is never skipped.
    """

    frequencies: str | os.PathLike[str] | Mapping[str, float] | Model | None = option(
        None, "how frequent words are (required): a file of counts (word, tab, count), or a unigram model", reads=Path
    )
    word: str = option("word", "the column of words")
    time: str = option("time", "the column of times, in ms")
    key: tuple[str, ...] = option((), "the columns that name a word in both tables; by default all that they share")
    story: str | None = option(
        None, "the column that names the text of each word; by default a column of the key whose rows are contiguous"
    )
    by: str | None = option(None, "the column whose groups are held out and resampled; by default the story")
    shift: int = option(0, "assign each time to the word this many places later", least=-10, most=10)
    previous: int = option(2, "how many preceding words have predictors, too: 1 for eye movements", least=0, most=10)
    folds: int = option(10, "the folds of cross-validation", least=2, most=1000)
    log: bool = option(False, "predict ln of the times", is_switch=True)
    surprisals: tuple[str, ...] = option((), "columns of the text that are surprisals in bits, beside the models")
    word_ends: bool = changed(SurprisalOptions, "word_ends")
    convention: Literal["chainrule", "minicons"] = changed(SurprisalOptions, "convention")
    progress: ProgressOption = changed(CheckpointOptions, "progress")
