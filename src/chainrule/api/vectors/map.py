"""A map of words: a page of HTML that needs nothing else, to search and to zoom in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.drawing.pages import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

_WIDTH, _HEIGHT, _EDGE = 1000.0, 700.0, 30.0


def vector_map_page(title: str, about: str, words: Sequence[str], places: Float64[ndarray, "words 2"]) -> str:
    """HTML in one piece. places: in any unit. words: the most frequent first; they are written on top of others."""
    low, high = places.min(axis=0), places.max(axis=0)
    scaled = (places - low) / np.where(high > low, high - low, 1)
    x = _EDGE + scaled[:, 0] * (_WIDTH - 2 * _EDGE)
    y = _HEIGHT - _EDGE - scaled[:, 1] * (_HEIGHT - 2 * _EDGE)
    points = [{"word": word, "x": float(a), "y": float(b)} for word, a, b in zip(words, x, y, strict=True)]
    return render("vector_map.html.j2", title=title, about=about, points=points, width=_WIDTH, height=_HEIGHT)
