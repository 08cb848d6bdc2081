"""Corrects texts, by a language model and an error channel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.api.models.model import check_model
from chainrule.api.progress_line import ProgressOption, showing
from chainrule.api.texts.rescore import scorer_of
from chainrule.applications.correction.candidates import Grammar
from chainrule.applications.correction.config import CorrectionSettings, read_settings
from chainrule.applications.correction.corrector import CorrectionConfig, Corrector
from chainrule.applications.correction.error_models import RateOfCharacters, RateOfWords
from chainrule.applications.correction.word_index import WordIndex
from chainrule.applications.noisy_channel.character_channel import CONFUSIONS, channel_named
from chainrule.applications.noisy_channel.files import channel_of, read_grammar
from chainrule.applications.noisy_channel.inflections import english_inflections, read_inflections
from chainrule.applications.noisy_channel.lexicon import prior_of
from chainrule.applications.noisy_channel.word_channel import GrammarChannel, english_grammar
from chainrule.base.progress import BlockProgress
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.pseudo_likelihood import pseudo_log_likelihoods
from chainrule.evaluation.texts.corrections import judge_changes
from chainrule.text.corpus.corpus import Corpus, source_of
from chainrule.text.corpus.plain_text import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.api.conditional.pair_model import TextPairModel
    from chainrule.api.models.model import Model
    from chainrule.applications.correction.corrector import LearnedCorrector
    from chainrule.applications.correction.error_models import ErrorModel
    from chainrule.applications.correction.spans import Corrected
    from chainrule.applications.noisy_channel.character_channel import Channel, Confusions
    from chainrule.applications.rescoring.features import TextScorer
    from chainrule.evaluation.texts.corrections import CorrectionMeasures
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.tokenizer import Tokenizer

_OF_WORDS = ("word", "whitespace")
_AT_ONCE = 256  # texts
_PIECE_BYTES = 1 << 14
RATE_OF_CHARACTERS, RATE_OF_WORDS, RATE_OF_GRAMMAR = 0.02, 0.05, 0.03


def correct(
    source: Source | Paths,
    model: Model,
    *,
    channel: Confusions | Channel | PathLike[str] = "keyboard",
    rate: float | None = None,
    lexicon: Mapping[str, float] | WordIndex | str | PathLike[str] | None = None,
    grammar: Literal["english"] | GrammarChannel | PathLike[str] | None = None,
    grammar_rate: float | None = None,
    inflections: str | PathLike[str] | None = None,
    learned: TextPairModel | str | PathLike[str] | None = None,
    rescore_by: Model | str | PathLike[str] | None = None,
    settings: CorrectionSettings | str | PathLike[str] | None = None,
    config: CorrectionConfig | None = None,
    progress: ProgressOption = None,
) -> Iterator[Corrected]:
    """Corrects each document of a text, a line by default, lazily. One of several lines keeps them.

    channel: keyboard or ocr, or one trained by `train_channel`, or its file. rate: for keyboard and ocr the
    probability of an error at a character (0.02); for a trained one the share of words that are wrong (0.05). lexicon:
    the right words with their counts, or a file of them, one a line; by default the words of the model's vocabulary.
    grammar: english, what learners of English confuse, or what `train_grammar` learned, or its file; none by default.
    grammar_rate: for english, the probability of an error at a word that can go wrong (0.03). inflections: a file with
    the forms of words, see `read_inflections`; by default from rules of English and the words that are known. learned:
    a model of pairs of wrong and right texts, or its folder: it proposes, and its log P joins that of the others.
    rescore_by: a second language model, or its folder, perhaps one that sees both sides: its log P of the beam's best
    ways through a text joins that of the others. It may have any tokens. settings: what `tune_correction` chose, or its
    file: rates, where none are given, and what it tuned of `config`.
    Raises SettingError, TextError, ModelFormatError.

    good:  [one] = chainrule.correct(chainrule.Lines(["teh dog"]), lm); one.corrected, one.changes[0].prob
    """
    ready = corrector(
        model,
        channel,
        rate=rate,
        lexicon=lexicon,
        grammar=grammar,
        grammar_rate=grammar_rate,
        inflections=inflections,
        learned=learned,
        rescore_by=rescore_by,
        settings=settings,
        config=config,
    )
    return _corrected(source_of(source), ready, progress)


def corrector(
    model: Model,
    channel: Confusions | Channel | PathLike[str] = "keyboard",
    *,
    rate: float | None = None,
    lexicon: Mapping[str, float] | WordIndex | str | PathLike[str] | None = None,
    grammar: Literal["english"] | GrammarChannel | PathLike[str] | None = None,
    grammar_rate: float | None = None,
    inflections: str | PathLike[str] | None = None,
    learned: TextPairModel | str | PathLike[str] | None = None,
    rescore_by: Model | str | PathLike[str] | None = None,
    settings: CorrectionSettings | str | PathLike[str] | None = None,
    config: CorrectionConfig | None = None,
) -> Corrector:
    """As `correct`, for strings: `corrector(lm).correct(["teh dog"])`."""
    check_model(model)
    if model.sees_both_sides:
        raise SettingError(
            f"a model of family {model.family!r} sees both sides, so it cannot follow a text from left to right; "
            "take one that continues texts, such as an n-gram model, and this one as rescore_by"
        )
    if settings is not None:
        tuned = settings if isinstance(settings, CorrectionSettings) else read_settings(Path(settings))
        rate = tuned.rate if rate is None else rate
        grammar_rate = tuned.grammar_rate if grammar_rate is None and grammar == "english" else grammar_rate
        config = tuned.applied_to(config or CorrectionConfig())
    errors, words = _error_model(channel, rate), word_index(model, lexicon)
    proposer = None
    if grammar is not None:
        given = english_inflections(words.lowered()) if inflections is None else read_inflections(inflections)
        proposer = Grammar(_grammar_channel(grammar, grammar_rate), given.among(words.lowered()), words)
    elif grammar_rate is not None or inflections is not None:
        raise SettingError("a rate of grammar and inflections are for grammar='english' or a learned one; name it, too")
    return Corrector(
        model.language_model,
        model.tokenizer,
        model.speller,
        words,
        errors,
        config,
        grammar=proposer,
        learned=None if learned is None else _learned(learned),
        rescorer=None if rescore_by is None else _rescorer(rescore_by),
    )


def _grammar_channel(grammar: str | GrammarChannel | PathLike[str], rate: float | None) -> GrammarChannel:
    if grammar == "english":
        return english_grammar(RATE_OF_GRAMMAR if rate is None else rate)
    if rate is not None:
        raise SettingError("a learned channel of grammar has rates of its own; leave the rate out")
    if isinstance(grammar, GrammarChannel):
        return grammar
    if isinstance(grammar, str) and not Path(grammar).exists():
        raise SettingError(f"there is no grammar called {grammar!r}, nor a file; expected english or a file")
    return read_grammar(Path(grammar))


def _learned(learned: TextPairModel | str | PathLike[str]) -> LearnedCorrector:
    from chainrule.api.conditional.pair_corrector import PairCorrector
    from chainrule.api.conditional.pair_model import load_pairs

    return PairCorrector(load_pairs(learned) if isinstance(learned, (str, PathLike)) else learned)


def _rescorer(model: Model | str | PathLike[str]) -> TextScorer:
    from chainrule.api.models.load_model import load

    if isinstance(model, (str, PathLike)):
        model = load(model)
    check_model(model)
    tokenizer = model.tokenizer.with_markers("keep")  # as the corrector's own
    return _PseudoScorer(model, tokenizer) if model.sees_both_sides else replace(scorer_of(model), tokenizer=tokenizer)


@dataclass(frozen=True)
class _PseudoScorer:
    """Scores texts by pseudo-log-likelihoods, in nats."""

    model: Model
    tokenizer: Tokenizer

    def log_probs(self, texts: Sequence[str]) -> Float64[ndarray, " texts"]:
        model = self.model
        return pseudo_log_likelihoods(model.engine_that("fill"), model.speller, self.tokenizer, texts)[0]


def has_words(model: Model) -> bool:
    """Whether the model's tokens are words, so that `corrector` needs no lexicon."""
    return model.tokenizer.name in _OF_WORDS and not model.sees_both_sides


def measure_correction(
    corrector: Corrector,
    texts: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    errant: bool = False,
) -> CorrectionMeasures:
    """Corrects texts and measures them against what they should be: a text for each, or several lists of such.

    Error rates before and after, the shares fixed and broken, and GLEU, with 95 % intervals; errant: and F0.5 of edits,
    by the package errant. Raises SettingError.

    good:  measure_correction(corrector(lm), ["teh dog"], ["the dog"]).fixed.value
    """
    from chainrule.evaluation.texts.corrections import errant_edits, measure_corrections

    edits = errant_edits() if errant else None
    pieces = [texts[i : i + _AT_ONCE] for i in range(0, len(texts), _AT_ONCE)]
    results = [one for piece in pieces for one in corrector.correct(piece)]
    measures = measure_corrections(texts, [one.corrected for one in results], references, edits=edits)
    several: Any = references if references and not isinstance(references[0], str) else [references]
    return measures._replace(changes=judge_changes(results, several))


def read_lexicon(path: str | PathLike[str]) -> dict[str, float]:
    """Words and their counts from a file: `word`, or `word<white space>count`, one a line. Raises TextError."""
    counts: dict[str, float] = {}
    for number, line in enumerate(lines_of(path), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) > 2:
            raise TextError(f"{path}, line {number}: {len(fields)} fields; expected a word, and maybe its count")
        try:
            count = float(fields[1]) if len(fields) == 2 else 1.0
        except ValueError:
            raise TextError(f"{path}, line {number}: {fields[1]!r} is not a count; expected a number") from None
        counts[fields[0]] = counts.get(fields[0], 0.0) + count
    if not counts:
        raise TextError(f"{path}: there are no words in it; expected one word a line, perhaps with its count")
    return counts


def _error_model(channel: Confusions | Channel | PathLike[str], rate: float | None) -> ErrorModel:
    if isinstance(channel, str) and channel in CONFUSIONS:
        return RateOfCharacters(channel_named(channel, RATE_OF_CHARACTERS if rate is None else rate))
    learned = channel_of(channel, RATE_OF_CHARACTERS)
    return RateOfWords(learned, RATE_OF_WORDS if rate is None else rate)


def word_index(model: Model, lexicon: Mapping[str, float] | WordIndex | str | PathLike[str] | None = None) -> WordIndex:
    """The correct words: of a lexicon or, without one, of the model's vocabulary. As a lexicon, it is used as it is.

    Raises SettingError, TextError.
    """
    return lexicon if isinstance(lexicon, WordIndex) else WordIndex(_log_priors(model, lexicon))


def _log_priors(model: Model, lexicon: Mapping[str, float] | str | PathLike[str] | None) -> dict[str, float]:
    if lexicon is None:
        if model.tokenizer.name not in _OF_WORDS:
            raise SettingError(
                f"the model has the {model.tokenizer.name} tokenizer, whose tokens are not words; "
                "name a lexicon: a file of words, one a line, perhaps with counts"
            )
        words = [token.decode("utf-8", "replace") for token in model.tokenizer.vocabulary.tokens()[3:]]
        priors = prior_of(model.language_model, model.tokenizer, model.speller)(words)
        return dict(zip(words, priors.tolist(), strict=True))
    counts = read_lexicon(lexicon) if isinstance(lexicon, (str, PathLike)) else lexicon
    total = sum(counts.values())
    return {word: float(np.log(count / total)) for word, count in counts.items() if count > 0}


def _corrected(source: Source, corrector: Corrector, progress: ProgressOption) -> Iterator[Corrected]:
    with showing(progress) as shown:
        texts = _texts(source, BlockProgress(shown, "correcting"))
        while some := list(islice(texts, _AT_ONCE)):
            yield from corrector.correct(some)


def _texts(source: Source, inside: BlockProgress) -> Iterator[str]:
    blocks = source.blocks_as_they_come if isinstance(source, Corpus) else source.blocks
    for block in blocks(inside, "correcting"):
        done = 0
        for piece in block.pieces(_PIECE_BYTES):
            yield from piece.documents()
            done += piece.text.size
            inside.report(done)
