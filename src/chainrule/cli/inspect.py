"""chainrule inspect MODEL INPUT -o PAGE: a network from the inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import Overwrite, WholeNumber
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import count_of, progress_bar

if TYPE_CHECKING:
    from chainrule.api.models.model import Model


def inspect(
    model: Annotated[Path, Parameter(help="A recurrent language model, or a classifier; also a .safetensors file.")],
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
    overwrite: Overwrite = False,
) -> None:
    """Draw the inside of a recurrent network, or of one that reads pictures.

        $ chainrule inspect recurrent/ "the movie was not great" -o gates.html

    Of a text, for each layer of an LSTM, GRU or simple network: what its gates,
    candidates, cells and hidden units are at each token, as heat maps, and
    single units along the text.

    Of pictures, the first filters; and for each layer the maps of a picture,
    what its strongest unit sees of it, and the patches of all pictures that
    excite its units most (Zeiler and Fergus 2014). The page is one file and
    works offline.
    """
    from chainrule.api.models.classifier_model import ClassifierModel
    from chainrule.api.showing.inspect import check_inspection_file, check_page

    if output.suffix.lower() not in (".html", ".json"):
        raise CycloptsError(msg=f"--output {output}: its name must end in .html, or for a text in .json.")
    check_inspection_file(output, overwrite=overwrite)
    with progress_bar() as progress:
        network = open_model(model, None, None, progress)
    if isinstance(network, ClassifierModel) and network.classifier.reads == "picture":
        if unit:
            raise CycloptsError(msg="--unit is for units along a text; of pictures, --units shows the strongest.")
        check_page(output, overwrite=overwrite)
        _inspect_pictures(network, given, output, picture, units, patches, overwrite=overwrite)
        return
    for name, value in (("--picture", picture), ("--patches", patches)):
        if value is not None:
            raise CycloptsError(msg=f"{name} is for networks that read pictures, and {model} reads texts.")
    _inspect_text(network, given, output, units, unit, overwrite=overwrite)


def _inspect_text(
    network: Model, text: str, output: Path, units: int | None, unit: tuple[int, ...], *, overwrite: bool
) -> None:
    """Raises SettingError, OutputError."""
    from chainrule.api.showing.inspect import inspect as look_inside

    inside = look_inside(network, text, units=units, only=unit)
    inside.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(inside.layers), 'layer')}, {count_of(len(inside.tokens), 'token')}")


def _inspect_pictures(
    network: Model,
    given: str,
    output: Path,
    picture: str | None,
    units: int | None,
    patches: int | None,
    *,
    overwrite: bool,
) -> None:
    """Raises SettingError, TextError, OutputError."""
    from chainrule.api.models.classifier_model import ClassifierModel
    from chainrule.api.models.model import as_kind
    from chainrule.api.showing.inspect import inspect as look_inside
    from chainrule.applications.classifier_inputs import INPUTS, config_of

    classifier = as_kind(network, ClassifierModel).classifier
    read = INPUTS["picture"].inputs
    assert read is not None
    with progress_bar() as progress:
        pictures = read(given, config_of(classifier), progress)
        inside = look_inside(network, pictures, picture=picture, units=units, patches=patches, progress=progress)
    inside.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(inside.layers), 'layer')}, {count_of(len(pictures), 'picture')}")
