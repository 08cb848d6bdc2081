"""The verb evaluate: perplexity, accuracy, test suites; also of seq2seq models, captioners and word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import labels_inputs, open_model, open_vectors
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    ModelPath,
    ModelTokenizerName,
    Needs,
    TextFiles,
    file_or_dash,
    flag,
    given_settings,
)
from chainrule.cli.shared.results import ResultOptions
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    LabelField,
    Strict,
    TextOptions,
    bad_records,
    note_repairs,
    text_for,
)
from chainrule.errors import TextError
from chainrule.features.classify.shell import show_accuracy
from chainrule.features.seq2seq.options import MeasureOptions
from chainrule.features.speech.shell import NO_MEASURING, SpeechMeasuring, evaluate_speech
from chainrule.features.vectors.options import VectorsEvaluation
from chainrule.models.config import EvaluateOptions
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.evaluation.minimal_pairs import Accuracy
    from chainrule.evaluation.pseudo_likelihood import Pseudo
    from chainrule.evaluation.suites import ItemAccuracy
    from chainrule.text.parallel import Pairs
    from chainrule.text.tokenization.vocabulary import Markers


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CaptionsOptions:
    """What a captioner is measured on."""

    pictures: Annotated[
        str | None, FILE, Parameter(help="Captioned pictures (.jsonl: image, captions), for a captioner.")
    ] = None
    vectors: Annotated[
        str | None,
        FILE,
        Parameter(help="With --pictures: their vectors (.npy), for a captioner trained on vectors."),
        Needs("pictures"),
    ] = None


NO_CAPTIONS = CaptionsOptions()


def evaluate_captions(model: Path, options: CaptionsOptions, pairs: PairsOptions, *, json: bool) -> None:
    """Measures a captioner and prints the result. pairs: the settings of the search.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    assert options.pictures is not None  # which the others need
    if (pairs.source, pairs.target, pairs.pairs) != (None, None, None):
        raise CycloptsError(msg="--pictures is for captioners; leave out --source, --target and --pairs.")
    from chainrule.features.vision.model import load_captioner
    from chainrule.features.vision.picture_encoder import read_vectors
    from chainrule.features.vision.pictures.captions import read_captions

    writing = given_settings(pairs.writing)
    with progress_bar() as progress:
        captioner = load_captioner(model, progress=progress)
        frame = None if captioner.encoder is None else captioner.encoder.frame
        captioned = read_captions(
            options.pictures,
            frame,
            progress=progress,
            with_pictures=options.vectors is None,
            with_boxes=captioner.needs_boxes,
        )
        measurement = captioner.evaluate(
            captioned,
            vectors=None if options.vectors is None else read_vectors(options.vectors),
            progress=progress,
            **writing,
        )
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)


_FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PairsOptions:
    """What a seq2seq model is measured on."""

    source: Annotated[str | None, _FILE, Parameter(help="Source texts, one a line, for a seq2seq model.")] = None
    target: Annotated[str | None, _FILE, Parameter(help="Their targets, one a line.")] = None
    pairs: Annotated[
        str | None,
        _FILE,
        Parameter(help="Both in one file, as `train seq2seq --pairs` reads it: tabs, JSON lines, conversations."),
    ] = None
    writing: Flags[MeasureOptions] = NO_FLAGS


NO_PAIRS = PairsOptions()


def evaluate_pairs(model: Path, options: PairsOptions, *, json: bool) -> None:
    """Measures a seq2seq model and prints the result.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    from chainrule.features.seq2seq.model import load_pairs

    with progress_bar() as progress:
        pairs, writing = _read(options, progress), given_settings(options.writing)
        loaded = load_pairs(model, progress=progress)
        measurement = loaded.evaluate(pairs, progress=progress, **writing)
    _note_left_out(pairs)
    shortened = loaded.generator.shorten(pairs.sources).shortened
    if shortened:
        note(f"{count_of(shortened, 'source')} longer than the model reads; see long_sources of chainrule info {model}")
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)


def compare_pairs(models: tuple[str, ...], options: PairsOptions, *, json: bool) -> None:
    """Measures seq2seq models and prints a table. Raises as `evaluate_pairs`."""
    from chainrule.base.files import describe_duplicate
    from chainrule.features.compare.supervised import compare_pairs as compare

    if not models:
        raise CycloptsError(msg="MODELS are missing; give the folders of seq2seq models to compare.")
    twice = describe_duplicate(models)
    if twice is not None:
        raise CycloptsError(msg=f"MODELS name {twice}; a model is compared with others.")
    with progress_bar() as progress:
        pairs = _read(options, progress)
        table = compare(models, pairs, progress=progress, **given_settings(options.writing))
    _note_left_out(pairs)
    if json:
        print_json(table.as_json())
    else:
        print(table)


def _read(options: PairsOptions, progress: Progress) -> Pairs:
    """The pairs. Raises CycloptsError, TextError, SettingError."""
    from chainrule.text.parallel import pairs_of

    MeasureOptions(**given_settings(options.writing))  # raises SettingError, before anything is read
    if options.pairs is not None:
        if options.source is not None or options.target is not None:
            raise CycloptsError(msg="--pairs has both sides; leave out --source and --target.")
        return pairs_of([options.pairs], ("source", "target"), progress)
    if options.source is None or options.target is None:
        missing = "--source" if options.source is None else "--target"
        raise CycloptsError(
            msg=f"{missing} is missing: a seq2seq model is measured on --source and --target, or on --pairs."
        )
    return pairs_of([options.source, options.target], ("source", "target"), progress)


def _note_left_out(pairs: Pairs) -> None:
    if pairs.left_out:
        note(f"{count_of(pairs.left_out, 'pair')} left out, since one side is empty")


def holds_vectors(model: Path) -> bool:
    """Whether this is a folder of word vectors, or a file whose name says that it has them."""
    from chainrule.features.vectors.model import is_vectors_folder

    return is_vectors_folder(model) if model.is_dir() else model.name.endswith((".vec", ".vec.gz"))


def evaluate_vectors(model: Path, options: dict[str, Any], *, json: bool) -> None:
    """Measures word vectors and prints the result.

    Raises CycloptsError, SettingError, TextError, ModelFormatError.
    """
    from chainrule.features.vectors.evaluate import evaluate_vectors as measure

    VectorsEvaluation(**options)  # raises SettingError, before anything is opened
    with progress_bar() as progress:
        measurement = measure(open_vectors(model, progress), progress=progress, **options)
    if json:
        print_json(measurement.as_json())
        return
    print(measurement)
    if measurement.by_ngrams:
        note(f"{measurement.by_ngrams:,} unknown words got their vectors from their character n-grams")


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
    words: Flags[VectorsEvaluation] = NO_FLAGS,
    pairs: PairsOptions = NO_PAIRS,
    captions: CaptionsOptions = NO_CAPTIONS,
    speech: SpeechMeasuring = NO_MEASURING,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    ends: Annotated[bool, flag(EvaluateOptions, "ends")] = True,
    reading: TextOptions = DEFAULT_READING,
    label_field: LabelField = "label",
    json: Json = False,
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
    from chainrule.features.seq2seq.model import is_seq2seq
    from chainrule.features.speech.model import hears_sounds
    from chainrule.features.vision.model import captions_pictures
    from chainrule.models.language_models import CausalModel

    is_reading_set = reading != DEFAULT_READING or label_field != "label"
    if of_words := given_settings(words):
        if (
            texts
            or minimal_pairs is not None
            or suites is not None
            or pseudo is not None
            or strict
            or is_reading_set
            or not ends
        ):
            raise CycloptsError(
                msg="--similarity and --analogies measure word vectors; leave out texts and their options."
            )
        evaluate_vectors(model, of_words, json=json)
        return
    if pairs != NO_PAIRS or captions != NO_CAPTIONS:
        if (
            texts
            or minimal_pairs is not None
            or suites is not None
            or pseudo is not None
            or strict
            or is_reading_set
            or not ends
        ):
            raise CycloptsError(
                msg="--source and --target measure a seq2seq model, --pictures a captioner; leave out texts and "
                "their options."
            )
        if tokenizer is not None or markers is not None:
            raise CycloptsError(msg="A seq2seq model has its own tokenizers; leave out --tokenizer and --markers.")
        if captions != NO_CAPTIONS:
            evaluate_captions(model, captions, pairs, json=json)
        else:
            evaluate_pairs(model, pairs, json=json)
        return
    if minimal_pairs is not None or suites is not None:
        name = "--suite" if minimal_pairs is None else "--minimal-pairs"
        if minimal_pairs is not None and suites is not None:
            raise CycloptsError(msg="--suite and --minimal-pairs are both given; choose one.")
        if not (minimal_pairs or suites):
            raise CycloptsError(msg=f"{name} takes files; standard input is /dev/stdin there.")
        if texts:
            raise CycloptsError(msg=f"TEXTS and {name} are both given; choose one.")
        if is_reading_set:
            raise CycloptsError(msg=f"The options that say how to read texts are for TEXTS, not for {name}.")
    if suites is not None:
        if not ends:
            raise CycloptsError(msg="The end of a sentence is in no region; leave out --no-ends.")
        _judge_suites(model, suites, tokenizer, markers, word_ends=word_ends, strict=strict, json=json)
        return
    if minimal_pairs is not None:
        _judge_pairs(model, minimal_pairs, pseudo, tokenizer, markers, ends=ends, strict=strict, json=json)
        return
    if captions_pictures(model):
        raise CycloptsError(msg=f"{model} captions pictures; measure it with --pictures.")
    if is_seq2seq(model):
        raise CycloptsError(msg=f"{model} is a seq2seq model; measure it with --pairs, or --source and --target.")
    if not texts:
        if holds_vectors(model):
            raise CycloptsError(msg=f"{model} holds word vectors; measure them with --similarity or --analogies.")
        raise CycloptsError(msg="TEXTS is missing.")
    if hears_sounds(model):
        if is_reading_set:
            raise CycloptsError(msg=f"{model} is measured on sounds; leave out the options that say how to read texts.")
        evaluate_speech(model, texts, speech, strict=strict, json=json)
        return
    if speech != NO_MEASURING:
        raise CycloptsError(msg="--lm is for speech models; leave it out.")
    if labels_inputs(model):
        if not ends or len(texts) > 1:
            raise CycloptsError(
                msg="A classifier is measured on one file of labelled inputs; leave out the options of texts."
            )
        show_accuracy(
            model, texts[0], markers, reading.labelled(label_field), strict=strict, show=ResultOptions(json=json)
        )
        return
    if label_field != "label":
        raise CycloptsError(msg="--label-field is for classifiers.")
    if strict:
        raise CycloptsError(msg="--strict is for --minimal-pairs, --suite and classifiers.")
    source = text_for([model], reading, *texts)
    with progress_bar() as progress:
        measured = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        measurement = measured.evaluate(source, progress, ends=ends)
    note_repairs(source)
    if json:
        print_json(measurement.as_json())
    else:
        print(measurement)


def _judge_pairs(
    model: Path,
    files: tuple[str, ...],
    pseudo: Pseudo | None,
    tokenizer: str | None,
    markers: Markers | None,
    *,
    ends: bool,
    strict: bool,
    json: bool,
) -> None:
    """Prints the accuracy on the pairs."""
    from chainrule.base.tables import text_table
    from chainrule.evaluation.minimal_pairs import RULES
    from chainrule.models.scoring_model import ScoringModel

    with progress_bar() as progress:
        judge = open_model(model, tokenizer, markers, progress, kind=ScoringModel)
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
    if json:
        print_json([row.as_json() for row in rows])
        return
    titles = {"sum": "sum", **{rule: f"per {rule}" for rule in RULES[1:]}}
    header = ["", "pairs", *(cell for rule in RULES for cell in (titles[rule], "95 %")), "ties"]
    shown = []
    for row in rows:
        figures = [cell for rule in RULES for cell in _accuracy(row.by_rule[rule])]
        name = row.name if row.kind == "set" else f"{row.kind} {row.name}".rstrip()
        shown.append([name, f"{row.pairs:,}", *figures, f"{row.by_rule['sum'].ties:,}"])
    print(text_table(header, shown))


def _judge_suites(
    model: Path,
    files: tuple[str, ...],
    tokenizer: str | None,
    markers: Markers | None,
    *,
    word_ends: bool,
    strict: bool,
    json: bool,
) -> None:
    """Prints the accuracy on suites, on each of several predictions, and the mean over several suites."""
    from chainrule.base.tables import text_table
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        judge = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        with bad_records(strict=strict) as on_bad:
            rows = judge.judge_suites(
                files, progress, word_ends=word_ends, strict=strict, warn=lambda message: on_bad(TextError(message))
            )
    if json:
        print_json([row.as_json() for row in rows])
        return
    shown = []
    for row in rows:
        parts = row.predictions if len(row.predictions) > 1 else ()
        for name, own in ((row.name, row.all), *((f"  {formula}", accuracy) for formula, accuracy in parts)):
            shown.append([name, f"{own.items:,}", *_accuracy(own), f"{own.ties:,}"])
    if len(rows) > 1:
        items, ties = sum(row.all.items for row in rows), sum(row.all.ties for row in rows)
        mean = sum(row.all.share for row in rows) / len(rows)
        shown.append([f"mean of {len(rows)} suites", f"{items:,}", f"{mean:.1%}", "", f"{ties:,}"])
    print(text_table(["suite", "items", "accuracy", "95 %", "ties"], shown))


def _accuracy(accuracy: Accuracy | ItemAccuracy) -> tuple[str, str]:
    low, high = accuracy.interval
    return f"{accuracy.share:.1%}", f"{100 * low:.1f}-{100 * high:.1f}"
