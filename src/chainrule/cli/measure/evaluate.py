"""The verb evaluate: perplexity, accuracy, test suites; also of seq2seq models, captioners and word vectors."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.measures import Given, ShellMeasure
from chainrule.cli.shared.models import as_read, open_model
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
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    RECORD_FLAGS,
    TextOptions,
    note_repairs,
    text_for,
)
from chainrule.kinds import kinds, rows
from chainrule.models.config import EvaluateOptions, ReadingOptions
from chainrule.verbs.text_options import SurprisalOptions

MinimalPairs = Annotated[
    tuple[str, ...] | None,
    Parameter(
        help="Files or folders of pairs, good and bad: TSV or CSV of two columns, or with columns or fields "
        "sentence_good and sentence_bad, as BLiMP's JSON lines have, or as --field good,bad names them; optionally UID "
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
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    ends: Annotated[bool, flag(EvaluateOptions, "ends")] = True,
    context: Flags[ReadingOptions] = NO_FLAGS,
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
    skipped; both are reported. With -o, the table has a row for each pair, with
    both log-probabilities in nats; likewise for suites and classifiers.

    With --suite, the surprisal of each region is in bits, and a prediction is
    a formula of these. Accuracy is the share of items in which all predictions
    hold; a tie is wrong, and ties are reported.

    A classifier is given labelled inputs in place of texts: its accuracy with
    the 95 % interval, precision, recall, F1 and calibration.

    Word vectors are measured by --similarity, the correlation of cosines with
    human ratings of word pairs, and by --analogies, the share answered right.

    A seq2seq model is measured on --source and --target, or on --pairs: the
    perplexity of the targets, and BLEU, chrF, length ratio and ROUGE of the
    texts that it writes.
    A captioner is measured on --pictures: the same of their captions, and
    BLEU-1 to 4, METEOR, ROUGE-L and CIDEr-D of those that it writes.
    A speech model is given sounds with transcripts in place of texts: word and
    character error rates, and with --lm what a language model takes off them.
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
        also = RECORD_FLAGS if minimal_pairs is None else ("field", "encoding", *RECORD_FLAGS)
        if not reading.has_only(*also) or any(flags[family] != kind.none for family, kind in _KINDS.items()):
            raise CycloptsError(msg=f"The options that say how to read texts are for TEXTS, not for {name}.")
    values = [value for own in flags.values() for value in getattr(own, "__dict__", {}).values()]
    named = [value for value in values if isinstance(value, str | PathLike)]
    show.check(*texts, *(minimal_pairs or ()), *(suites or ()), *named)
    if suites is not None:
        if not ends:
            raise CycloptsError(msg="The end of a sentence is in no region; leave out --no-ends.")
        judge_suites = rows("judging shell")["suites"].get()
        judge_suites(model, suites, tokenizer, markers, reading, context, word_ends, show)
        return
    if minimal_pairs is not None:
        judge_pairs = rows("judging shell")["pairs"].get()
        judge_pairs(model, minimal_pairs, tokenizer, markers, reading, context, ends, pseudo, show)
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
        shared = Given(texts, reading, tokenizer, markers, ends, show, flags)
        _KINDS[family].measure(model, flags[family], shared)
        return
    if not texts:
        raise CycloptsError(msg="TEXTS is missing.")
    source = text_for([model], reading, *texts)
    with progress_bar() as progress:
        measured = as_read({str(model): open_model(model, tokenizer, markers, progress, kind=CausalModel)}, context)
        measurements = [own.evaluate(source, progress, ends=ends) for own in measured.values()]
    note_repairs(source)
    show.show(*measurements)


def _given(flags: Any) -> list[str]:
    """Return the names of the flags of a kind that were given, also of those that are held together."""
    values = {own.name: getattr(flags, own.name) for own in fields(flags)}
    given = [own.name for own in fields(flags) if values[own.name] not in (None, (), own.default)]
    return [flag for name in given for flag in (given_flags(values[name]) if is_dataclass(values[name]) else [name])]
