"""chainrule draw MODEL -o FILE: what a network consists of, its positions, or models by their size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import Overwrite

What = Literal["network", "positions", "sizes"]


def draw(
    *models: Annotated[Path, Parameter(help="The folder of a network; with --show sizes, of several models.")],
    output: Annotated[
        Path,
        Parameter(name=("--output", "-o"), help="The file to write: .svg; positions and sizes also .pdf or .png."),
    ],
    show: Annotated[
        What,
        Parameter(help="network: its layers; positions: the vectors of its positions; sizes: models by size."),
    ] = "network",
    overwrite: Overwrite = False,
) -> None:
    """Draw the layers of a network, with their shapes and numbers of parameters.

        $ chainrule draw transformer/ -o transformer.svg

    A recurrent network is drawn unrolled, with a cell beside it; a Transformer
    as its blocks; a model of pairs as encoder and decoder. --show positions
    draws the vectors of positions as a heat map, and the dot products of the
    first with all others. --show sizes draws several models of any family by
    their parameters or n-grams.
    """
    from chainrule.api.showing.draw import check_drawing_target, draw_sizes
    from chainrule.api.showing.draw import draw as draw_model

    if not models:
        raise CycloptsError(msg="MODEL is missing; name the folder of a model.")
    if show != "sizes" and len(models) > 1:
        raise CycloptsError(msg=f"--show {show} draws one model; {len(models)} are given.")
    check_drawing_target(output, is_diagram=show == "network", overwrite=overwrite)
    drawing = draw_sizes(models) if show == "sizes" else draw_model(models[0], show)
    drawing.save(output, overwrite=overwrite)
    print(f"wrote {output}")
