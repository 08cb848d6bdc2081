"""chainrule evaluate MODEL TEXT: the honest numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFiles
from chainrule.cli.models import opened
from chainrule.cli.screen import print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs

if TYPE_CHECKING:
    from chainrule.evaluation.likelihood import Measurement


def evaluate(
    model: ModelPath,
    /,
    *texts: TextFiles,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """Perplexity and bits per byte of a text.

    Perplexity is told with and without unknown tokens. Bits per byte pay for
    the spelling of unknown tokens, so they can be compared across tokenizers
    and vocabularies.
    """
    source = reading.corpus(*texts)
    with progress() as told:
        measurement = opened(model, tokenizer, markers, told).evaluate(source, told)
    note_repairs(source)
    if json:
        print_json(measurement.as_json())
    else:
        print(described(measurement))


def described(measurement: Measurement) -> str:
    """A measurement for people."""
    figures = [
        ("perplexity", _figure(measurement.perplexity), "a token, </s> counted"),
        ("  without unknown tokens", _figure(measurement.perplexity_without_oov), ""),
        ("bits per byte", f"{measurement.bits_per_byte:.4f}", "spelling of unknown tokens paid for"),
        ("tokens", f"{measurement.tokens:,}", f"in {measurement.documents:,} documents, {measurement.bytes:,} bytes"),
        ("unknown tokens", f"{measurement.oov:,}", f"{measurement.oov / measurement.tokens:.2%}"),
        ("log-probability", f"{measurement.log_prob:,.2f}", "nats"),
    ]
    lines = [f"{name:<26}{value:>16}  {remark}".rstrip() for name, value, remark in figures]
    return "\n".join([*lines, f"signature  {measurement.signature}"])


def _figure(number: float) -> str:
    """Four decimals, or an exponent where that would be a line of digits."""
    return f"{number:,.4f}" if number < 1e9 else f"{number:.4e}"
