"""chainrule map VECTORS -o PAGE: draws words in two dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.nearest import VectorsPath
from chainrule.cli.shared.arguments import Overwrite, WholeNumber
from chainrule.cli.shared.screen import progress_bar


def draw_map(
    vectors: VectorsPath,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The page to write: a name that ends in .html.")],
    words: Annotated[int, WholeNumber, Parameter(help="How many words to draw, the most frequent.")] = 1000,
    method: Annotated[
        Literal["pca", "tsne"],
        Parameter(help="pca: the directions of most variance; tsne: keeps neighbours close, by scikit-learn."),
    ] = "pca",
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of t-SNE.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Draw a searchable two-dimensional map of word vectors, as a page.

        $ chainrule map words/ -o map.html

    The page needs no network and no other file.
    """
    from chainrule.api.vectors.map import map_vectors
    from chainrule.api.vectors.word_vectors import load_vectors

    if output.suffix.lower() != ".html":
        raise CycloptsError(msg=f"--output {output}: its name must end in .html.")
    with progress_bar() as progress:
        loaded = load_vectors(vectors, progress=progress)
        shown = map_vectors(
            loaded, output, words=words, method=method, seed=seed, overwrite=overwrite, progress=progress
        )
    print(f"{output}: {shown:,} words")
