"""Corrects texts by a language model and an error channel, measures corrections, and tunes the settings of a corrector.

`tune_correction` chooses the settings on texts whose corrections are known; `PairCorrector` corrects by a seq2seq model
that was trained on wrong and right texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, repeat
from math import inf, nan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.options import takes
from chainrule.base.progress import BlockProgress
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.pseudo_likelihood import pseudo_log_likelihoods
from chainrule.features.correct.channel.character_channel import CONFUSIONS, channel_named
from chainrule.features.correct.channel.english import EVERYDAY_WORDS
from chainrule.features.correct.channel.files import channel_of, read_grammar
from chainrule.features.correct.channel.inflections import english_inflections, read_inflections
from chainrule.features.correct.channel.lexicon import prior_of
from chainrule.features.correct.channel.ready import CHANNELS, ENGLISH
from chainrule.features.correct.channel.word_channel import WordChannel, english_grammar
from chainrule.features.correct.corrector.candidates import Grammar
from chainrule.features.correct.corrector.config import CorrectionSettings, write_settings
from chainrule.features.correct.corrector.corrector import Corrector
from chainrule.features.correct.corrector.error_models import CharacterErrorModel, WordErrorModel
from chainrule.features.correct.corrector.error_rate import RATE_OF_WORDS, are_lowered, estimate_rate
from chainrule.features.correct.corrector.formats import format_of, read_as
from chainrule.features.correct.corrector.word_index import WordIndex
from chainrule.features.correct.measures import UNCHANGED, TunedCorrection, calibrate, judge_changes
from chainrule.features.correct.options import ChannelFirst, CorrectOptions, CorrectorOptions, TuneOptions
from chainrule.features.rescore.rescore import scorer_of
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.seq2seq.options import TargetBeam
from chainrule.models.any_model import check_model
from chainrule.models.model import Model
from chainrule.models.progress_line import showing
from chainrule.text.corpus.corpus import Corpus, Lines, source_of
from chainrule.text.corpus.corpus import read_as as whole_files
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.lookup import looked_up
from chainrule.text.numbers import number_of
from chainrule.text.parallel import Pairs
from chainrule.text.tokenization.config import OF_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.ready import ReadyChannel
    from chainrule.features.correct.corrector.corrector import LearnedCorrector
    from chainrule.features.correct.corrector.error_models import ErrorModel
    from chainrule.features.correct.corrector.spans import Corrected
    from chainrule.features.correct.measures import CorrectionMeasures, JudgedChanges
    from chainrule.features.correct.options import TextFormat
    from chainrule.features.rescore.features import TextScorer
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.tokenizer import Tokenizer

_AT_ONCE = 256  # texts
_PIECE_BYTES = 1 << 14
RATE_OF_CHARACTERS, RATE_OF_GRAMMAR = 0.02, 0.015
_RATE_OF_LEARNERS = 0.03  # the least share of wrong words where grammar is corrected, too
_EXPECTED_RATE = 0.2  # of wrong words, while their share is estimated


@takes(CorrectOptions)
def correct(source: Source | Paths, model: Model, options: CorrectOptions) -> Iterator[Corrected]:
    """Correct each document of a text, a line by default, lazily. One of several lines keeps them.

    The options are those of `CorrectOptions`. Raises SettingError, TextError, ModelFormatError.

    good:  [one] = chainrule.correct(chainrule.Lines(["teh dog"]), lm); one.corrected, one.changes[0].prob
    """
    return _corrected(source_of(source), model, options)


@takes(ChannelFirst)
def corrector(model: Model, options: CorrectOptions) -> Corrector:
    """Return a corrector for strings, with the options of `correct`: `corrector(lm).correct(["teh dog"])`."""
    return build_corrector(model, options)


def build_corrector(model: Model, options: CorrectOptions, texts: Sequence[str] = ()) -> Corrector:
    """Return the corrector that the options describe.

    texts: of which the share of wrong words is estimated if no rate is named. Raises SettingError, TextError,
    ModelFormatError.
    """
    check_model(model)
    if model.is_bidirectional:
        raise SettingError(
            f"a model of family {model.family!r} is bidirectional, so it cannot follow a text from left to right; "
            "take one that continues texts, such as an n-gram model, and this one as rescore_by"
        )
    options = options.resolved()
    words = _known_words(model, options)
    estimated = _estimated_rate(model, words, options, texts)
    errors = _error_model(options.channel, options.rate if estimated is None else estimated)
    proposer = None
    if options.grammar is not None:
        known = words.lowered()
        forms = english_inflections(known) if options.inflections is None else read_inflections(options.inflections)
        proposer = Grammar(_grammar_channel(options.grammar, options.grammar_rate), forms.among(known), words)
    elif options.grammar_rate is not None or options.inflections is not None:
        raise SettingError("a rate of grammar and inflections are for grammar='english' or a learned one; name it, too")
    return Corrector(
        model.language_model,
        model.tokenizer,
        model.speller,
        words,
        errors,
        options.config,
        grammar=proposer,
        learned=None if options.learned is None else _learned(options.learned),
        rescorer=None if options.rescore_by is None else _rescorer(options.rescore_by),
        estimated_rate=estimated,
        text_format=options.format,
        supplies_capitals=not are_lowered(texts),
    )


def _known_words(model: Model, options: CorrectorOptions) -> WordIndex:
    """Return the correct words; with the channel of English, everyday words join those of a model."""
    words = word_index(model, options.lexicon, options.correction().keep)
    return words.extended(EVERYDAY_WORDS) if words.of_a_model and options.channel == ENGLISH else words


def _estimated_rate(model: Model, words: WordIndex, options: CorrectorOptions, texts: Sequence[str]) -> float | None:
    """Return the share of wrong words in texts; None where one was named, and of channels whose rate is of
    characters.
    """
    is_of_characters = isinstance(options.channel, str) and options.channel in CONFUSIONS
    if options.rate is not None or is_of_characters or not any(texts):
        return None
    keep = frozenset(looked_up(word).lower() for word in options.correction().keep)
    prior = prior_of(model.language_model, model.tokenizer, model.speller)
    rate = estimate_rate(texts, words, _error_model(options.channel, _EXPECTED_RATE), prior, keep)
    return rate if options.grammar is None else max(rate, _RATE_OF_LEARNERS)


def _grammar_channel(grammar: str | WordChannel | PathLike[str], rate: float | None) -> WordChannel:
    if grammar == "english":
        return english_grammar(RATE_OF_GRAMMAR if rate is None else rate)
    if rate is not None:
        raise SettingError("a learned channel of grammar has rates of its own; leave the rate out")
    if isinstance(grammar, WordChannel):
        return grammar
    if isinstance(grammar, str) and not Path(grammar).exists():
        raise SettingError(f"there is no grammar called {grammar!r}, nor a file; expected english or a file")
    return read_grammar(Path(grammar))


def _learned(learned: Seq2SeqModel | str | PathLike[str]) -> LearnedCorrector:
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.files.opening import load

    return PairCorrector(load(learned, Seq2SeqModel) if isinstance(learned, (str, PathLike)) else learned)


def _rescorer(model: Model | str | PathLike[str]) -> TextScorer:
    from chainrule.models.files.opening import load

    if isinstance(model, (str, PathLike)):
        model = load(model, Model)
    check_model(model)
    tokenizer = model.tokenizer.with_markers("keep")  # as the corrector's own
    return _PseudoScorer(model, tokenizer) if model.is_bidirectional else replace(scorer_of(model), tokenizer=tokenizer)


@dataclass(frozen=True)
class _PseudoScorer:
    """Scores texts by pseudo-log-likelihoods, in nats."""

    model: Model
    tokenizer: Tokenizer

    def log_probs(self, texts: Sequence[str]) -> Float64[ndarray, " texts"]:
        model = self.model
        return pseudo_log_likelihoods(model.require_engine("fill"), model.speller, self.tokenizer, texts)[0]


def has_words(model: Model) -> bool:
    """Return whether the model's tokens are words, so that `corrector` needs no lexicon."""
    return model.tokenizer.name in OF_WORDS and not model.is_bidirectional


def measure_correction(
    corrector: Corrector,
    texts: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    errant: bool = False,
) -> CorrectionMeasures:
    """Correct texts and measure them against what they should be: a text for each, or several lists of such.

    Error rates before and after, the shares fixed and broken, and GLEU, with 95 % intervals; errant: and F0.5 of edits,
    by the package errant. Raises SettingError.

    good:  measure_correction(corrector(lm), ["teh dog"], ["the dog"]).fixed.value
    """
    from chainrule.features.correct.measures import errant_edits, measure_corrections

    edits = errant_edits() if errant else None
    pieces = [texts[i : i + _AT_ONCE] for i in range(0, len(texts), _AT_ONCE)]
    results = [one for piece in pieces for one in corrector.correct(piece)]
    measures = measure_corrections(texts, [one.corrected for one in results], references, edits=edits)
    several: Any = references if references and not isinstance(references[0], str) else [references]
    return measures._replace(changes=judge_changes(results, several))


def read_lexicon(path: str | PathLike[str]) -> dict[str, float]:
    """Return words and their counts from a file: `word`, or `word<white space>count`, one a line. Raises TextError."""
    counts: dict[str, float] = {}
    for number, line in enumerate(lines_of(path), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) > 2:
            raise TextError(f"{path}, line {number}: {len(fields)} fields; expected a word, and maybe its count")
        try:
            count = number_of(fields[1]) if len(fields) == 2 else 1.0
        except ValueError:
            count = nan
        if not 0 <= count < inf:
            raise TextError(f"{path}, line {number}: {fields[1]!r} is not a count; expected a number, 0 or more")
        counts[fields[0]] = counts.get(fields[0], 0.0) + count
    if not counts:
        raise TextError(f"{path}: there are no words in it; expected one word a line, perhaps with its count")
    return counts


def _error_model(channel: ReadyChannel | Channel | PathLike[str], rate: float | None) -> ErrorModel:
    if isinstance(channel, str) and channel in CONFUSIONS:
        return CharacterErrorModel(channel_named(channel, RATE_OF_CHARACTERS if rate is None else rate))
    learned = channel_of(channel, RATE_OF_CHARACTERS)
    return WordErrorModel(learned, RATE_OF_WORDS if rate is None else rate, by_length=channel == ENGLISH)


def word_index(
    model: Model, lexicon: Mapping[str, float] | WordIndex | str | PathLike[str] | None = None, keep: Sequence[str] = ()
) -> WordIndex:
    """Return the correct words: those of a lexicon or, without one, of the model's vocabulary; and some to keep.

    Raises SettingError, TextError.
    """
    if isinstance(lexicon, WordIndex):
        return lexicon.extended(keep)
    words = WordIndex(_log_priors(model, lexicon), of_a_model=lexicon is None)
    return words.extended(keep)


def _log_priors(model: Model, lexicon: Mapping[str, float] | str | PathLike[str] | None) -> dict[str, float]:
    if lexicon is None:
        if model.tokenizer.name not in OF_WORDS:
            raise SettingError(
                f"the model has the {model.tokenizer.name} tokenizer, whose tokens are not words; "
                "name a lexicon: a file of words, one a line, perhaps with counts"
            )
        words = [token.decode("utf-8", "replace") for token in model.tokenizer.vocabulary.tokens()[3:]]
        priors = prior_of(model.language_model, model.tokenizer, model.speller)(words)
        return dict(zip(words, priors.tolist(), strict=True))
    counts = read_lexicon(lexicon) if isinstance(lexicon, (str, PathLike)) else lexicon
    if not isinstance(counts, Mapping):
        raise TypeError(f"lexicon is {counts!r}; expected the path of a file, or words with their counts")
    wrong = next((word for word, count in counts.items() if not 0 <= count < inf), None)
    if wrong is not None:
        raise SettingError(f"lexicon: the count of {wrong!r} is {counts[wrong]}; expected a number, 0 or more")
    total = sum(counts.values())
    return {word: float(np.log(count / total)) for word, count in counts.items() if count > 0}


def _corrected(source: Source, model: Model, options: CorrectOptions) -> Iterator[Corrected]:
    with showing(options.progress) as shown:
        for line, _ in start_correction(source, model, options, shown)[1]:
            yield line


def start_correction(
    source: Source, model: Model, options: CorrectOptions, progress: Progress, *, fields: bool = False
) -> tuple[Corrector, Iterator[tuple[Corrected, Mapping[str, Any]]]]:
    """Read the first texts, estimate which share of their words is wrong, and correct all, lazily.

    fields: whether each comes with all the fields of its record; otherwise with none.
    """
    wanted = options.format
    source = in_format(source, wanted) if isinstance(source, Corpus) else source
    texts = _texts(source, BlockProgress(progress, "correcting"), fields=fields)
    first = list(islice(texts, _AT_ONCE))
    ready = build_corrector(model, options, [read_as(text, wanted, file).text for text, file, _ in first])

    def lines() -> Iterator[tuple[Corrected, Mapping[str, Any]]]:
        some = first
        while some:
            corrected = ready.correct([text for text, _, _ in some], [file for _, file, _ in some])
            yield from zip(corrected, [own for _, _, own in some], strict=True)
            some = list(islice(texts, _AT_ONCE))

    return ready, lines()


def in_format(source: Corpus, wanted: TextFormat) -> Corpus:
    """Return the source with whole files as texts, if their format is another than plain text, whose lines go
    together.
    """
    is_plain = all(format_of(file, wanted) == "text" for files in source.files for file in files)
    return source if is_plain else whole_files(source, "file")


def _texts(source: Source, inside: BlockProgress, *, fields: bool) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the texts, each with its file and with the fields of its record, if they are asked for."""
    if isinstance(source, Lines) and source.lines:
        yield from ((text, "", {}) for text in source.texts())
        return
    if isinstance(source, Corpus):
        blocks = (source.with_fields() if fields else source).blocks_as_they_come(inside, "correcting")
    else:
        blocks = source.blocks(inside, "correcting")
    for block in blocks:
        done = 0
        for piece in block.pieces(_PIECE_BYTES):
            documents = piece.documents()
            yield from zip(documents, repeat(block.source), piece.fields or repeat({}), strict=False)
            done += piece.text.size
            inside.report(done)


_WEIGHTS = (0.5, 0.7, 1.4, 2.0)  # of the language model, relative to the first
_SHARES = (0.1, 0.25, 1.0, 2.0)  # weights of a second model and of a learned corrector, beside the given one
_RATES = (0.25, 0.5, 2.0, 4.0)  # times the given one
_RATES_OF_WORDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.95)
_HIGHEST_RATE = 0.5


@takes(TuneOptions)
def tune_correction(
    texts: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    model: Model,
    options: TuneOptions,
) -> TunedCorrection:
    """Choose rates, weights, and the least probability of a change, and calibrate the probabilities.

    texts, references: as in `measure_correction`. The options are those of `TuneOptions`: the search begins where they
    say. One setting after the other is tried at a few values, each with its best threshold; then the probabilities of
    changes are fitted to the share that is right. Measure the settings on other texts.
    Raises SettingError, TextError, ModelFormatError, OutputError.
    """
    several: Any = references if references and not isinstance(references[0], str) else [references]
    if not texts or any(len(one) != len(texts) for one in several):
        raise SettingError(
            f"there are {len(texts):,} texts and {', '.join(f'{len(one):,}' for one in several)} references; "
            "expected some, and a reference for each"
        )
    with showing(options.progress) as progress:
        return _tuned(texts, several, model, options, progress)


def _tuned(
    texts: Sequence[str], several: Sequence[Sequence[str]], model: Model, options: TuneOptions, reported: Progress
) -> TunedCorrection:
    base, maximise, channel = options.correction(), options.maximise, options.channel
    is_ready_made = isinstance(channel, str) and channel in CHANNELS
    is_of_characters = isinstance(channel, str) and channel in CONFUSIONS
    words = _known_words(model, options)
    estimated = _estimated_rate(model, words, options, texts[:_AT_ONCE])  # as `correct` does
    first_rate = options.rate or estimated or (RATE_OF_CHARACTERS if is_of_characters else RATE_OF_WORDS)
    fixed: dict[str, Any] = {
        **_loaded(options.learned, options.rescore_by),
        "lexicon": words,
        "grammar": options.grammar,
        "inflections": options.inflections,
        "channel": channel if is_ready_made else channel_of(channel, RATE_OF_CHARACTERS),
    }
    chosen = CorrectionSettings(rate=first_rate, weight=base.weight)
    if options.grammar == "english":
        rate = options.grammar_rate
        chosen = replace(chosen, grammar_rate=RATE_OF_GRAMMAR if rate is None else rate)
    if options.learned is not None:
        chosen = replace(chosen, learned_weight=base.learned_weight)
    if options.rescore_by is not None:
        chosen = replace(chosen, rescore_weight=base.rescore_weight)

    def judged(settings: CorrectionSettings) -> JudgedChanges:
        everything = replace(settings, at_least=0.0)
        ready = corrector(model, settings=everything, config=replace(base, calibration=UNCHANGED), **fixed)
        pieces = [texts[i : i + _AT_ONCE] for i in range(0, len(texts), _AT_ONCE)]
        return judge_changes([one for piece in pieces for one in ready.correct(piece)], several)

    tries = list(_tries(chosen, None if is_of_characters else _RATES_OF_WORDS))
    reported("tuning the correction", 0, len(tries) + 1)
    changes = judged(chosen)
    if not changes.errors:
        raise SettingError(
            "the texts equal their references, so no settings are better than others; name texts with errors"
        )
    before = changes.figure_at(base.at_least, maximise)
    best = changes.best_threshold(maximise)[1]
    for done, (name, value) in enumerate(tries, 1):
        reported("tuning the correction", done, len(tries) + 1)
        other: CorrectionSettings = replace(chosen, **{name: value})  # type: ignore[arg-type]  # a number's name
        others = judged(other)
        if (figure := others.best_threshold(maximise)[1]) > best:
            chosen, changes, best = other, others, figure
    calibration = changes.calibration()
    changes = changes._replace(probs=calibrate(changes.probs, *calibration))
    threshold, after = changes.best_threshold(maximise)
    chosen = replace(chosen, at_least=threshold, calibration=calibration)
    if options.output is not None:
        record = {"texts": len(texts), "maximise": maximise, "before": before, "after": after}
        write_settings(chosen, Path(options.output), record)
    return TunedCorrection(chosen, (before, after), changes, _at_edges(chosen, tries), maximise)


def _at_edges(chosen: CorrectionSettings, tries: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Return the settings whose best value is the least or the largest that was tried."""
    tried: dict[str, list[float]] = {}
    for name, value in tries:
        tried.setdefault(name, []).append(value)
    return tuple(name for name, values in tried.items() if not min(values) < getattr(chosen, name) < max(values))


def _tries(first: CorrectionSettings, rates: Sequence[float] | None) -> Iterator[tuple[str, float]]:
    """Yield settings and values to try, one after the other. rates: those of errors; by default around the first."""
    for name in ("rate", "grammar_rate"):
        if name == "rate" and rates is not None:
            yield from ((name, rate) for rate in rates if rate != first.rate)
        elif (rate := getattr(first, name)) is not None:
            yield from ((name, rate * times) for times in _RATES if rate * times <= _HIGHEST_RATE)
    if first.weight is not None:
        yield from (("weight", first.weight * times) for times in _WEIGHTS)
    for name in ("learned_weight", "rescore_weight"):
        if (weight := getattr(first, name)) is not None:
            yield from ((name, value) for value in _SHARES if value != weight)


def _loaded(
    learned: Seq2SeqModel | str | PathLike[str] | None, rescore_by: Model | str | PathLike[str] | None
) -> dict[str, Any]:
    """Return both models, opened once for all tries."""
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.files.opening import load

    return {
        "learned": load(learned, Seq2SeqModel) if isinstance(learned, (str, PathLike)) else learned,
        "rescore_by": load(rescore_by) if isinstance(rescore_by, (str, PathLike)) else rescore_by,
    }


_BEAM = TargetBeam(size=4, best=4)


class PairCorrector:
    """P(right text | wrong text). It proposes nothing for texts that are longer than the model reads."""

    def __init__(self, model: Seq2SeqModel) -> None:
        # A literal </s> or <unk> is left alone.
        source, target = model.source.with_markers("keep"), model.target.with_markers("keep")
        self._model = Seq2SeqModel(model.model, source, target, model.record)
        self._longest = model.model.network.config.max_source

    def propose(self, texts: Sequence[str]) -> list[list[str]]:
        """Return, for each text, texts that may have been meant by it."""
        read = self._readable(texts)
        written = self._model.write([texts[i] for i in read], _BEAM)
        proposed: list[list[str]] = [[] for _ in texts]
        for i, hypotheses in zip(read, written, strict=True):
            proposed[i] = [one.text for one in hypotheses]
        return proposed

    def log_probs(self, texts: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " texts"]:
        """Return log P(meant | text) of each pair, in nats."""
        log_probs = np.zeros(len(texts))
        read = self._readable(texts)
        log_probs[read] = self._model.score(Pairs([texts[i] for i in read], [meant[i] for i in read]))
        return log_probs

    def _readable(self, texts: Sequence[str]) -> list[int]:
        return [i for i, ids in enumerate(self._model.sources(texts)) if 0 < ids.size < self._longest]
