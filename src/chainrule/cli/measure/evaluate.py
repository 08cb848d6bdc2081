"""The verb evaluate: perplexity, accuracy, test suites; also of seq2seq models, captioners and word vectors."""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import table
from chainrule.cli.shared.measures import Given, ShellMeasure
from chainrule.cli.shared.models import limited, open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    ModelMarkerRule,
    ModelPath,
    ModelTokenizerName,
    Needs,
    TextFiles,
    flag,
    given_flags,
    refuse,
)
from chainrule.cli.shared.parts import with_flags
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, Strict, TextOptions, bad_records, note_repairs, text_for
from chainrule.errors import TextError
from chainrule.kinds import kinds, rows
from chainrule.models.config import ContextOptions, EvaluateOptions
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.evaluation.pseudo_likelihood import Pseudo
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.text.tokenization.vocabulary import Markers


MinimalPairs = Annotated[
    tuple[str, ...] | None,
    Parameter(
        help="JSON lines in BLiMP's format, files or folders of them: sentence_good, sentence_bad, and optionally UID "
        "and field.",
        consume_multiple=True,
        negative=(),
    ),
]
Suites = Annotated[
    tuple[str, ...] | None,
    Parameter(
        name="--suite", help="SyntaxGym's test suites, JSON files as they are.", consume_multiple=True, negative=()
    ),
]
_PSEUDO = {
    "original": "each token given all others",
    "word-l2r": "each token without the rest of its word",
    None: "each token without the rest of its word, where the network is masked",
}


_KINDS: dict[str, ShellMeasure] = {family: lazy.get() for family, lazy in rows("evaluate").items()}


@with_flags({family: (kind.flags, kind.none) for family, kind in _KINDS.items()})
def evaluate(
    model: ModelPath,
    /,
    *texts: Annotated[TextFiles, Parameter(required=False)],
    minimal_pairs: MinimalPairs = None,
    pseudo: Annotated[
        Literal["original", "word-l2r"] | None,
        Parameter(
            help="How a masked network scores a sentence: each token given all others (original), or without the rest "
            "of its word (word-l2r, the default)."
        ),
        Needs("minimal_pairs"),
    ] = None,
    suites: Suites = None,
    word_ends: Annotated[bool, flag(SurprisalOptions, "word_ends"), Needs("suites")] = True,
    strict: Strict = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    ends: Annotated[bool, flag(EvaluateOptions, "ends")] = True,
    context: Flags[ContextOptions] = NO_FLAGS,
    reading: TextOptions = DEFAULT_READING,
    show: ResultOptions = TO_SCREEN,
    flags: dict[str, Any],
) -> None:
    """Measure perplexity, accuracy on labels or minimal pairs, or word vectors.

        $ chainrule evaluate lm/ heldout.txt

    Perplexity per token is given with and without unknown tokens. Bits per
    byte, and perplexity per word and per character, include the spelling of
    unknown tokens, so they can be compared across tokenizers and vocabularies.

    With --minimal-pairs, a pair is won where the good sentence has the higher
    log-probability, in all, or per token, character or byte; a tie is half a
    win. Pairs of equal sentences are ties, and pairs that cannot be read are
    left out; both are reported.

    With --suite, the surprisal of each region is in bits, and a prediction is
    a formula of these. Accuracy is the share of items in which all predictions
    hold; a tie is wrong, and ties are reported.

    For a classifier, TEXTS are labelled inputs: accuracy with its 95 %
    interval, precision, recall, F1 and calibration.

    Word vectors are measured by --similarity, the correlation of cosines with
    human ratings of word pairs, and by --analogies, the share answered right.

    A seq2seq model is measured on --source and --target, or on --pairs: the
    perplexity of the targets, and BLEU, chrF, length ratio and ROUGE of the
    texts that it writes.
    A captioner is measured on --pictures: the same for their captions, and
    BLEU-1 to 4, METEOR, ROUGE-L and CIDEr-D of the captions that it writes.
    For a speech model, TEXTS are sounds with transcripts: word and character
    error rates, with --lm also those with a language model.
    """
    from chainrule.models.files.recognition import kind_at
    from chainrule.models.language_models import CausalModel

    if minimal_pairs is not None or suites is not None:
        name = "--suite" if minimal_pairs is None else "--minimal-pairs"
        if minimal_pairs is not None and suites is not None:
            raise CycloptsError(msg="--suite and --minimal-pairs are both given; choose one.")
        if not (minimal_pairs or suites):
            raise CycloptsError(msg=f"{name} takes files; for standard input, name /dev/stdin.")
        if texts:
            raise CycloptsError(msg=f"TEXTS and {name} are both given; choose one.")
        if reading != DEFAULT_READING or any(flags[family] != kind.none for family, kind in _KINDS.items()):
            raise CycloptsError(msg=f"The options that say how to read texts are for TEXTS, not for {name}.")
    values = [value for own in flags.values() for value in getattr(own, "__dict__", {}).values()]
    named = [value for value in values if isinstance(value, str | PathLike)]
    show.check(*texts, *(minimal_pairs or ()), *(suites or ()), *named)
    if suites is not None:
        if not ends:
            raise CycloptsError(msg="The end of a sentence is in no region; leave out --no-ends.")
        _judge_suites(model, suites, tokenizer, markers, context, word_ends=word_ends, strict=strict, show=show)
        return
    if minimal_pairs is not None:
        _judge_pairs(model, minimal_pairs, pseudo, tokenizer, markers, context, ends=ends, strict=strict, show=show)
        return
    kind = kind_at(model)
    family = None if kind is None else kind.family
    for other, value in flags.items():
        also = _KINDS[family].also if family in _KINDS else ()
        if value != _KINDS[other].none and other not in (family, *also):
            names = [f"--{name.replace('_', '-')}" for name in _given(value)]
            does = "a language model" if kind is None else kind.title
            given = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
            raise CycloptsError(msg=f"{given} for {kinds()[other].title}, and {model} is {does}.")
    if kind is not None and family in _KINDS:
        refuse(given_flags(context), f"is for a language model, and {model} is {kind.title}")
        shared = Given(texts, reading, tokenizer, markers, ends, strict, show, flags)
        _KINDS[family].measure(model, flags[family], shared)
        return
    if not texts:
        raise CycloptsError(msg="TEXTS is missing.")
    if strict:
        raise CycloptsError(msg="--strict is for --minimal-pairs, --suite and classifiers.")
    source = text_for([model], reading, *texts)
    with progress_bar() as progress:
        measured = limited({str(model): open_model(model, tokenizer, markers, progress, kind=CausalModel)}, context)
        measurements = [own.evaluate(source, progress, ends=ends) for own in measured.values()]
    note_repairs(source)
    show.show(*measurements)


def _given(flags: Any) -> list[str]:
    """Return the names of the flags of a kind that were given."""
    return [own.name for own in fields(flags) if getattr(flags, own.name) not in (None, (), own.default)]


def _one_size(path: Path, model: ScoringModel, context: Flags[ContextOptions]) -> Any:
    """Return the model with the limit of context that was given, if any. Raises SettingError, CycloptsError."""
    judge, *more = limited({str(path): model}, context).values()
    if more:
        raise CycloptsError(msg="Several sizes of context are for TEXTS; give one with --minimal-pairs or --suite.")
    return judge


def _judge_pairs(
    model: Path,
    files: tuple[str, ...],
    pseudo: Pseudo | None,
    tokenizer: str | None,
    markers: Markers | None,
    context: Flags[ContextOptions],
    *,
    ends: bool,
    strict: bool,
    show: ResultOptions,
) -> None:
    """Shows the accuracy on the pairs."""
    from chainrule.evaluation.minimal_pairs import pairs_table
    from chainrule.models.scoring_model import ScoringModel

    with progress_bar() as progress:
        judge = _one_size(model, open_model(model, tokenizer, markers, progress, kind=ScoringModel), context)
        with bad_records(strict=strict) as on_bad:
            rows = judge.judge_pairs(
                files,
                progress,
                ends=ends,
                pseudo=pseudo,
                strict=strict,
                warn=lambda message: on_bad(TextError(message)),
            )
    if judge.is_bidirectional:
        note(f"by pseudo-log-likelihoods, {_PSEUDO[pseudo]}")
    show.show(table(pairs_table(rows), [row.as_json() for row in rows]))


def _judge_suites(
    model: Path,
    files: tuple[str, ...],
    tokenizer: str | None,
    markers: Markers | None,
    context: Flags[ContextOptions],
    *,
    word_ends: bool,
    strict: bool,
    show: ResultOptions,
) -> None:
    """Shows the accuracy on suites."""
    from chainrule.evaluation.suites import suites_table
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        judge = _one_size(model, open_model(model, tokenizer, markers, progress, kind=CausalModel), context)
        with bad_records(strict=strict) as on_bad:
            rows = judge.judge_suites(
                files, progress, word_ends=word_ends, strict=strict, warn=lambda message: on_bad(TextError(message))
            )
    show.show(table(suites_table(rows), [row.as_json() for row in rows]))
