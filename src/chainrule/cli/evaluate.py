"""chainrule evaluate MODEL TEXTS: perplexity and bits per byte, or accuracy on labels or minimal pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.classify import show_accuracy
from chainrule.cli.evaluate_captions import NO_CAPTIONS, CaptionsOptions, evaluate_captions
from chainrule.cli.evaluate_pairs import NO_PAIRS, PairsOptions, evaluate_pairs
from chainrule.cli.evaluate_vectors import NO_VECTORS, VectorsOptions, evaluate_vectors, holds_vectors
from chainrule.cli.shared.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFiles
from chainrule.cli.shared.bad_records import Strict, bad_records
from chainrule.cli.shared.models import labels_inputs, open_model
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, note_repairs, text_for
from chainrule.errors import TextError

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.evaluation.minimal_pairs import Accuracy
    from chainrule.evaluation.pseudo_likelihood import Pseudo
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
    ] = None,
    strict: Strict = False,
    words: VectorsOptions = NO_VECTORS,
    pairs: PairsOptions = NO_PAIRS,
    captions: CaptionsOptions = NO_CAPTIONS,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    ends: Annotated[bool, Parameter(help="Predict and count the end of each line or sentence, as is usual.")] = True,
    reading: TextOptions = DEFAULT_READING,
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

    A classifier is given labelled inputs in place of texts: its accuracy with
    the 95 % interval, precision, recall, F1 and calibration.

    Word vectors are measured by --similarity, the correlation of cosines with
    human ratings of word pairs, and by --analogies, the share answered right.

    A model of pairs is measured on --source and --target, or on --pairs: the
    perplexity of the targets, and BLEU, chrF, length ratio and ROUGE of the
    texts that it writes.
    One that captions is measured on --pictures: the same of their captions, and
    BLEU-1 to 4, METEOR, ROUGE-L and CIDEr-D of those that it writes.
    """
    from chainrule.api.models.language_models import CausalModel
    from chainrule.api.seq2seq.caption_model import captions_pictures

    if words != NO_VECTORS:
        if texts or minimal_pairs is not None or pseudo is not None or strict or reading != DEFAULT_READING or not ends:
            raise CycloptsError(
                msg="--similarity and --analogies measure word vectors; leave out texts and their options."
            )
        evaluate_vectors(model, words, json=json)
        return
    if pairs != NO_PAIRS or captions != NO_CAPTIONS:
        if texts or minimal_pairs is not None or pseudo is not None or strict or reading != DEFAULT_READING or not ends:
            raise CycloptsError(
                msg="--source and --target measure a model of pairs, --pictures one that captions; leave out texts and "
                "their options."
            )
        if tokenizer is not None or markers is not None:
            raise CycloptsError(msg="A model of pairs has its own tokenizers; leave out --tokenizer and --markers.")
        if captions != NO_CAPTIONS:
            evaluate_captions(model, captions, pairs, json=json)
        else:
            evaluate_pairs(model, pairs, json=json)
        return
    if minimal_pairs is not None:
        if not minimal_pairs:
            raise CycloptsError(msg="--minimal-pairs takes files; standard input is /dev/stdin there.")
        if texts:
            raise CycloptsError(msg="TEXTS and --minimal-pairs are both given; choose one.")
        if reading != DEFAULT_READING:
            raise CycloptsError(msg="The options that say how to read texts are for TEXTS, not for --minimal-pairs.")
        _judge_pairs(model, minimal_pairs, pseudo, tokenizer, markers, ends=ends, strict=strict, json=json)
        return
    if pseudo is not None:
        raise CycloptsError(msg="--pseudo is for --minimal-pairs.")
    if captions_pictures(model):
        raise CycloptsError(msg=f"{model} captions pictures; measure it with --pictures.")
    if not texts:
        if holds_vectors(model):
            raise CycloptsError(msg=f"{model} holds word vectors; measure them with --similarity or --analogies.")
        raise CycloptsError(msg="TEXTS is missing.")
    if labels_inputs(model):
        if reading != DEFAULT_READING or not ends or len(texts) > 1:
            raise CycloptsError(
                msg="A classifier is measured on one file of labelled inputs; leave out the options of texts."
            )
        show_accuracy(model, texts[0], markers, strict=strict, json=json)
        return
    if strict:
        raise CycloptsError(msg="--strict is for --minimal-pairs and for classifiers.")
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
    from chainrule.api.models.scoring_model import ScoringModel
    from chainrule.base.tables import text_table
    from chainrule.evaluation.minimal_pairs import RULES

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
    if judge.sees_both_sides:
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


def _accuracy(accuracy: Accuracy) -> tuple[str, str]:
    low, high = accuracy.interval
    return f"{accuracy.share:.1%}", f"{100 * low:.1f}-{100 * high:.1f}"
