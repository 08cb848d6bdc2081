"""chainrule fill MODEL "the [MASK] bit the man": what a network that sees both sides puts into a gap."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, WholeNumber
from chainrule.cli.embed import NetworkPath
from chainrule.cli.models import opened
from chainrule.cli.screen import print_json, progress


def fill(
    model: NetworkPath,
    text: Annotated[str, Parameter(help="A text with one mask or several, each for one token.")],
    /,
    *,
    top: Annotated[int, WholeNumber, Parameter(help="How many tokens are shown for each mask, likeliest first.")] = 5,
    mask: Annotated[str | None, Parameter(help="What stands for a token to be found; [MASK] unless said.")] = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """The likeliest tokens for the gaps of a text, by what stands on both sides.

    For families masked, masked-recurrent and two-sided; the last fills in one
    gap at a time. Columns: probability, token; an empty line after each gap.
    """
    from chainrule.text.masks import MASK

    with progress() as told:
        gaps = opened(model, None, markers, told).fill(text, top, mask=MASK if mask is None else mask)
    for gap in gaps:
        if json:
            print_json([{"token": token, "probability": probability} for token, probability in gap])
            continue
        for token, probability in gap:
            print(f"{probability:.6f}\t{token}")
        print()
