"""The options of verbs on texts: keywords in Python, flags on the command line, fields of requests.

Imports nothing heavy, so that help is shown at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption

    AnyPath = str | PathLike[str]
    Records = AnyPath | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SurprisalOptions(Options):
    """What a table of surprisals has.

    by: a row for each word, token, character, byte or text. nats, log10: in natural or decimal logarithms rather than
    bits. long: a row for each of them and each model, whose name is in a column. ends: also a row for the end of each
    text, </s>. word_ends: a word's own end is a part of it, in place of that of the word before it, see
    `evaluation.surprisal`; where tokens are pieces of words, this needs the whole distribution at each token.
    entropy: for words and tokens; of words, that before their first token, and this token's rank. frequencies: a file
    of counts, a dictionary of these, or a unigram model or its folder. previous: how many words before each have
    columns in its row, too; words before the first are empty. word_entropy: the number of words drawn before each to
    estimate the entropy of the next word, see `evaluation.surprisal.word_entropies`. convention: which tokens say that
    the word before them has ended, see `evaluation.surprisal.word_borders`.
    """

    by: Literal["words", "tokens", "characters", "bytes", "texts"] = option("words", "what has a row", flag=None)
    nats: bool = option(False, "natural logarithms; by default lines have these, tables bits", is_switch=True)
    log10: bool = option(False, "decimal logarithms, as ARPA files and KenLM have them", is_switch=True)
    long: bool = option(
        False, "a row for each word and model, which a column names; models may cut texts differently", is_switch=True
    )
    ends: bool = option(False, "also a row for the end of each text, </s>", is_switch=True)
    word_ends: bool = option(
        True, "count the end of a word as a part of that word, not of the next one, where tokens are subwords"
    )
    entropy: bool = option(
        False, "also the entropy of the next token, and the rank of the one that came", is_switch=True
    )
    frequencies: AnyPath | Mapping[str, float] | Model | None = option(
        None,
        "also ln of the relative frequency of each word: a file of counts (word, tab, count), or a unigram model",
        reads=Path,
    )
    previous: int = option(0, "also the values of this many words before each, as columns", least=0, most=20)
    word_entropy: int = option(
        0,
        "also the entropy of the next word, with its standard error: estimated from this many drawn words, at most "
        "4,096, where tokens are subwords",
        least=0,
        most=1 << 12,
    )
    convention: Literal["chainrule", "minicons"] = option(
        "chainrule",
        "how the end of a word is found: by tokens that begin with white space and by </s>, or as by minicons' "
        "bow_correction",
        served=True,
    )
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nats and self.log10:
            raise SettingError("nats=True and log10=True are both given; choose one")
        if self.convention != "chainrule" and not self.word_ends:
            raise SettingError(f"the convention {self.convention} says how words end; leave it, or no-word-ends, out")

    @property
    def unit(self) -> Literal["bits", "nats", "log10"]:
        """The unit of surprisal."""
        return "nats" if self.nats else "log10" if self.log10 else "bits"
