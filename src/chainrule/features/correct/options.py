"""The options of correction: keywords in Python, flags on the command line, fields of requests.

Imports nothing heavy, so that help is shown at once.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.options import Options, changed, option
from chainrule.features.correct.corrector.config import CorrectionConfig, CorrectionSettings, read_settings
from chainrule.models.run_options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.ready import ReadyChannel
    from chainrule.features.correct.channel.word_channel import WordChannel
    from chainrule.features.correct.corrector.word_index import WordIndex
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption

    AnyPath = str | PathLike[str]


Aim = Literal["f0.5", "accuracy"]


def name_or_path(*names: str) -> Callable[[str], str | Path]:
    """Return a function that takes a flag's value for one of these names, or for the path of a file."""
    return lambda value: value if value in names else Path(value)


TextFormat = Literal["auto", "text", "markdown", "latex", "html", "code"]


@dataclass(frozen=True, kw_only=True)
class CorrectorOptions(CorrectionConfig):
    """What a corrector is made of, besides the language model.

    channel: english, how English is misspelled and mistyped; keyboard, slips of the fingers; ocr, letters that look
    alike; or one trained by `train_channel`, or its file. rate: the share of words that are wrong, which `correct`
    estimates from the first texts (0.02 where there are none yet); for keyboard and ocr the probability of an error at
    a character (0.02). lexicon:
    the right words with their counts, or a file of them, one a line; by default the words of the model's vocabulary.
    grammar: english, what learners of English confuse, or what `train_grammar` learned, or its file; none by default.
    grammar_rate: for english, the probability of an error at a word that can go wrong (0.015). inflections: a file with
    the forms of words, see `read_inflections`; by default from rules of English and the words that are known. learned:
    a seq2seq model from wrong to right texts, or its folder: it proposes, and its log P joins that of the others.
    rescore_by: a second language model, or its folder, which may be bidirectional: its log P of the beam's best
    ways through a text joins that of the others. It may have any tokens. config: settings, of which the named ones
    take the place.
    """

    channel: ReadyChannel | Channel | PathLike[str] = option(
        "english",
        "the model of errors: english, keyboard, ocr, or a file that chainrule train channel wrote",
        reads=str,
        parse=name_or_path("english", "keyboard", "ocr"),
        served=("english", "keyboard", "ocr"),
    )
    rate: float | None = option(
        None,
        "the share of wrong words, by default estimated from the first texts; with keyboard and ocr, of wrong "
        "characters (0.02)",
        above=0,
        below=1,
        served=True,
    )
    lexicon: Mapping[str, float] | WordIndex | AnyPath | None = option(
        None, "the correct words, one on each line, optionally with counts; by default the model's", reads=Path
    )
    grammar: Literal["english"] | WordChannel | PathLike[str] | None = option(
        None,
        "correct grammar, too: english, what learners confuse, or a file from train channel --grammar",
        reads=str,
        parse=name_or_path("english"),
        served=("english",),
    )
    grammar_rate: float | None = option(
        None,
        "with --grammar english: the probability of an error at a word that can go wrong (by default 0.015)",
        above=0,
        below=1,
    )
    inflections: AnyPath | None = option(
        None,
        "with --grammar: the forms of a word in each line, or AGID; by default from rules of English",
        reads=Path,
    )
    learned: Seq2SeqModel | AnyPath | None = option(
        None,
        "a model of train seq2seq, trained on wrong and right texts: it proposes candidates and scores them",
        reads=Path,
        flag="corrector",
    )
    rescore_by: Model | AnyPath | None = option(
        None,
        "a second model, with any tokenizer, perhaps a masked one: it scores the best hypotheses of the beam",
        reads=Path,
    )
    config: CorrectionConfig | None = option(None, "settings, of which the named ones take the place", flag=None)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)

    def correction(self) -> CorrectionConfig:
        """Return `config`, with the settings that were named."""
        named = {name: value for name, value in self.given.items() if hasattr(CorrectionConfig, name)}
        return replace(self.config or CorrectionConfig(), **named)


@dataclass(frozen=True, kw_only=True)
class CorrectOptions(CorrectorOptions):
    """As `CorrectorOptions`.

    settings: what `tune_correction` chose, or its file, for what is not named. format: what the texts are. Code,
    mathematics, addresses, tags, keys and commands of markdown, latex and html are left alone, and of a program (code)
    all but comments and strings. auto: by the file's suffix.
    """

    format: TextFormat = option(
        "auto", "what the texts are, so that code, mathematics, tags and keys are left alone; by default by the suffix"
    )

    settings: CorrectionSettings | AnyPath | None = option(
        None, "a file that --tune wrote; options of the command line take precedence", reads=Path
    )

    def resolved(self) -> CorrectOptions:
        """Return the same, with the tuned settings in their places. Raises ModelFormatError, SettingError."""
        if self.settings is None:
            return replace(self, config=self.correction())
        tuned = self.settings if isinstance(self.settings, CorrectionSettings) else read_settings(Path(self.settings))
        named = {name: None for name in self.given if hasattr(tuned, name)}
        rates: dict[str, Any] = {"rate": tuned.rate if self.rate is None else self.rate}
        if self.grammar == "english" and self.grammar_rate is None:
            rates["grammar_rate"] = tuned.grammar_rate
        config = replace(tuned, **named).applied_to(self.correction())
        return replace(self, config=config, settings=None, **rates)


@dataclass(frozen=True)
class ChannelFirst(CorrectOptions):
    """As `CorrectOptions`; the channel may stand without its name."""

    channel: ReadyChannel | Channel | PathLike[str] = changed(CorrectOptions, "channel")


@dataclass(frozen=True, kw_only=True)
class NoiseOptions(Options):
    """How texts are corrupted.

    channel: english, how English is misspelled and mistyped; keyboard, slips of the fingers; ocr, letters that look
    alike; grammar, what learners of English confuse, and some slips; or a file of `train_grammar`. rate: how often
    something goes wrong at a character that can go wrong (0.03), or, for english (0.1) and grammar (0.2), at a word.
    inflections: a file with the forms of words, for grammar; by default from
    rules of English and the source's words. model: one of words, that proposes what may have been meant, for keyboard
    and ocr.
    """

    channel: AnyPath = option(
        "keyboard",
        "the source of errors: keyboard; ocr, letters that look alike; english, as it is misspelled; grammar, as "
        "learners of English make them; or a file from chainrule train channel --grammar",
        reads=str,
    )
    rate: float | None = option(
        None,
        "the probability of an error at each character that can be corrupted, up to 0.5 (by default 0.03) or, with "
        "english (0.1) and grammar (0.2), at each word",
        above=0,
        most=0.5,
    )
    seed: int = option(0, "the seed of the errors")
    inflections: AnyPath | None = option(
        None,
        "with grammar: the forms of a word in each line, or AGID; by default from rules of English",
        reads=Path,
    )
    model: Model | None = option(
        None, "write n-best lists of corrections from the words of this model, instead of text", reads=Path
    )
    best: int = option(50, "with --model: corrections in an n-best list", least=1, most=1 << 14, needs="model")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True)
class TuneTarget(Options):
    """What a search for settings is for. output: a JSON file for them. maximise: what they shall raise."""

    output: AnyPath | None = option(
        None,
        "with --references: tune the rates, weights and --at-least on them, and write them to this file",
        reads=Path,
        flag="tune",
        needs="references",
    )
    _: KW_ONLY
    maximise: Aim = option(
        "f0.5",
        "with --tune: F0.5 of the changes, or accuracy: the share of word errors that are gone",
        needs="output",
    )


@dataclass(frozen=True, kw_only=True)
class TuneOptions(TuneTarget, CorrectorOptions):
    """Where the search for settings begins, and what it is for."""


@dataclass(frozen=True)
class TrainChannelOptions(Options):
    """The examples of a channel of misspellings. pairs: (wrong, right), or a file of them."""

    pairs: Iterable[tuple[str, str]] | AnyPath
    output: AnyPath | None = option(None, "the JSON file to write", flag=None)
    _: KW_ONLY
    rounds: int = option(8, "rounds of EM, without --grammar; by default 8", shown=False)
    prior: ReadyChannel | Channel | PathLike[str] | None = option(
        None,
        "what to expect where the pairs say little: english, keyboard, ocr, or a file of an earlier channel",
        flag="channel",
        reads=str,
    )
    progress: ProgressOption = changed(RunOptions, "progress")


@dataclass(frozen=True)
class TrainGrammarOptions(Options):
    """The examples of a channel of grammatical errors. pairs: (wrong, right) texts, or a file of them."""

    pairs: Iterable[tuple[str, str]] | AnyPath
    output: AnyPath | None = changed(TrainChannelOptions, "output")
    _: KW_ONLY
    inflections: AnyPath | None = option(
        None,
        "with --grammar: the forms of a word in each line, or AGID; by default from rules of English",
        reads=Path,
        needs="grammar",
    )
