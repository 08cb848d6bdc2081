"""Draws a map of word vectors in two dimensions, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.vectors.map import Projection, projected, vector_map_page
from chainrule.base.files import check_new_file, replace_file
from chainrule.errors import SettingError

if TYPE_CHECKING:
    import os

    from chainrule.api.vectors.word_vectors import WordVectors


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
    """Writes a page that opens without a network or other files; returns how many words it shows.

    words: how many of the most frequent to show. method: pca or tsne; tsne needs scikit-learn.
    Raises SettingError, OutputError.

    good:  chainrule.map_vectors(vectors, "map.html", words=500)
    """
    target, on_progress = Path(path), callback(progress)
    if words < 3:
        raise SettingError(f"words is {words}; expected 3 or more")
    check_new_file(target, overwrite=overwrite)
    chosen = vectors.directions[:words]
    if len(chosen) < 3:
        raise SettingError(f"a map needs three words or more, but there are only {len(chosen)} vectors")
    on_progress("drawing the map", 0, None)
    positions, caption = projected(chosen, method, seed)
    subtitle = f"The {len(chosen):,} most frequent of {len(vectors):,} words, by {caption}."
    page = vector_map_page("Word vectors", subtitle, vectors.words[: len(chosen)], positions)
    with replace_file(target) as file:
        file.write(page.encode())
    return len(chosen)
