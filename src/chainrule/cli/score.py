"""chainrule score MODEL [TEXT]: a log-probability for each sentence or token, as the lines come."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, TextFile
from chainrule.cli.models import opened
from chainrule.cli.screen import finite, print_json, progress
from chainrule.progress import silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float32
    from numpy import ndarray

    from chainrule.model import Model
    from chainrule.text.corpus import Block
    from chainrule.text.vocabulary import Encoded


def score(
    model: ModelPath,
    text: TextFile = "-",
    /,
    *,
    tokens: Annotated[
        bool, Parameter(negative=(), help="A line for each token, an empty one after each sentence.")
    ] = False,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Log-probabilities of sentences or tokens, as the lines come.

    Columns: log P of the line with its </s>, in nats; tokens, </s> counted;
    unknown tokens; the line. With --tokens: log P of the token; the token;
    <unk> where it is unknown. An unknown token counts as <unk>, without its
    spelling.
    """
    from chainrule.text.corpus import lines_as_they_come

    with progress() as told:
        scorer = opened(model, markers, told)
        shown = silent if sys.stdout.isatty() else told  # a bar among the answers would spoil both
        for block in lines_as_they_come(text, shown, "scoring"):
            for sentence in _scored(scorer, block):
                if json:
                    print_json(sentence.as_json(tokens=tokens))
                elif tokens:
                    print(sentence.token_lines())
                else:
                    print(sentence.line())
            sys.stdout.flush()


@dataclass(frozen=True)
class _Sentence:
    text: str
    log_probs: Float32[ndarray, " tokens"]  # </s> included
    known: Bool[ndarray, " tokens"]
    encoded: Encoded
    first: int  # its first token in `encoded`

    @property
    def log_prob(self) -> float:
        return float(self.log_probs.sum(dtype="float64"))

    @property
    def oov(self) -> int:
        return int((~self.known).sum())

    def surfaces(self) -> list[str]:
        surfaces = [self.encoded.surface(self.first + i).decode() for i in range(len(self.log_probs) - 1)]
        return [*surfaces, "</s>"]

    def line(self) -> str:
        return f"{_number(self.log_prob)}\t{len(self.log_probs)}\t{self.oov}\t{self.text}"

    def token_lines(self) -> str:
        rows = zip(self.log_probs.tolist(), self.surfaces(), self.known.tolist(), strict=True)
        lines = [f"{_number(log_prob)}\t{token}" + ("" if known else "\t<unk>") for log_prob, token, known in rows]
        return "\n".join(lines) + "\n"

    def as_json(self, *, tokens: bool) -> dict[str, Any]:
        summary = {"text": self.text, "log_prob": finite(self.log_prob), "oov": self.oov}
        if not tokens:
            return {**summary, "tokens": len(self.log_probs)}
        rows = zip(self.surfaces(), self.log_probs.tolist(), self.known.tolist(), strict=True)
        return {**summary, "tokens": [{"token": t, "log_prob": finite(p), "known": known} for t, p, known in rows]}


def _scored(model: Model, block: Block) -> Iterator[_Sentence]:
    from chainrule.protocol import UNKNOWN
    from chainrule.text.vocabulary import MarkerError

    try:
        encoded = model.tokenizer.encode(block.text)
    except MarkerError as error:
        raise error.at(block.source, block.first_line) from None
    known = encoded.ids != UNKNOWN
    first = 0
    for text, log_probs in zip(block.lines(), model.token_scores(encoded.ids), strict=True):
        yield _Sentence(text, log_probs, known[first : first + len(log_probs)], encoded, first)
        first += len(log_probs)


def _number(log_prob: float) -> str:
    return f"{log_prob:.6f}"
