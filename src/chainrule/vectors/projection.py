"""Vectors in two dimensions, to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64
    from numpy import ndarray

Projection = Literal["pca", "tsne"]


def projected(
    vectors: Float32[ndarray, "words D"], method: Projection, seed: int
) -> tuple[Float64[ndarray, "words 2"], str]:
    """Places in a plane, and what it shows of the vectors, in words.

    pca: the two directions in which they differ most. tsne: neighbours stay neighbours (van der Maaten 2008), by
    scikit-learn. Raises SettingError.
    """
    if method == "pca":
        centred = vectors.astype(np.float64) - vectors.mean(axis=0)
        _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
        directions = directions[:2] * np.sign(directions[:2, np.abs(directions[:2]).argmax(axis=1)].diagonal())[:, None]
        places = centred @ directions.T
        if places.shape[1] < 2:
            places = np.concatenate([places, np.zeros((len(places), 2 - places.shape[1]))], axis=1)
        share = (lengths[:2] ** 2).sum() / max((lengths**2).sum(), 1e-30)
        return places, f"the two principal components, {share:.0%} of the variance"
    if method != "tsne":
        raise SettingError(f"method is {method!r}; expected pca or tsne")
    try:
        from sklearn.manifold import TSNE  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise SettingError("t-SNE needs scikit-learn: pip install 'chainrule[maps]', or take method='pca'") from error
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=seed, metric="cosine").fit_transform(vectors)
    return places.astype(np.float64), f"t-SNE, perplexity {perplexity:g}: near ones are alike, far ones say nothing"
