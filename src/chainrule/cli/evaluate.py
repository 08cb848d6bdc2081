"""chainrule evaluate MODEL TEXT: the honest numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFiles
from chainrule.cli.bad_records import Strict, bad_records
from chainrule.cli.models import opened
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs, text_for
from chainrule.errors import TextError

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.evaluation.acceptability import Accuracy
    from chainrule.evaluation.pseudo_pricing import Pseudo
    from chainrule.text.vocabulary import Markers


MinimalPairs = Annotated[
    tuple[str, ...] | None,
    Parameter(
        help="JSON lines in BLiMP's form, files and folders of them: sentence_good, sentence_bad, and UID and field if "
        "they have them.",
        consume_multiple=True,
        negative=(),
    ),
]
_ASKED = {
    "original": "each token by all others",
    "word-l2r": "each token without what is left of its word",
    None: "each token without what is left of its word, where the network is masked",
}


def evaluate(
    model: ModelPath,
    /,
    *texts: Annotated[TextFiles, Parameter(required=False)],
    minimal_pairs: MinimalPairs = None,
    pseudo: Annotated[
        Literal["original", "word-l2r"] | None,
        Parameter(
            help="How a masked network scores a pair: a token by all others; or without the rest of its word, the "
            "default."
        ),
    ] = None,
    strict: Strict = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    ends: Annotated[
        bool, Parameter(help="Predict and count the end of each line or sentence, as everyone does.")
    ] = True,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """Perplexity and bits per byte of a text, or accuracy on minimal pairs.

    Perplexity per token is told with and without unknown tokens. Bits per
    byte, and perplexity per word and per character, pay for the spelling of
    unknown tokens, so they can be compared across tokenizers and vocabularies.

    With --minimal-pairs, no text is measured: a pair is won where the good
    sentence has the higher log-probability, in all, or by token, character or
    byte; a tie is half a win. Pairs of equal sentences are ties, and those that
    cannot be read are left out; both are named.
    """
    if minimal_pairs is not None:
        if not minimal_pairs:
            raise CycloptsError(msg="--minimal-pairs takes files; standard input is /dev/stdin there.")
        if texts:
            raise CycloptsError(msg="TEXTS and --minimal-pairs are both given; one of them is measured at a time.")
        if reading != AS_USUAL:
            raise CycloptsError(msg="How texts are read is for TEXTS, not for --minimal-pairs.")
        _judge_pairs(model, minimal_pairs, pseudo, tokenizer, markers, ends=ends, strict=strict, json=json)
        return
    if strict:
        raise CycloptsError(msg="--strict is for --minimal-pairs.")
    if pseudo is not None:
        raise CycloptsError(msg="--pseudo is for --minimal-pairs.")
    if not texts:
        raise CycloptsError(msg="TEXTS is missing.")
    source = text_for([model], reading, *texts)
    with progress() as told:
        measurement = opened(model, tokenizer, markers, told).evaluate(source, told, ends=ends)
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
    """Prints how many of the pairs are won."""
    from chainrule.evaluation.acceptability import RULES
    from chainrule.report.tables import text_table

    with progress() as told:
        judge = opened(model, tokenizer, markers, told)
        with bad_records(strict=strict) as on_bad:
            rows = judge.judge_pairs(
                files, told, ends=ends, pseudo=pseudo, strict=strict, warn=lambda message: on_bad(TextError(message))
            )
    if judge.sees_both_sides:
        note(f"by pseudo-log-likelihoods, {_ASKED[pseudo]}")
    if json:
        print_json([row.as_json() for row in rows])
        return
    titles = {"sum": "sum", **{rule: f"per {rule}" for rule in RULES[1:]}}
    header = ["", "pairs", *(each for rule in RULES for each in (titles[rule], "95 %")), "ties"]
    shown = []
    for row in rows:
        figures = [each for rule in RULES for each in _accuracy(row.by_rule[rule])]
        name = row.name if row.kind == "set" else f"{row.kind} {row.name}".rstrip()
        shown.append([name, f"{row.pairs:,}", *figures, f"{row.by_rule['sum'].ties:,}"])
    print(text_table(header, shown))


def _accuracy(found: Accuracy) -> tuple[str, str]:
    low, high = found.interval
    return f"{found.share:.1%}", f"{100 * low:.1f}-{100 * high:.1f}"
