"""chainrule attend MODEL TEXT [TARGET] -o FILE: where a network attends, as a page or a picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.arguments import Overwrite
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import count_of, progress_bar
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.api.showing.attend import AttentionMaps
    from chainrule.base.progress import Progress


def attend(
    model: Annotated[
        Path, Parameter(help="The folder of a Transformer, of a model of pairs, of one of trees, or of a captioner.")
    ],
    text: Annotated[
        str,
        Parameter(
            help="The text to read; for a model of pairs, the source; for a captioner, a picture.",
            allow_leading_hyphen=True,
        ),
    ],
    target: Annotated[
        str | None,
        Parameter(
            help="For a model of pairs or a captioner: what is written; by default what the model generates.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    output: Annotated[
        Path,
        Parameter(
            name=("--output", "-o"), help="The file to write: a page, .html, or a picture, .svg; of captions also .png."
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
    model reads in both directions. For a model of pairs, the rows of the
    target are the tokens generated at each step, as in translate --alignments.

    Of models that read trees, TEXT is a tree in brackets, or a file of trees.
    Nodes have the likeliest label, and lines are the wider the more of a node's
    memory its parent keeps; or, of a language model, each node has its bits.

    Of captioners, TEXT is a picture, with a panel for each token of its
    caption: the brighter a place, the more attention it got. --beside adds
    other captioners, such as one of hard attention beside one of soft.

    The page is one file and works offline.
    """
    from chainrule.api.seq2seq.caption_model import captions_pictures
    from chainrule.api.showing.attend import check_target

    if captions_pictures(model):
        _draw_caption([model, *beside], text, target, output, overwrite=overwrite)
        return
    if beside:
        raise SettingError("--beside is for models that caption pictures; leave it out")
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
    from chainrule.api.seq2seq.caption_model import load_captioner
    from chainrule.api.showing.attend import attend_picture, check_picture_target

    check_picture_target(output, overwrite=overwrite)
    with progress_bar() as progress:
        named = {os.fspath(path): load_captioner(path, progress=progress) for path in models}
        drawn = attend_picture(named, picture, caption)
    drawn.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(drawn.captions), 'caption')}")


def _reads_trees(path: Path) -> bool:
    """Whether this is a language model of trees, or a classifier."""
    from chainrule.storage.model_folder import saved_family

    return saved_family(path) in ("tree", "classifier")


def _draw_trees(path: Path, text: str, output: Path, *, overwrite: bool) -> None:
    """Raises ModelFormatError, SettingError, TextError."""
    from chainrule.api.showing.draw_trees import draw_trees, reads_trees

    with progress_bar() as progress:
        model = open_model(path, None, None, progress)
        if not reads_trees(model):
            raise SettingError(f"{path}: labels no trees, so there is nothing to draw; expected a classifier of trees")
        drawn = draw_trees(model, text)
    drawn.save(output, overwrite=overwrite)
    print(f"{output}: {count_of(len(drawn.drawings), 'tree')}")


def _maps(path: Path, text: str, target: str | None, progress: Progress) -> AttentionMaps:
    """Raises ModelFormatError, SettingError."""
    from chainrule.api.seq2seq.seq2seq_model import holds_pairs, load_pairs
    from chainrule.api.showing.attend import attend as compute_maps

    if holds_pairs(path):
        return compute_maps(load_pairs(path), text, target)
    if target is not None:
        raise SettingError(
            f"{path}: a language model reads one text; leave out the target, {target!r}, or give a model of pairs"
        )
    return compute_maps(open_model(path, None, None, progress), text)
