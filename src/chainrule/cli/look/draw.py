"""The verbs draw, attend and inspect: a network's layers, where it attends, and what goes on inside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import Overwrite, WholeNumber
from chainrule.cli.shared.screen import progress_bar
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
    from chainrule.verbs.attend import AttentionMaps


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
    from chainrule.features.speech.model import hears_sounds
    from chainrule.features.vision.model import captions_pictures
    from chainrule.verbs.attend import check_target

    if captions_pictures(model):
        _draw_caption([model, *beside], text, target, output, overwrite=overwrite)
        return
    if beside:
        raise SettingError("--beside is for captioners; leave it out")
    if hears_sounds(model):
        _draw_sound(model, text, target, output, overwrite=overwrite)
        return
    if output.suffix.lower() not in (".html", ".svg"):
        raise CycloptsError(msg=f"--output {output}: its name must end in .html or .svg.")
    check_target(output, overwrite=overwrite)
    if _reads_trees(model):
        if target is not None:
            raise SettingError(f"{model}: reads one tree; leave out the target, {target!r}")
        _draw_trees(model, text, output, overwrite=overwrite)
        return
    with progress_bar() as progress:
        attention = _maps(model, text, target, progress)
    attention.save(output, overwrite=overwrite)
    count = sum(len(layer.weights) for layer in attention.maps)
    print(f"{output}: {count_of(count, 'map')}")


def _draw_caption(models: list[Path], picture: str, caption: str | None, output: Path, *, overwrite: bool) -> None:
    """Raises ModelFormatError, SettingError, TextError, OutputError."""
    from chainrule.drawing.plots import check_picture_target
    from chainrule.features.vision.model import load_captioner
    from chainrule.verbs.attend import attend_picture

    check_picture_target(output, overwrite=overwrite)
    with progress_bar() as progress:
        named = {os.fspath(path): load_captioner(path, progress=progress) for path in models}
        drawn = attend_picture(named, picture, caption)
    drawn.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(drawn.captions), 'caption')}")


def _draw_sound(path: Path, sound: str, text: str | None, output: Path, *, overwrite: bool) -> None:
    """Raises ModelFormatError, SettingError, TextError, OutputError."""
    from chainrule.drawing.plots import check_picture_target
    from chainrule.features.speech.draw_alignment import attend_sound
    from chainrule.features.speech.model import load_speech

    check_picture_target(output, overwrite=overwrite)
    with progress_bar() as progress:
        drawn = attend_sound(load_speech(path, progress=progress), sound, text)
    drawn.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(drawn.aligned.characters), 'character')}: {drawn.aligned.text}")


def _reads_trees(path: Path) -> bool:
    """Whether this is a language model of trees, or a classifier."""
    from chainrule.storage.model_folder import saved_family

    return saved_family(path) in ("tree", "classifier")


def _draw_trees(path: Path, text: str, output: Path, *, overwrite: bool) -> None:
    """Raises ModelFormatError, SettingError, TextError."""
    from chainrule.features.trees.draw_trees import draw_trees, reads_trees

    with progress_bar() as progress:
        model = open_model(path, None, None, progress)
        if not reads_trees(model):
            raise SettingError(f"{path}: labels no trees, so there is nothing to draw; expected a classifier of trees")
        drawn = draw_trees(model, text)
    drawn.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(drawn.drawings), 'tree')}")


def _maps(path: Path, text: str, target: str | None, progress: Progress) -> AttentionMaps:
    """Raises ModelFormatError, SettingError."""
    from chainrule.features.seq2seq.model import is_seq2seq, load_pairs
    from chainrule.verbs.attend import attend as compute_maps

    if is_seq2seq(path):
        return compute_maps(load_pairs(path), text, target)
    if target is not None:
        raise SettingError(
            f"{path}: a language model reads one text; leave out the target, {target!r}, or give a seq2seq model"
        )
    return compute_maps(open_model(path, None, None, progress), text)


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
    from chainrule.drawing.inspection import check_inspection_file
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.verbs.inspect import check_page

    if output.suffix.lower() not in (".html", ".json"):
        raise CycloptsError(msg=f"--output {output}: its name must end in .html, or for a text in .json.")
    check_inspection_file(output, overwrite=overwrite)
    pairs = _heads(head)
    if (answer is not None or head) and remove is None and patch is None:
        raise CycloptsError(msg="--answer and --head are for --remove or --patch; give one of these.")
    if remove is not None and patch is not None:
        raise CycloptsError(msg="Give either --remove or --patch.")
    with progress_bar() as progress:
        network = open_model(model, None, None, progress)
        if remove is not None or patch is not None:
            from chainrule.verbs.effects import causal_effects

            for name, value in (("--units", units), ("--unit", unit), ("--picture", picture), ("--patches", patches)):
                if value:
                    raise CycloptsError(msg=f"{name} does not go with --remove or --patch; leave it out.")
            effects = causal_effects(
                network, given, remove=remove, patch=patch, answer=answer, heads=pairs, progress=progress
            )
            effects.save(output, overwrite=overwrite)
            print(f"{output}: {effects.finding}")
            return
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


def _heads(written: tuple[str, ...]) -> list[tuple[int, int]]:
    """Raises CycloptsError."""
    pairs = []
    for text in written:
        layer, dot, head = text.partition(".")
        if not (dot and layer.isdecimal() and head.isdecimal()):
            raise CycloptsError(msg=f"--head {text}: expected LAYER.HEAD, such as 2.1.")
        pairs.append((int(layer), int(head)))
    return pairs


def _inspect_text(
    network: Model, text: str, output: Path, units: int | None, unit: tuple[int, ...], *, overwrite: bool
) -> None:
    """Raises SettingError, OutputError."""
    from chainrule.verbs.inspect import inspect as look_inside

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
    from chainrule.features.classify.inputs import INPUTS, config_of
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.models.model import check_kind
    from chainrule.verbs.inspect import inspect as look_inside

    classifier = check_kind(network, ClassifierModel).classifier
    read = INPUTS["picture"].inputs
    assert read is not None
    with progress_bar() as progress:
        pictures = read(given, config_of(classifier), progress)
        inside = look_inside(network, pictures, picture=picture, units=units, patches=patches, progress=progress)
    inside.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(inside.layers), 'layer')}, {count_of(len(pictures), 'picture')}")


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
