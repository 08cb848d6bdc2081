"""chainrule inspect: a page of what goes on inside a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import Overwrite, WholeNumber
from chainrule.cli.shared.screen import progress_bar


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
        Parameter(
            help="Of a Transformer: replace the output of each part in turn by zeros, or by its mean over the tokens "
            "so far."
        ),
    ] = None,
    patch: Annotated[
        str | None,
        Parameter(
            help="Of a Transformer: replace the output of each part in turn by that for this text, which has as many "
            "tokens.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    answer: Annotated[
        str | None,
        Parameter(
            help="With --remove or --patch: the continuation whose log P is measured; by default the text itself.",
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

    For an LSTM, GRU or simple network: the gates, candidates, cells and hidden
    units of each layer at each token, as heat maps, and single units along the
    text.

    For a Transformer: the effect of its heads and layers. --remove removes each
    in turn, --patch replaces its output by that for another text. The change in
    log P is drawn as a map over layers and heads, and along the text.

    For a network for pictures: the first filters, and for each layer the maps of
    a picture, what its strongest unit sees of it, and the patches of all pictures
    that excite its units most (Zeiler and Fergus 2014). The page is one file and
    works offline.
    """
    from chainrule.features.inspect.inspect import inspect as look_inside
    from chainrule.features.inspect.pages import check_inspection_file, check_page
    from chainrule.models.files.opening import load
    from chainrule.models.model import Model

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
