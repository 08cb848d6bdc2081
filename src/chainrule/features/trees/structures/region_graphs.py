"""Graphs of the regions of a picture, such as superpixels: a node for each region, an edge where two touch.

A network that labels the nodes segments the picture (Liang et al. 2016). Legend: H height, W width, C colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.features.trees.structures.graph import Edge, Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int64, UInt8
    from numpy import ndarray


def grid_regions(height: int, width: int, cell: int) -> Int64[ndarray, "H W"]:
    """Return the number of the square that each pixel is in, row by row. cell: pixels of a side. Raises
    SettingError.
    """
    if cell < 1:
        raise SettingError(f"cell is {cell}; expected 1 or more pixels")
    rows, columns = np.arange(height) // cell, np.arange(width) // cell
    return rows[:, None] * (columns[-1] + 1) + columns


def superpixels(pixels: UInt8[ndarray, "H W C"], count: int = 200, compactness: float = 10.0) -> Int64[ndarray, "H W"]:
    """Return the number of the superpixel that each pixel is in (SLIC, Achanta et al. 2012), by scikit-image.

    count: about how many superpixels. compactness: the weight of nearness in place against nearness in colour. Raises
    SettingError.
    """
    try:
        from skimage.segmentation import slic
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "skimage":
            raise
        raise SettingError("superpixels need scikit-image: pip install 'chainrule[superpixels]'") from error
    if count < 1:
        raise SettingError(f"count is {count}; expected 1 or more superpixels")
    colours = pixels if pixels.shape[2] == 3 else np.repeat(pixels, 3, 2)
    found = slic(colours, n_segments=count, compactness=compactness, start_label=0, channel_axis=-1)
    return np.unique(found, return_inverse=True)[1].reshape(found.shape).astype(np.int64)


def region_graph(
    pixels: UInt8[ndarray, "H W C"],
    regions: Int64[ndarray, "H W"],
    labels: Int64[ndarray, "H W"] | None = None,
    names: Sequence[str] = (),
) -> Graph:
    """Return a graph whose nodes hold the mean colours of a region, its mean row and column, and its share of the
    pixels.

    Numbers are from 0 to 1. An edge `beside` or `below` leads from a region to each that touches it on the right or
    below. regions: as `grid_regions` and `superpixels` give them, from 0 without gaps. labels: of pixels; a region has
    the most frequent label of its pixels. names: of labels. Raises TextError.

    good:  region_graph(pixels, superpixels(pixels))
    """
    height, width, colours = pixels.shape
    _check_shapes(pixels, regions, labels)
    flat, count = regions.ravel(), int(regions.max()) + 1
    sizes = np.bincount(flat, minlength=count)
    if not sizes.all():
        raise TextError(f"region {int(np.argmin(sizes))} has no pixel; expected numbers from 0 without gaps")
    rows, columns = (np.indices((height, width)) + 0.5).reshape(2, -1)
    values = [*(pixels.reshape(-1, colours).T / 255), rows / height, columns / width]
    means = [np.bincount(flat, weights=value, minlength=count) / sizes for value in values]
    numbers = np.stack([*means, sizes / flat.size], 1).astype(np.float32)
    edges = [
        Edge(source, target, kind)
        for kind, before, after in (
            ("beside", regions[:, :-1], regions[:, 1:]),
            ("below", regions[:-1], regions[1:]),
        )
        for source, target in _touching(before.ravel(), after.ravel())
    ]
    given: tuple[str, ...] = ()
    if labels is not None:
        table = np.zeros((count, int(labels.max()) + 1), np.int64)
        np.add.at(table, (flat, labels.ravel()), 1)
        given = tuple(names[label] if names else str(label) for label in table.argmax(1).tolist())
    return Graph(tuple(tuple(row) for row in numbers.tolist()), tuple(edges), given)


def _touching(before: Int64[ndarray, " pairs"], after: Int64[ndarray, " pairs"]) -> list[tuple[int, int]]:
    """Return the pairs of different regions, each once."""
    pairs = np.stack((before, after), 1)[before != after]
    return [(source, target) for source, target in np.unique(pairs, axis=0).tolist()]


def _check_shapes(pixels: ndarray, regions: ndarray, labels: ndarray | None) -> None:
    """Raise TextError if regions or labels have another shape than the picture."""
    for name, array in (("regions", regions), ("labels", labels)):
        if array is not None and array.shape != pixels.shape[:2]:
            raise TextError(f"the {name} have the shape {array.shape}, and the picture {pixels.shape[:2]}")
