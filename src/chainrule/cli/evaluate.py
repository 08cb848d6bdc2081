"""chainrule evaluate MODEL TEXT: the honest numbers."""

from __future__ import annotations

import math
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
    from chainrule.evaluation.likelihood import Measurement
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
NO_DISTRIBUTION = "of scores that do not sum to one: no perplexity, and not to be compared with other models"


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
    ends: Annotated[bool, Parameter(help="Predict and count the end of each line, as everyone does.")] = True,
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
        if not ends or reading != AS_USUAL:
            raise CycloptsError(msg="--no-ends, and how texts are read, are for TEXTS, not for --minimal-pairs.")
        _judge_pairs(model, minimal_pairs, pseudo, tokenizer, markers, strict=strict, json=json)
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
        print(described(measurement))


def _judge_pairs(
    model: Path,
    files: tuple[str, ...],
    pseudo: Pseudo | None,
    tokenizer: str | None,
    markers: Markers | None,
    *,
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
                files, told, pseudo=pseudo, strict=strict, warn=lambda message: on_bad(TextError(message))
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


def described(measurement: Measurement) -> str:
    """A measurement for people."""
    low, high = measurement.interval
    sure = f"; {low:.4f} to {high:.4f} at 95 %" if math.isfinite(low) else ""
    per_token = "a token, </s> counted" if "</s>" in measurement.text_signature else "a token, </s> left out"
    oov_rate = measurement.oov / max(measurement.tokens, 1)
    plural = "s" * (measurement.documents != 1)
    mark = "" if measurement.is_distribution else "*"
    figures = [
        (f"perplexity{mark}", _figure(measurement.perplexity), per_token),
        (f"  without unknown tokens{mark}", _figure(measurement.perplexity_without_oov), ""),
        (f"bits per byte{mark}", f"{measurement.bits_per_byte:.4f}", "with spelling" + sure),
        (f"  perplexity per word{mark}", _figure(measurement.word_perplexity), "with spelling"),
        (f"  per character{mark}", _figure(measurement.character_perplexity), "with spelling"),
        (
            "tokens",
            f"{measurement.tokens:,}",
            f"in {measurement.documents:,} document{plural}, {measurement.bytes:,} bytes",
        ),
        ("unknown tokens", f"{measurement.oov:,}", f"{oov_rate:.2%}"),
        ("log-probability", f"{measurement.log_prob:,.2f}", "nats"),
    ]
    if measurement.impossible:
        figures.append(("impossible tokens", f"{measurement.impossible:,}", "no probability: the text has none"))
    if measurement.matched:
        shares = ", ".join(f"{n}: {count / measurement.tokens:.1%}" for n, count in enumerate(measurement.matched, 1))
        figures.append(("matched", f"{_mean_length(measurement.matched):.2f}", f"tokens on average; {shares}"))
    if measurement.row_sums:
        mean, contexts = measurement.row_sums
        odd = "" if abs(mean - 1) < _PROPER else ": this is no distribution, and its perplexity is no perplexity"
        figures.append(("mean row sum", f"{mean:.6f}", f"of the distributions at {contexts} places of the text{odd}"))
    lines = [f"{name:<26}{value:>16}  {remark}".rstrip() for name, value, remark in figures]
    if not measurement.is_distribution:
        lines.append(f"* {NO_DISTRIBUTION}")
    return "\n".join([*lines, f"signature  {measurement.signature}"])


_PROPER = 1e-3  # so close to one a sum has to be that is shown without a remark


def _mean_length(matched: tuple[int, ...]) -> float:
    """Of the n-grams that gave the tokens their probabilities."""
    return sum(n * count for n, count in enumerate(matched, 1)) / max(sum(matched), 1)


def _figure(number: float) -> str:
    """Four decimals, or an exponent where that would be a line of digits."""
    return f"{number:,.4f}" if number < 1e9 else f"{number:.4e}"
