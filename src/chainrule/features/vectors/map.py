"""Draws word vectors in two dimensions, as a page of HTML to search and zoom, which needs no other file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.base.arguments import check_least, check_type
from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.pages import render
from chainrule.errors import SettingError
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64
    from numpy import ndarray

    from chainrule.features.vectors.model import WordVectors

_WIDTH, _HEIGHT, _EDGE = 1000.0, 700.0, 30.0


def vector_map_page(title: str, about: str, words: Sequence[str], places: Float64[ndarray, "words 2"]) -> str:
    """Return a self-contained HTML page.

    places: (words, 2), in any unit. words: the most frequent first, drawn on top of the others.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    scaled = (places - low) / np.where(high > low, high - low, 1)
    x = _EDGE + scaled[:, 0] * (_WIDTH - 2 * _EDGE)
    y = _HEIGHT - _EDGE - scaled[:, 1] * (_HEIGHT - 2 * _EDGE)
    points = [{"word": word, "x": float(a), "y": float(b)} for word, a, b in zip(words, x, y, strict=True)]
    return render("vector_map.html.j2", title=title, about=about, points=points, width=_WIDTH, height=_HEIGHT)


Projection = Literal["pca", "tsne"]


def project(
    vectors: Float32[ndarray, "words D"], method: Projection, seed: int
) -> tuple[Float64[ndarray, "words 2"], str]:
    """Return the places of vectors in a plane, (words, 2), and what the plane shows of them, in words.

    pca: the two directions in which they differ most. tsne: neighbours stay neighbours (van der Maaten 2008), by
    scikit-learn. Raises SettingError.
    """
    if method not in ("pca", "tsne"):
        raise SettingError(f"method is {method!r}; expected pca or tsne")
    places, share = _principal_components(vectors)
    if method == "pca":
        return places, f"the two principal components, {share:.0%} of the variance"
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = _neighbour_embedding(vectors, places, perplexity, seed)
    return places, f"t-SNE, perplexity {perplexity:g}: near words are alike; large distances mean nothing"


def _principal_components(vectors: Float32[ndarray, "words D"]) -> tuple[Float64[ndarray, "words 2"], float]:
    """Return places, and their share of the variance."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:2] * np.sign(directions[:2, np.abs(directions[:2]).argmax(axis=1)].diagonal())[:, None]
    places = centred @ directions.T
    if places.shape[1] < 2:
        places = np.concatenate([places, np.zeros((len(places), 2 - places.shape[1]))], axis=1)
    return places, float((lengths[:2] ** 2).sum() / max((lengths**2).sum(), 1e-30))


def _neighbour_embedding(
    vectors: Float32[ndarray, "words D"], start: Float64[ndarray, "words 2"], perplexity: float, seed: int
) -> Float64[ndarray, "words 2"]:
    """Return the places by t-SNE, from a small copy of the start.

    On one thread: its sums, and so its maps, differ with their number.
    """
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("sklearn", "threadpoolctl"):
            raise
        raise SettingError("t-SNE needs scikit-learn: pip install 'chainrule[maps]', or take method='pca'") from error
    small = (start * 1e-4 / max(start[:, 0].std(), 1e-30)).astype(np.float32)
    tsne = TSNE(perplexity=perplexity, init=small, random_state=seed, metric="cosine", n_jobs=1)
    with threadpool_limits(1):
        return tsne.fit_transform(vectors).astype(np.float64)


@shows_progress
def map_vectors(
    vectors: WordVectors,
    path: str | os.PathLike[str],
    *,
    words: int = 1000,
    method: Projection = "pca",
    seed: int = 0,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> int:
    """Write a page that opens without a network or other files; return how many words it shows.

    words: how many of the most frequent to show. method: pca or tsne; tsne needs scikit-learn.
    Raises SettingError, OutputError.

    good:  chainrule.map_vectors(vectors, "map.html", words=500)
    """
    from chainrule.features.vectors.model import WordVectors

    check_type("vectors", vectors, WordVectors)
    target, on_progress = Path(path), callback(progress)
    check_least("words", words, 3)
    check_new_file(target, overwrite=overwrite)
    chosen = vectors.directions[:words]
    if len(chosen) < 3:
        raise SettingError(f"a map needs three words or more, but there are only {len(chosen)} vectors")
    on_progress("drawing the map", 0, None)
    positions, caption = project(chosen, method, seed)
    subtitle = f"The {len(chosen):,} most frequent of {len(vectors):,} words, by {caption}."
    page = vector_map_page("Word vectors", subtitle, vectors.words[: len(chosen)], positions)
    with replace_file(target) as file:
        file.write(page.encode())
    return len(chosen)
