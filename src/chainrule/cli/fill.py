"""chainrule fill MODEL "the [MASK] bit the man": the likeliest tokens for a gap, given both sides."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.shared.arguments import Json, ModelMarkerRule, NetworkPath, WholeNumber
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import print_json, progress_bar


def fill(
    model: NetworkPath,
    text: Annotated[str, Parameter(help="A text with one or more masks, each for one token.")],
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens to show for each mask.")] = 5,
    mask: Annotated[str | None, Parameter(help="What marks a gap in the text; by default [MASK].")] = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Fill gaps in a text with the likeliest tokens, given the text on both sides.

        $ chainrule fill masked/ "the [MASK] bit the man"

    For the families masked, masked-recurrent and two-sided; two-sided takes one
    gap at a time. Columns: probability, token; an empty line after each gap.
    """
    from chainrule.api.models.language_models import MaskedModel
    from chainrule.text.tokenization.tokenizer import MASK

    with progress_bar() as progress:
        masked = open_model(model, None, markers, progress, kind=MaskedModel)
        gaps = masked.fill(text, top, mask=MASK if mask is None else mask)
    for gap in gaps:
        if json:
            print_json([{"token": token, "probability": probability} for token, probability in gap])
            continue
        for token, probability in gap:
            print(f"{probability:.6f}\t{token}")
        print()
