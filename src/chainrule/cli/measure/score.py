"""chainrule score MODEL [TEXT]: log-probabilities of texts, tokens, words, characters or bytes, line by line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import BlockProgress, silent
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFile
from chainrule.cli.shared.screen import note, print_json, progress_bar, writes_utf8
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, note_repairs, text_for

if TYPE_CHECKING:
    from chainrule.api.models.model import Model
    from chainrule.api.models.scoring_model import ScoringModel
    from chainrule.evaluation.surprisal import By
    from chainrule.text.corpus.block import Block

_PART_BYTES = 1 << 18  # that one thread scores at a time


def score(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    tokens: Annotated[
        bool, Parameter(negative=(), help="Score each token: a line each, and an empty line after each text.")
    ] = False,
    words: Annotated[bool, Parameter(negative=(), help="Score each word, whatever the tokens are.")] = False,
    characters: Annotated[bool, Parameter(negative=(), help="Score each character of each text.")] = False,
    bytes: Annotated[bool, Parameter(negative=(), help="Score each byte of each text.")] = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    json: Json = False,
) -> None:
    """Print log-probabilities of texts, or of each token, word, character or byte.

        $ chainrule score lm/ heldout.txt --words

    Columns for texts: log P of the line with its </s>, in nats; number of
    tokens, with </s>; number of unknown tokens; the line. An unknown token
    counts as <unk>, without its spelling. Masked and bidirectional networks
    give pseudo-log-likelihoods: the sum of log P(token | all others), </s>
    given.

    Columns for tokens and other units: log P, as above; log P with the
    spelling of unknown tokens, as in bits per byte; start and end position in
    the normalised text (the end is one after the last character); the unit;
    <unk> if it contains an unknown token. Subword pieces are added up, and
    white space belongs to the next word.
    """
    from chainrule.api.models.scoring_model import ScoringModel

    by = _units(tokens=tokens, words=words, characters=characters, bytes=bytes)
    source = text_for([model], reading, text)
    with progress_bar() as progress:
        scorer = open_model(model, tokenizer, markers, progress, kind=ScoringModel)
        if scorer.is_bidirectional and by is None:
            note("these are pseudo-log-likelihoods, not probabilities: compare them with others of this model alone")
        # A progress bar would break into the output.
        block_progress = BlockProgress(silent if sys.stdout.isatty() else progress, "scoring")
        for block in source.blocks_as_they_come(block_progress, "scoring"):
            if by is not None:
                _print_units(scorer, block, by, block_progress, json=json)
            else:
                _print_sentences(scorer, block, block_progress, json=json)
            sys.stdout.flush()
    note_repairs(source)


def _units(**asked: bool) -> By | None:
    """The unit to score by; None for whole texts. Raises CycloptsError if several are chosen."""
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise CycloptsError(msg=f"Choose one of {' and '.join(f'--{name}' for name in names)}.")
    return cast("By", names[0]) if names else None


def _print_units(model: Model, block: Block, by: By, block_progress: BlockProgress, *, json: bool) -> None:
    from chainrule.api.texts.surprisal import documents

    done = 0
    for piece in block.pieces(_PART_BYTES):
        for document in documents(model, piece, by):
            if json:
                print_json(document.as_json(by))
            else:
                print(document.lines())
        done += piece.text.size
        block_progress.report(done)


def _print_sentences(model: ScoringModel, block: Block, block_progress: BlockProgress, *, json: bool) -> None:
    from chainrule.base.threads import map_in_order
    from chainrule.report.score_lines import sentence_lines, sentences_as_json

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
            sys.stdout.write(lines.tobytes().decode())  # characters that the encoding lacks become escapes
        done += size
        block_progress.report(done)
    sys.stdout.flush()
