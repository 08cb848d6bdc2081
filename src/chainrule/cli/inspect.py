"""chainrule inspect MODEL PICTURES -o PAGE: a network that reads pictures, from the inside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Overwrite, WholeNumber
from chainrule.cli.models import open_model
from chainrule.cli.screen import count_of, progress_bar


def inspect(
    model: Annotated[Path, Parameter(help="The folder of a classifier of pictures, or a .safetensors file.")],
    pictures: Annotated[str, Parameter(help="A picture, a folder of them, or .jsonl: picture (a path).")],
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The page to write, .html.")],
    picture: Annotated[str | None, Parameter(help="The picture whose maps are shown; by default the first.")] = None,
    units: Annotated[int, WholeNumber, Parameter(help="Units shown of each layer: those that answer most.")] = 8,
    patches: Annotated[int, WholeNumber, Parameter(help="Patches shown of each unit.")] = 10,
    overwrite: Overwrite = False,
) -> None:
    """Draw the inside of a network that reads pictures.

        $ chainrule inspect network/ pictures/ -o inside.html

    The first filters; and for each layer the maps of a picture, what its
    strongest unit sees of it, and the patches of all pictures that excite
    its units most (Zeiler and Fergus 2014). The page is one file and works
    offline.
    """
    from chainrule.api.classifier_model import ClassifierModel
    from chainrule.api.inspect import check_page
    from chainrule.api.inspect import inspect as look_inside
    from chainrule.applications.labelled_inputs import config_of, inputs_of

    if output.suffix.lower() != ".html":
        raise CycloptsError(msg=f"--output {output}: its name must end in .html.")
    check_page(output, overwrite=overwrite)
    with progress_bar() as progress:
        network = open_model(model, None, None, progress, kind=ClassifierModel)
        read = inputs_of(network.classifier).inputs
        if read is None or network.classifier.reads != "picture":
            raise CycloptsError(
                msg=f"{model} labels {inputs_of(network.classifier).plural}; inspect takes one of pictures."
            )
        given = read(pictures, config_of(network.classifier), progress)
        found = look_inside(network, given, picture=picture, units=units, patches=patches, progress=progress)
    found.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(found.layers), 'layer')}, {count_of(len(given), 'picture')}")
