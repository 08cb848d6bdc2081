"""The options of rescoring: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.base.options import option
from chainrule.features.rescore.config import ListFormat, Objective, TuningConfig
from chainrule.text.corpus.bad_records import BadRecordsOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chainrule.errors import ChainruleError
    from chainrule.models.progress_line import ProgressOption


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(TuningConfig, BadRecordsOption):
    """How n-best lists and lattices are rescored.

    weights: by name; by default 1, and 0 for words and for priors that a model replaces. tune: lists with references,
    or a file of references for these, on which the weights are tuned for the objective. references: a file with a line
    for each list, perhaps after the list's id. sources: a file of the same form, for seq2seq models, which score a
    hypothesis given its source. scores, costs: the files beside a text of Kaldi's, or the columns of a table, by name.
    nbest: how many texts of a lattice become its list. symbols: a file of the words of Kaldi's lattices, if these have
    numbers. on_error: a callback that gets what is wrong with a lattice, which is then left out; without it, the error
    is raised. bad_records: what becomes of a list in JSON lines, or a row of a table, that cannot be read. spelling:
    whether an unknown word also costs its spelling. share: whether common prefixes of hypotheses are read once. bleu:
    whether to measure BLEU, where sacrebleu is installed.
    """

    weights: Mapping[str, float] | None = option(
        None,
        "weights, such as lm=0.8 words=0.5; by default 1, but 0 for words, and for priors if there is a model",
        flag="weight",
        reads=tuple[str, ...],
    )
    tune: str | None = option(
        None, "tune the weights: on LISTS with this file of references, or on other JSON lists or tables with their own"
    )
    objective: Objective = option(
        "wer",
        "what to optimise: an error rate, BLEU, or the likelihood of the hypotheses closest to the references",
    )
    references: str | None = option(
        None, "the correct texts, a line for each list, or after the lists' ids; JSON lists may have their own"
    )
    sources: str | None = option(
        None, "what the lists translate, a line for each list: for seq2seq models; JSON lists may have it"
    )
    format: ListFormat | None = option(
        None, "the format of the lists; by default recognised from names and first lines"
    )
    scores: Mapping[str, str] | None = option(
        None,
        "for a Kaldi text: files of scores, acoustic=FILE; for a table: their columns; higher is better",
        reads=tuple[str, ...],
    )
    costs: Mapping[str, str] | None = option(None, "the same for costs; lower is better", reads=tuple[str, ...])
    nbest: int = option(100, "for lattices: how many texts to take from each, the best ones", least=1)
    symbols: str | None = option(
        None, "for Kaldi's lattices with numbers in place of words: the table of their symbols, such as words.txt"
    )
    on_error: Callable[[ChainruleError], object] | None = option(None, "a callback for errors", flag=None)
    spelling: bool = option(True, "include the spelling of unknown words in their cost")
    share: bool | None = option(
        None, "read a common prefix of hypotheses only once; by default for all but n-gram models"
    )
    bleu: bool = option(True, "also measure BLEU, if sacrebleu is installed")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)
