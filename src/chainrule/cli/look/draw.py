"""The verbs draw and attend: a network's layers, and where it attends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.files import check_new_file
from chainrule.cli.shared.options import Overwrite
from chainrule.cli.shared.screen import progress_bar
from chainrule.errors import SettingError, prefix_errors
from chainrule.kinds import rows


def attend(
    model: Annotated[
        Path,
        Parameter(help="The folder of a Transformer, a seq2seq model, one of trees, a captioner, or a speech model."),
    ],
    text: Annotated[
        str,
        Parameter(
            help="The text to read; for a seq2seq model, the source; for a captioner, a picture; for a speech model, a "
            "sound.",
            allow_leading_hyphen=True,
        ),
    ],
    target: Annotated[
        str | None,
        Parameter(
            help="For a seq2seq model, a captioner or a speech model: what is written; by default what it writes.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    output: Annotated[
        Path,
        Parameter(
            name=("--output", "-o"),
            help="The file to write: a page, .html, or a picture, .svg; of captions and sounds also .png.",
        ),
    ],
    beside: Annotated[
        tuple[Path, ...],
        Parameter(help="Other captioners to draw on the same page.", consume_multiple=True, negative=()),
    ] = (),
    overwrite: Overwrite = False,
) -> None:
    """Draw where a network attends, or what it makes of each node of a tree.

        $ chainrule attend transformer/ "the dog bit the man" -o attention.html

    Each row of a map is a query, the token that attends; each column a key,
    the token attended to. <s> is the beginning of a text, or has the name that
    the model's file gives it; </s> is the end, where the model reads in both
    directions. For a seq2seq model, the rows of the target are the tokens
    generated at each step, as in translate --alignments.

    For models that read trees, TEXT is a tree in brackets, or a file of trees.
    Each node shows its likeliest label, and the width of a line how much of a
    node's memory its parent keeps. For a language model of trees, each node
    shows its surprisal in bits.

    For captioners, TEXT is a picture, with a panel for each token of its
    caption: the brighter a place, the more attention it got. --beside adds
    other captioners, such as one of hard attention beside one of soft.

    For speech models, TEXT is a sound: the picture shows the likeliest
    alignment of the characters of the text to its spectrogram.

    The page is one file and works offline.
    """
    from chainrule.models.files.opening import load
    from chainrule.models.files.recognition import model_class_at
    from chainrule.models.model import Model

    kind: Any = model_class_at(model) or Model
    together = rows("attention beside").get(getattr(kind, "family", ""))
    if beside and together is None:
        raise SettingError("--beside is for captioners; leave it out")
    if output.suffix.lower() not in kind.attention_files:
        *others, last = kind.attention_files
        raise CycloptsError(msg=f"--output {output}: its name must end in {', '.join(others)} or {last}.")
    check_new_file(output, overwrite=overwrite)
    with progress_bar() as progress:
        opened = {os.fspath(path): load(path, kind, progress=progress) for path in (model, *beside)}
        with prefix_errors(str(model)):
            first = opened[os.fspath(model)]
            drawn = first.attention(text, target) if together is None else together.get()(opened, text, target)
    drawn.save(output, overwrite=overwrite)
    print(f"{output}: {drawn.contents}")


What = Literal["network", "positions", "sizes", "learning"]


def draw(
    *models: Annotated[Path, Parameter(help="The folder of a network; with --show sizes or learning, of several.")],
    output: Annotated[
        Path,
        Parameter(name=("--output", "-o"), help="The file to write: .svg; all but network also .pdf or .png."),
    ],
    show: Annotated[
        What,
        Parameter(
            help="network: its layers; positions: the vectors of its positions; sizes: models by size; learning: "
            "losses during training."
        ),
    ] = "network",
    by: Annotated[
        Literal["step", "seconds"] | None,
        Parameter(help="With --show learning: the horizontal axis, by default step."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw the layers of a network, with their shapes and numbers of parameters.

        $ chainrule draw transformer/ -o transformer.svg

    A recurrent network is drawn unrolled, with a cell beside it; a Transformer
    as its blocks; a seq2seq model as encoder and decoder. --show positions
    draws the vectors of positions as a heat map, and the dot products of the
    first with all others. --show sizes draws several models of any family by
    their parameters or n-grams. --show learning draws the training and the
    validation loss of one network or several, from their folders' logs.

        $ chainrule draw lstm/ transformer/ --show learning -o curves.svg
    """
    from chainrule.verbs.draw import check_drawing_target
    from chainrule.verbs.draw import draw as draw_model

    if not models:
        raise CycloptsError(msg="MODEL is missing; name the folder of a model.")
    if by is not None and show != "learning":
        raise CycloptsError(msg="--by is for --show learning; leave it out.")
    several = rows("draw several").get(show)
    if several is None and len(models) > 1:
        raise CycloptsError(msg=f"--show {show} draws one model; {len(models)} are given.")
    check_drawing_target(output, is_diagram=show == "network", overwrite=overwrite)
    options = {} if by is None else {"by": by}
    drawing = draw_model(models[0], cast("Any", show)) if several is None else several.get()(models, **options)
    drawing.save(output, overwrite=overwrite)
    print(f"wrote {output}")
