"""The verbs draw, attend and inspect: a network's layers, where it attends, and what goes on inside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.base.files import check_new_file
from chainrule.cli.shared.options import Overwrite, WholeNumber
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
    the token attended to. </s> precedes a text, and also follows it where the
    model reads in both directions. For a seq2seq model, the rows of the
    target are the tokens generated at each step, as in translate --alignments.

    Of models that read trees, TEXT is a tree in brackets, or a file of trees.
    Nodes have the likeliest label, and lines are the wider the more of a node's
    memory its parent keeps; or, of a language model, each node has its bits.

    Of captioners, TEXT is a picture, with a panel for each token of its
    caption: the brighter a place, the more attention it got. --beside adds
    other captioners, such as one of hard attention beside one of soft.

    Of speech models, TEXT is a sound: the likeliest alignment of the characters
    of the text to it, over its spectrogram.

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


def inspect(
    model: Annotated[Path, Parameter(help="A language model, or a classifier; also a .safetensors file.")],
    given: Annotated[
        str,
        Parameter(
            name="INPUT",
            help="A text; for networks that read pictures: a picture, a folder of them, or .jsonl: picture (a path).",
            allow_leading_hyphen=True,
        ),
    ],
    /,
    *,
    output: Annotated[
        Path, Parameter(name=("--output", "-o"), help="The page to write, .html; of a text also all numbers, .json.")
    ],
    units: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Units shown of each layer: of a text 24, those that vary most; of pictures 8, the strongest."),
    ] = None,
    unit: Annotated[
        tuple[int, ...],
        WholeNumber,
        Parameter(help="Of a text: show this unit, by its number from 0; repeat it for several.", negative=()),
    ] = (),
    picture: Annotated[str | None, Parameter(help="The picture whose maps are shown; by default the first.")] = None,
    patches: Annotated[
        int | None, WholeNumber, Parameter(help="Patches of pictures shown of each unit; by default 10.")
    ] = None,
    remove: Annotated[
        Literal["zero", "mean"] | None,
        Parameter(help="Of a Transformer: replace each part in turn by nothing, or by its mean so far."),
    ] = None,
    patch: Annotated[
        str | None,
        Parameter(
            help="Of a Transformer: replace each part in turn by what it is for this text of as many tokens.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    answer: Annotated[
        str | None,
        Parameter(
            help="With --remove or --patch: a continuation, whose log P is watched; by default the text's.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    head: Annotated[
        tuple[str, ...],
        Parameter(
            help="With --remove or --patch: LAYER.HEAD, from 1; repeat it to replace several heads at once, too.",
            negative=(),
        ),
    ] = (),
    overwrite: Overwrite = False,
) -> None:
    """Draw the inside of a recurrent network, a Transformer, or one for pictures.

        $ chainrule inspect recurrent/ "the movie was not great" -o gates.html

    Of a text, for each layer of an LSTM, GRU or simple network: what its gates,
    candidates, cells and hidden units are at each token, as heat maps, and
    single units along the text.

    Of a Transformer, what its heads and layers do: with --remove, each is
    removed in turn, with --patch each is as it is for another text, and the
    change in log P is drawn as a map over layers and heads, and along the text.

    Of pictures, the first filters; and for each layer the maps of a picture,
    what its strongest unit sees of it, and the patches of all pictures that
    excite its units most (Zeiler and Fergus 2014). The page is one file and
    works offline.
    """
    from chainrule.drawing.inspection import check_inspection_file, check_page
    from chainrule.models.files.opening import load
    from chainrule.models.model import Model
    from chainrule.verbs.inspect import inspect as look_inside

    if output.suffix.lower() not in (".html", ".json"):
        raise CycloptsError(msg=f"--output {output}: its name must end in .html, or for a text in .json.")
    check_inspection_file(output, overwrite=overwrite)
    pairs = _heads(head)
    replaces = remove is not None or patch is not None
    if (answer is not None or head) and not replaces:
        raise CycloptsError(msg="--answer and --head are for --remove or --patch; give one of these.")
    if remove is not None and patch is not None:
        raise CycloptsError(msg="Give either --remove or --patch.")
    for name, value in (("--units", units), ("--unit", unit), ("--picture", picture), ("--patches", patches)):
        if replaces and value:
            raise CycloptsError(msg=f"{name} does not go with --remove or --patch; leave it out.")
    with progress_bar() as progress:
        network = load(model, Model, progress=progress)
        options: dict[str, Any] = {"units": units}
        if replaces:
            options = {"remove": remove, "patch": patch, "answer": answer, "heads": pairs}
        elif network.reads_pictures:
            if unit:
                raise CycloptsError(msg="--unit is for units along a text; of pictures, --units shows the strongest.")
            check_page(output, overwrite=overwrite)
            options |= {"picture": picture, "patches": patches}
        else:
            for name, value in (("--picture", picture), ("--patches", patches)):
                if value is not None:
                    raise CycloptsError(msg=f"{name} is for networks that read pictures, and {model} reads texts.")
            options |= {"only": unit}
        inside = look_inside(network, given, progress=progress, **options)
    inside.save(output, overwrite=overwrite)
    print(f"{output}: {inside.contents}")


def _heads(written: tuple[str, ...]) -> list[tuple[int, int]]:
    """Raises CycloptsError."""
    pairs = []
    for text in written:
        layer, dot, head = text.partition(".")
        if not (dot and layer.isdecimal() and head.isdecimal()):
            raise CycloptsError(msg=f"--head {text}: expected LAYER.HEAD, such as 2.1.")
        pairs.append((int(layer), int(head)))
    return pairs


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
    as its blocks; a seq2seq model as encoder and decoder. --show positions
    draws the vectors of positions as a heat map, and the dot products of the
    first with all others. --show sizes draws several models of any family by
    their parameters or n-grams.
    """
    from chainrule.verbs.draw import check_drawing_target, draw_sizes
    from chainrule.verbs.draw import draw as draw_model

    if not models:
        raise CycloptsError(msg="MODEL is missing; name the folder of a model.")
    if show != "sizes" and len(models) > 1:
        raise CycloptsError(msg=f"--show {show} draws one model; {len(models)} are given.")
    check_drawing_target(output, is_diagram=show == "network", overwrite=overwrite)
    drawing = draw_sizes(models) if show == "sizes" else draw_model(models[0], show)
    drawing.save(output, overwrite=overwrite)
    print(f"wrote {output}")
