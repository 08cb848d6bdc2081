"""Pages about who wrote a text: tokens coloured by their ranks, and a quiz for people. They need no other file."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.drawing.pages import render

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABOUT = (
    "The colour of a token says how many tokens the model found likelier in its place. Point at a token for its rank, "
    "its probability and the likeliest ones."
)
# Brown et al. 2020, section 3.9.4 and figure 3.14.
_COMPARISON = (
    "Guessing is right half of the time. People told GPT-3's news articles from real ones in 52 % of the cases on "
    "average, and in 12 % for the article that fooled most of them (Brown et al. 2020, section 3.9.4)."
)


class ShownToken(NamedTuple):
    """before: white space. group: by rank, from 0. title: what is shown to who points at it."""

    before: str
    text: str
    group: int
    title: str


class ShownText(NamedTuple):
    """figures: what is said below the text."""

    tokens: Sequence[ShownToken]
    figures: str


def ranks_page(title: str, groups: Sequence[str], texts: Sequence[ShownText]) -> str:
    """A page with the tokens of texts in colours. groups: what the colours mean."""
    return render("ranks.html.j2", title=title, about=_ABOUT, groups=groups, texts=texts)


def quiz_page(people: Sequence[str], machines: Sequence[str], seed: int) -> str:
    """A page on which a person says of each text, in random order, who wrote it. The key is in the page."""
    texts = [*((text, "p") for text in people), *((text, "m") for text in machines)]
    order = np.random.default_rng(seed).permutation(len(texts)).tolist()
    return render(
        "quiz.html.j2",
        title="Who wrote it?",
        about=f"{len(people)} of these texts are by people, {len(machines)} by a language model. Which?",
        texts=[texts[i][0] for i in order],
        key=base64.b64encode("".join(texts[i][1] for i in order).encode()).decode(),
        comparison=_COMPARISON,
    )
