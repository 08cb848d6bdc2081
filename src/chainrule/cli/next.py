"""chainrule next MODEL PROMPT: the next-token distribution."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.models import opened
from chainrule.cli.screen import print_json, progress
from chainrule.drawing.glyphs import legible
from chainrule.report.tables import text_table


def next_tokens(
    model: ModelPath,
    prompt: Annotated[
        str, Parameter(help="The text so far; empty for the start of a line.", allow_leading_hyphen=True)
    ] = "",
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show.")] = 10,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """The likeliest next tokens after a prompt, best first.

    </s> is the end of the line, <unk> all unknown tokens together.
    ￭ marks the side on which a token touches its neighbour. Of characters, · is
    the space, ¶ the end of a line and → a tab; --json has them as --ban takes them.
    """
    with progress() as told:
        pairs = opened(model, tokenizer, markers, told).next(prompt, top)
    if json:
        rows = [{"token": token, "prob": prob, "log_prob": math.log(prob)} for token, prob in pairs]
        print_json(rows)
    else:
        table = [[legible(token), f"{prob:.6f}", f"{-math.log2(prob):.2f}"] for token, prob in pairs]
        print(text_table(["token", "probability", "bits"], table))
