"""chainrule translate MODEL [TEXT]: generates a text for each line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from chainrule.base.progress import silent
from chainrule.cli.arguments import Json, TextFile, WholeNumber
from chainrule.cli.screen import count_of, note, print_json, progress_bar
from chainrule.cli.texts import DEFAULT_READING, TextOptions, note_repairs
from chainrule.errors import SettingError
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.api.pair_model import TextPairModel, Written
    from chainrule.decoding.beam import BeamConfig
    from chainrule.text.block import Block

_AT_ONCE = 1024  # lines, which are sorted by length


def translate(
    model: Annotated[Path, Parameter(help="A model folder that train translation wrote, or a Marian or T5 of others.")],
    text: TextFile = "-",
    /,
    *,
    beam: Annotated[int, WholeNumber, Parameter(help="How many hypotheses to keep; 1 picks the likeliest token.")] = 5,
    rank_by: Annotated[
        Literal["total", "mean", "wu"],
        Parameter(help="Rank texts by log-probability, its mean over the tokens, or the rule of Wu et al. 2016."),
    ] = "mean",
    alpha: Annotated[float, Parameter(help="The exponent in the rule of Wu et al.")] = 0.6,
    nbest: Annotated[
        int, WholeNumber, Parameter(help="Print this many texts for each line, as Moses does: line ||| text ||| score.")
    ] = 1,
    alignments: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Print, after a tab, the source token that each token attended to most: target-source, from 0.",
        ),
    ] = False,
    max_tokens: Annotated[
        int | None, WholeNumber, Parameter(help="The longest text, in tokens; by default twice the source's plus 20.")
    ] = None,
    reading: TextOptions = DEFAULT_READING,
    json: Json = False,
) -> None:
    """Generate texts from source texts: translations, summaries, corrections.

        $ chainrule translate mt/ test.de

    Prints a line for each line read, in order; an empty line gives an empty
    line. With --json, each text with its tokens, scores and attention over the
    source's tokens and, last, its end.
    """
    from chainrule.api.pair_model import load_pairs
    from chainrule.decoding.beam import BeamConfig
    from chainrule.protocol import UNKNOWN

    source = reading.corpus(text)
    if alignments and nbest > 1 and not json:
        raise SettingError("--alignments needs one text a line, or --json; leave out --nbest or add --json")
    if max_tokens is not None and max_tokens < 1:
        raise SettingError(f"max_tokens is {max_tokens}; expected 1 or more")
    config = BeamConfig(
        size=max(beam, nbest) if beam > 1 else beam, best=nbest, rank_by=rank_by, alpha=alpha, stop="likely"
    )
    with progress_bar() as progress:
        loaded = load_pairs(model, progress=progress)
        shown = silent if sys.stdout.isatty() else progress
        number = unknown = 0
        for block in source.blocks_as_they_come(shown, "translating"):
            for first, lines in _lines(block):
                unknown += sum(int((ids == UNKNOWN).sum()) for ids in loaded.sources(lines))
                for texts in _written(loaded, block, first, lines, config, alignments or json, max_tokens):
                    _print(number, texts, nbest, alignments=alignments, json=json)
                    number += 1
                sys.stdout.flush()
    note_repairs(source)
    if unknown:
        note(f"the model does not know {count_of(unknown, 'token')} of the sources; each counts as <unk>")


def _lines(block: Block) -> Iterator[tuple[int, list[str]]]:
    """The documents in parts, each with the number of its first in the block."""
    documents = block.documents()
    for first in range(0, len(documents), _AT_ONCE):
        yield first, documents[first : first + _AT_ONCE]


def _written(
    loaded: TextPairModel,
    block: Block,
    first: int,
    lines: list[str],
    config: BeamConfig,
    alignments: bool,
    max_tokens: int | None,
) -> Iterator[list[Written]]:
    """Generates the texts of each line. Raises SettingError, which names the line, after yielding those before it."""
    try:
        yield from loaded.write(lines, config, alignments=alignments, max_tokens=max_tokens)
    except SettingError:
        for number, line in enumerate(lines, first + 1):
            try:
                [texts] = loaded.write([line], config, alignments=alignments, max_tokens=max_tokens)
            except SettingError as error:
                raise SettingError(f"{block.locate(number)}: {error}") from error
            yield texts


def _print(number: int, texts: list[Written], nbest: int, *, alignments: bool, json: bool) -> None:
    if json:
        print_json({"line": number, "texts": [_as_json(text) for text in texts]})
        return
    if nbest > 1:
        for text in texts:
            print(f"{number} ||| {printable(text.text)} ||| log_prob= {text.log_prob:.4f} ||| {text.score:.4f}")
        if not texts:  # an empty line has one empty text, so that no list is missing
            print(f"{number} |||  ||| log_prob= 0.0000 ||| 0.0000")
        return
    line = printable(texts[0].text) if texts else ""
    print(f"{line}\t{_alignment(texts[0]) if texts else ''}" if alignments else line)


def _alignment(written: Written) -> str:
    if written.attention is None:
        return ""
    best = written.attention[: len(written.tokens), : len(written.source_tokens)].argmax(1)
    return " ".join(f"{target}-{source}" for target, source in enumerate(best.tolist()))


def _as_json(written: Written) -> dict[str, object]:
    attention = written.attention
    return {
        **{name: value for name, value in written._asdict().items() if name != "attention"},
        "attention": None if attention is None else [[round(float(x), 4) for x in row] for row in attention],
    }
