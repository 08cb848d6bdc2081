"""chainrule score MODEL [TEXT]: a log-probability for each text, token, word or character, as the lines come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import BlockProgress, silent
from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFile
from chainrule.cli.models import opened
from chainrule.cli.screen import note, print_json, progress, writes_utf8
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs, text_for

if TYPE_CHECKING:
    from chainrule.api.model import Model
    from chainrule.evaluation.surprisal import By
    from chainrule.text.block import Block


_PART_BYTES = 1 << 18  # what one thread scores at a time


def score(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    tokens: Annotated[
        bool, Parameter(negative=(), help="A line for each token, an empty one after each text.")
    ] = False,
    words: Annotated[bool, Parameter(negative=(), help="A line for each word, whatever the tokens are.")] = False,
    characters: Annotated[bool, Parameter(negative=(), help="A line for each character, likewise.")] = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """Log-probabilities of texts, or of each token, word or character.

    Columns: log P of the line with its </s>, in nats; tokens, </s> counted;
    unknown tokens; the line. An unknown token counts as <unk>, without its
    spelling. Of a network that sees both sides: the sum of log P(token | all
    others), a pseudo-log-likelihood, in which </s> is given.

    Columns of tokens, words and characters: log P, as above; log P with the
    spelling of unknown tokens, as bits per byte are made of; first character
    and the one behind the last, in the normalised text; the unit; <unk> where
    an unknown token is in it. Pieces of subwords are added up, and white space
    belongs to the next word.
    """
    by = _units(tokens=tokens, words=words, characters=characters)
    source = text_for([model], reading, text)
    with progress() as told:
        scorer = opened(model, tokenizer, markers, told)
        if scorer.sees_both_sides and by is None:
            note("these are pseudo-log-likelihoods, not probabilities: compare them with others of this model alone")
        # A bar among the answers would spoil both.
        inside = BlockProgress(silent if sys.stdout.isatty() else told, "scoring")
        for block in source.blocks_as_they_come(inside, "scoring"):
            if by is not None:
                _print_units(scorer, block, by, inside, json=json)
            else:
                _print_sentences(scorer, block, inside, json=json)
            sys.stdout.flush()
    note_repairs(source)


def _units(**asked: bool) -> By | None:
    """Raises CycloptsError where two are asked for at once."""
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise CycloptsError(msg=f"Choose one of {' and '.join(f'--{name}' for name in names)}.")
    return cast("By", names[0]) if names else None


def _print_units(model: Model, block: Block, by: By, inside: BlockProgress, *, json: bool) -> None:
    from chainrule.cli.surprisal import documents

    done = 0
    for piece in block.pieces(_PART_BYTES):
        for document in documents(model, piece, by):
            if json:
                print_json(document.as_json(by))
            else:
                print(document.lines())
        done += piece.text.size
        inside.report(done)


def _print_sentences(model: Model, block: Block, inside: BlockProgress, *, json: bool) -> None:
    from chainrule.base.jit import map_in_order
    from chainrule.report.sentence_lines import sentence_lines, sentences_as_json

    if json:
        for sentence in sentences_as_json(model.sentence_scores(block), block):
            print_json(sentence)
        return
    is_utf8 = writes_utf8()
    sys.stdout.flush()
    done = 0
    for lines, size in map_in_order(
        lambda part: (sentence_lines(model.sentence_scores(part), part), part.text.size), block.pieces(_PART_BYTES)
    ):
        if is_utf8:
            sys.stdout.buffer.write(lines.data)
        else:
            sys.stdout.write(lines.tobytes().decode())  # what the encoding lacks is shown as escapes
        done += size
        inside.report(done)
    sys.stdout.flush()
