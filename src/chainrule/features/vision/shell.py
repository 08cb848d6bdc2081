"""chainrule caption MODEL PICTURES: writes captions of pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    TreeFile,
    WholeNumber,
    check_tree,
    file_or_dash,
    given_settings,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import check_read_once
from chainrule.errors import SettingError
from chainrule.features.seq2seq.options import CaptionBeam, CaptionOptions
from chainrule.features.seq2seq.shell_evaluate import target_beam


def caption(
    model: Annotated[Path, Parameter(help="A model folder that train caption wrote.")],
    /,
    *pictures: Annotated[
        str,
        Parameter(
            help="Pictures, folders of them, or .jsonl: image (a path); vectors of pictures, .npy; or - for paths on "
            "standard input, one a line.",
            allow_leading_hyphen=True,
            validator=file_or_dash,
            required=True,
        ),
    ],
    search: Flags[CaptionBeam] = NO_FLAGS,
    nbest: Annotated[
        int, WholeNumber, Parameter(help="Print this many captions of each picture: number ||| caption ||| score.")
    ] = 1,
    options: Flags[CaptionOptions] = NO_FLAGS,
    tree: TreeFile = None,
    paragraph: Annotated[
        Path | None,
        Parameter(
            help="Of one picture: draw where each sentence of its paragraph looks, as a page, .html, or a picture, "
            ".svg or .png."
        ),
    ] = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Write captions of pictures.

        $ chainrule caption captioner/ pictures/ --beam 5

    Prints a line for each picture: its caption, a tab, and its path. With
    --json, each caption with its tokens, scores and attention over the rows
    and columns of the picture, or over its regions; and the sentences of a
    paragraph, each with the probability that none follows.
    """
    from chainrule.drawing.plots import check_picture_target
    from chainrule.features.vision.attend import attend_picture
    from chainrule.features.vision.model import CaptionModel
    from chainrule.features.vision.pictures.captioning import pictures_of, shown_captions
    from chainrule.models.files.opening import load

    if not pictures:
        raise CycloptsError(msg="PICTURES is missing.")
    check_read_once(*pictures)
    if len(pictures) > 1 and (tree is not None or paragraph is not None):
        raise SettingError(f"{_drawn(tree)} of one picture; name a single one")
    given_options = CaptionOptions(**given_settings(options)).given
    beam = target_beam(search, nbest)
    if tree is not None:
        check_tree(tree, overwrite=show.overwrite)
    if paragraph is not None:
        check_picture_target(paragraph, overwrite=show.overwrite)
    show.check()
    number = 0
    with progress_bar() as progress:
        captioner = load(model, CaptionModel, progress=progress)
        tells = captioner.model.network.config.decoder == "hierarchical"
        attends = show.in_rows and captioner.model.network.config.attention != "none"
        with show.showing() as show_one:
            for chunk in pictures_of(captioner, pictures, progress):
                if (tree is not None or paragraph is not None) and (number or len(chunk) > 1):
                    raise SettingError(f"{_drawn(tree)} of one picture; name a single one")
                if tree is not None:
                    captioner.beam_tree(chunk[0][1], beam, **given_options).save(tree, overwrite=show.overwrite)
                written = captioner.caption(
                    [given for _, given in chunk], beam, alignments=attends, progress=progress, **given_options
                )
                if paragraph is not None:
                    text = written[0][0].text
                    drawn = attend_picture({os.fspath(model): captioner}, chunk[0][1], text, unit="sentence")
                    drawn.save(paragraph, overwrite=show.overwrite)
                for (name, given), captions in zip(chunk, written, strict=True):
                    told = show.json and tells and captions
                    sentences = captioner.sentences(given, captions[0].text) if told else None
                    show_one(shown_captions(number, name, captions, nbest, sentences))
                    number += 1
    if not number:
        note("there was no picture to caption")


def _drawn(tree: Path | None) -> str:
    return "--paragraph draws the sentences" if tree is None else "--tree draws the search"
