"""chainrule score MODEL [TEXT]: a log-probability for each text, token, word or character, as the lines come."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFile
from chainrule.cli.models import opened
from chainrule.cli.screen import finite, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs
from chainrule.progress import silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.evaluation.surprisal import By
    from chainrule.model import Model
    from chainrule.text.block import Block


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
    spelling.

    Columns of tokens, words and characters: log P, as above; log P with the
    spelling of unknown tokens, as bits per byte are made of; first character
    and the one behind the last, in the normalised text; the unit; <unk> where
    an unknown token is in it. Pieces of subwords are added up, and white space
    belongs to the next word.
    """
    by = _units(tokens=tokens, words=words, characters=characters)
    source = reading.corpus(text)
    with progress() as told:
        scorer = opened(model, tokenizer, markers, told)
        shown = silent if sys.stdout.isatty() else told  # a bar among the answers would spoil both
        for block in source.blocks_as_they_come(shown, "scoring"):
            if by is not None:
                _print_units(scorer, block, by, json=json)
            else:
                for sentence in _scored(scorer, block):
                    if json:
                        print_json(sentence.as_json())
                    else:
                        print(sentence.line())
            sys.stdout.flush()
    note_repairs(source)


def _units(**asked: bool) -> By | None:
    """Raises CycloptsError where two are asked for at once."""
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise CycloptsError(msg=f"Choose one of {' and '.join(f'--{name}' for name in names)}.")
    return cast("By", names[0]) if names else None


def _print_units(model: Model, block: Block, by: By, *, json: bool) -> None:
    from chainrule.cli.surprisal import documents

    for document in documents(model, block, by):
        if json:
            print_json(document.as_json(by))
        else:
            print(document.lines())


@dataclass(frozen=True)
class _Sentence:
    text: str
    log_prob: float
    oov: int
    tokens: int

    def line(self) -> str:
        text = self.text.replace("\n", " ")  # a line stays one
        return f"{self.log_prob:.6f}\t{self.tokens}\t{self.oov}\t{text}"

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "log_prob": finite(self.log_prob), "tokens": self.tokens, "oov": self.oov}


def _scored(model: Model, block: Block) -> Iterator[_Sentence]:
    import numpy as np

    from chainrule.protocol import END, UNKNOWN

    ids = model.tokenizer.encode_block(block).ids
    log_probs = np.concatenate(model.token_scores(ids))
    stops = np.flatnonzero(ids == END) + 1
    starts = np.concatenate([[0], stops[:-1]])
    totals = np.add.reduceat(log_probs, starts, dtype=np.float64)
    oov = np.add.reduceat(ids == UNKNOWN, starts, dtype=np.int64)
    columns = (totals.tolist(), oov.tolist(), (stops - starts).tolist())
    for text, total, unknown, size in zip(block.documents(), *columns, strict=True):
        yield _Sentence(text, total, unknown, size)
