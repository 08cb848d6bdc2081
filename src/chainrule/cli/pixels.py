"""chainrule pixels PICTURES -o FILE: pictures as lines of text, and lines of text as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import FILE, Overwrite, WholeNumber
from chainrule.cli.shared.screen import progress_bar


def pixels(
    source: Annotated[
        str,
        FILE,
        Parameter(help="Pictures: a folder, .jsonl, .jpg or .png; or a text with a picture a line."),
    ],
    /,
    *,
    output: Annotated[
        Path, Parameter(name=("--output", "-o"), help="A text to write, a picture a line; or a picture to draw, .png.")
    ],
    size: Annotated[
        tuple[int, ...],
        Parameter(
            help="Of a text: height and width that pictures are brought to; one number: both; by default 32.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    columns: Annotated[int | None, WholeNumber, Parameter(help="Of a picture: pixels in a row; by default 32.")] = None,
    levels: Annotated[int, WholeNumber, Parameter(help="Shades of grey.")] = 256,
    overwrite: Overwrite = False,
) -> None:
    """Write pictures as text for language models, or draw such text.

        $ chainrule pixels pictures/ -o pixels.txt --size 8 --levels 4

    Each picture becomes a line: the shades of its pixels, row by row. Any family
    of models learns from it; train grid, with --tokenizer whitespace and
    --columns, reads it as pictures. Bits per token are bits per dimension.

    To a target that ends in .png, lines such as chainrule generate prints are
    drawn as pictures, side by side; --columns says how wide each one is.
    """
    from chainrule.api.texts.data import draw_pixels, write_pixels

    if output.suffix.lower() == ".png":
        if size:
            raise CycloptsError(msg="--size is for writing a text; a picture is drawn with --columns.")
        count = draw_pixels(
            source, output, columns=32 if columns is None else columns, levels=levels, overwrite=overwrite
        )
        print(f"{output}: {count:,} pictures drawn")
        return
    if columns is not None:
        raise CycloptsError(msg="--columns is for drawing a picture; a text is written with --size.")
    if len(size) > 2:
        raise CycloptsError(msg="--size takes one number, or a height and a width.")
    height, width = (size[0], size[-1]) if size else (32, 32)
    with progress_bar() as progress:
        count = write_pixels(
            source, output, size=(height, width), levels=levels, overwrite=overwrite, progress=progress
        )
    print(f"{output}: {count:,} pictures of {height * width:,} pixels each, in {levels} shades")
