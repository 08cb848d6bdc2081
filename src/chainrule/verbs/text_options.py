"""The options of verbs on texts: keywords in Python, flags on the command line, fields of requests.

Imports nothing heavy, so that help is shown at once.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.base.options import Options, changed, option
from chainrule.decoding.options import EmbeddingConfig, Pooling, TextFormat
from chainrule.errors import SettingError
from chainrule.features.correct.corrector.config import CorrectionConfig, CorrectionSettings, read_settings
from chainrule.features.prompt.config import PromptSettings
from chainrule.features.rescore.config import ListFormat, Objective, TuningConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    from chainrule.decoding.options import ReadyChannel
    from chainrule.errors import ChainruleError
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.word_channel import WordChannel
    from chainrule.features.correct.corrector.word_index import WordIndex
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.language_models import MaskedModel
    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption
    from chainrule.text.corpus.corpus import Paths, Source

    AnyPath = str | PathLike[str]
    Records = AnyPath | Iterable[Mapping[str, Any]]

Aim = Literal["f0.5", "accuracy"]


def name_or_path(*names: str) -> Callable[[str], str | Path]:
    """What a flag that takes one of these names, or a file, stands for."""
    return lambda value: value if value in names else Path(value)


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
        "a model that train seq2seq learned from wrong and right texts: it proposes and weighs",
        reads=Path,
        flag="corrector",
    )
    rescore_by: Model | AnyPath | None = option(
        None,
        "a second model, with any tokens, perhaps a masked one: it weighs the beam's best hypotheses",
        reads=Path,
    )
    config: CorrectionConfig | None = option(None, "settings, of which the named ones take the place", flag=None)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)

    def correction(self) -> CorrectionConfig:
        """`config`, with the settings that were named."""
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
        None, "a file that --tune wrote; options that are given count more", reads=Path
    )

    def resolved(self) -> CorrectOptions:
        """The same, with the tuned settings in their places. Raises ModelFormatError, SettingError."""
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
class DetectOptions(Options):
    """How texts are examined. masked: a network that fills gaps, to measure the curvature, too."""

    masked: MaskedModel | None = option(
        None, "a model that fills gaps: also measure the curvature (DetectGPT), by its fillings", reads=Path
    )
    perturbations: int = option(20, "with --masked, how often each text is changed", least=2)
    seed: int = option(0, "the seed of the perturbations and of the quiz")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True)
class NearestOptions(Options):
    """Where the nearest words are looked for, and by which vectors. source: the text; without it, the vocabulary.

    layer, pooling: as in `EmbeddingConfig`. restrict: of word vectors, search only this many of the most frequent.
    """

    source: Source | Paths | None = option(None, "the text whose words are compared", flag=None)
    _: KW_ONLY
    top: int = option(10, "how many words to show, nearest first", least=1)
    layer: int | None = changed(EmbeddingConfig, "layer")
    pooling: Pooling | None = changed(EmbeddingConfig, "pooling")
    restrict: int | None = option(None, "compare only this many of the most frequent words; by default all", least=1)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


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
    best: int = option(50, "with --model: how many corrections a list has", least=1, most=1 << 14, needs="model")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True)
class TuneTarget(Options):
    """What a search for settings is for. output: a JSON file for them. maximise: what they shall raise."""

    output: AnyPath | None = option(
        None,
        "with --references: choose rates, weights and --at-least by them, and write them to this file",
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
class PromptOptions(PromptSettings):
    """What a model is asked.

    template: a prompt with fields in braces. choices: texts and the labels that they stand for, or texts that are their
    own labels; without choices, the model writes its answer. examples: solved examples for few-shot prompts: a file of
    JSON lines, CSV or TSV, or dictionaries.
    """

    template: str
    choices: Mapping[str, str] | Iterable[str] = ()
    _: KW_ONLY
    examples: Records | None = option(None, "where the solved examples are drawn from", reads="file")
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True, kw_only=True)
class SurprisalOptions(Options):
    """What a table of surprisals has.

    by: a row for each word, token, character, byte or text. nats: in nats rather than bits. ends: also a row for the
    end of each text, </s>. word_ends: a word's own end is a part of it, in place of that of the word before it, see
    `evaluation.surprisal`; where tokens are pieces of words, this needs the whole distribution at each token.
    entropy: for words and tokens; of words, that before their first token, and this token's rank. frequencies: a file
    of counts, a dictionary of these, or a unigram model or its folder. previous: how many words before each have
    columns in its row, too; words before the first are empty. word_entropy: the number of words drawn before each to
    estimate the entropy of the next word, see `evaluation.surprisal.word_entropies`. convention: which tokens say that
    the word before them has ended, see `evaluation.surprisal.word_borders`.
    """

    by: Literal["words", "tokens", "characters", "bytes", "texts"] = option("words", "what has a row", flag=None)
    nats: bool = option(False, "surprisal in nats; by default in bits", is_switch=True)
    ends: bool = option(False, "also a row for the end of each text, </s>", is_switch=True)
    word_ends: bool = option(
        True, "count a word's end as its own, not as the next word's, where tokens are pieces of words"
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
        "also the entropy of the next word: from so many drawn words, at most 4,096, where tokens are pieces, with its "
        "standard error",
        least=0,
        most=1 << 12,
    )
    convention: Literal["chainrule", "minicons"] = option(
        "chainrule",
        "which tokens end a word: those with white space first and </s>, or as minicons' bow_correction has it",
        served=True,
    )
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.convention != "chainrule" and not self.word_ends:
            raise SettingError(f"the convention {self.convention} says how words end; leave it, or no-word-ends, out")


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(TuningConfig):
    """How n-best lists and lattices are rescored.

    weights: by name; by default 1, and 0 for words and for priors that a model replaces. tune: lists with references,
    or a file of references for these, on which the weights are tuned for the objective. references: a file with a line
    for each list, perhaps after the list's id. sources: a file of the same form, for seq2seq models, which score a
    hypothesis given its source. scores, costs: the files beside a text of Kaldi's, by name. nbest: how many texts of a
    lattice become its list. symbols: a file of the words of Kaldi's lattices, if these have numbers. on_error: a
    callback that gets what is wrong with a lattice, which is then left out; without it, the error is raised. spelling:
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
        None, "tune the weights: on LISTS with this file of references, or on other JSON lists with their own"
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
        None, "for a Kaldi text: files of scores, acoustic=FILE; higher is better", reads=tuple[str, ...]
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
