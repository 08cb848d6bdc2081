"""chainrule next MODEL PROMPT: the next-token distribution."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter

from chainrule.base.tables import text_table
from chainrule.cli.shared.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.drawing.pages import legible


def next_tokens(
    model: ModelPath,
    prompt: Annotated[
        str, Parameter(help="The text so far; empty for the start of a document.", allow_leading_hyphen=True)
    ] = "",
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show.")] = 10,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """List the likeliest next tokens after a prompt.

        $ chainrule next lm/ "I visited San" --top 5

    </s> is the end of the line, <unk> all unknown tokens together. ￭ marks the
    side on which a token touches its neighbour. · stands for a space, ¶ for the
    end of a line and → for a tab; --json prints the characters themselves, as
    --ban takes them.
    """
    from chainrule.api.models.language_models import CausalModel

    with progress_bar() as progress:
        pairs = open_model(model, tokenizer, markers, progress, kind=CausalModel).next(prompt, top)
    if json:
        rows = [{"token": token, "prob": prob, "log_prob": math.log(prob)} for token, prob in pairs]
        print_json(rows)
    else:
        table = [[legible(token), f"{prob:.6f}", f"{-math.log2(prob):.2f}"] for token, prob in pairs]
        print(text_table(["token", "probability", "bits"], table))
