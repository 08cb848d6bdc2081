"""chainrule score MODEL [TEXT]: a log-probability for each sentence or token, as the lines come."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, TextFile
from chainrule.cli.models import opened
from chainrule.cli.screen import finite, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs
from chainrule.progress import silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float32
    from numpy import ndarray

    from chainrule.model import Model
    from chainrule.text.block import Block
    from chainrule.text.vocabulary import Encoded


def score(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    tokens: Annotated[
        bool, Parameter(negative=(), help="A line for each token, an empty one after each sentence.")
    ] = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """Log-probabilities of sentences or tokens, as the lines come.

    Columns: log P of the line with its </s>, in nats; tokens, </s> counted;
    unknown tokens; the line. With --tokens: log P of the token; the token;
    <unk> where it is unknown. An unknown token counts as <unk>, without its
    spelling.
    """
    source = reading.corpus(text)
    with progress() as told:
        scorer = opened(model, tokenizer, markers, told)
        shown = silent if sys.stdout.isatty() else told  # a bar among the answers would spoil both
        for block in source.blocks_as_they_come(shown, "scoring"):
            for sentence in _scored(scorer, block):
                if json:
                    print_json(sentence.as_json(tokens=tokens))
                elif tokens:
                    print(sentence.token_lines())
                else:
                    print(sentence.line())
            sys.stdout.flush()
    note_repairs(source)


@dataclass(frozen=True)
class _Sentence:
    text: str
    log_prob: float
    oov: int
    span: slice  # its tokens, </s> included, in the three below
    encoded: Encoded
    log_probs: Float32[ndarray, " tokens"]
    known: Bool[ndarray, " tokens"]

    @property
    def size(self) -> int:
        return self.span.stop - self.span.start

    def tokens(self) -> Iterator[tuple[str, float, bool]]:
        """Each token as it stands in the text, its log-probability, and whether it is known."""
        surfaces = [self.encoded.surface(i).decode() for i in range(self.span.start, self.span.stop - 1)]
        return zip([*surfaces, "</s>"], self.log_probs[self.span].tolist(), self.known[self.span].tolist(), strict=True)

    def line(self) -> str:
        text = self.text.replace("\n", " ")  # a line stays one
        return f"{_number(self.log_prob)}\t{self.size}\t{self.oov}\t{text}"

    def token_lines(self) -> str:
        lines = [
            f"{_number(log_prob)}\t{token}" + ("" if known else "\t<unk>") for token, log_prob, known in self.tokens()
        ]
        return "\n".join(lines) + "\n"

    def as_json(self, *, tokens: bool) -> dict[str, Any]:
        summary = {"text": self.text, "log_prob": finite(self.log_prob), "tokens": self.size, "oov": self.oov}
        if not tokens:
            return summary
        rows = [
            {"token": token, "log_prob": finite(log_prob), "known": known} for token, log_prob, known in self.tokens()
        ]
        return {**summary, "token_scores": rows}


def _scored(model: Model, block: Block) -> Iterator[_Sentence]:
    import numpy as np

    from chainrule.protocol import END, UNKNOWN

    encoded = model.tokenizer.encode_block(block)
    known = encoded.ids != UNKNOWN
    log_probs = np.concatenate(model.token_scores(encoded.ids))
    stops = np.flatnonzero(encoded.ids == END) + 1
    starts = np.concatenate([[0], stops[:-1]])
    totals = np.add.reduceat(log_probs, starts, dtype=np.float64)
    oov = np.add.reduceat(~known, starts, dtype=np.int64)
    columns = (totals.tolist(), oov.tolist(), map(slice, starts.tolist(), stops.tolist()))
    for text, total, unknown, span in zip(block.documents(), *columns, strict=True):
        yield _Sentence(text, total, unknown, span, encoded, log_probs, known)


def _number(log_prob: float) -> str:
    return f"{log_prob:.6f}"
