"""chainrule caption MODEL PICTURES: writes captions of pictures."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import printable
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    Overwrite,
    TreeFile,
    WholeNumber,
    check_tree,
    file_or_dash,
    given_settings,
)
from chainrule.cli.shared.screen import finite, note, print_json, progress_bar
from chainrule.cli.shared.texts import check_read_once
from chainrule.errors import SettingError
from chainrule.features.seq2seq.options import CaptionBeam, CaptionOptions
from chainrule.features.seq2seq.shell_evaluate import target_beam

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.vision.model import Caption, CaptionModel, Sentence
    from chainrule.features.vision.pictures.boxes import BoxLabels

_AT_ONCE = 64  # pictures


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
    overwrite: Overwrite = False,
    json: Json = False,
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
    from chainrule.models.files.opening import load

    if not pictures:
        raise CycloptsError(msg="PICTURES is missing.")
    check_read_once(*pictures)
    if len(pictures) > 1 and (tree is not None or paragraph is not None):
        option = "--paragraph draws the sentences" if tree is None else "--tree draws the search"
        raise SettingError(f"{option} of one picture; name a single one")
    given_options = CaptionOptions(**given_settings(options)).given
    beam = target_beam(search, nbest)
    if tree is not None:
        check_tree(tree, overwrite=overwrite)
    if paragraph is not None:
        check_picture_target(paragraph, overwrite=overwrite)
    number = 0
    with progress_bar() as progress:
        captioner = load(model, CaptionModel, progress=progress)
        tells = captioner.model.network.config.decoder == "hierarchical"
        attends = json and captioner.model.network.config.attention != "none"
        for chunk in _chunks(captioner, pictures, progress):
            if tree is not None:
                if number or len(chunk) > 1:
                    raise SettingError("--tree draws the search of one picture; name a single one")
                captioner.beam_tree(chunk[0][1], beam, **given_options).save(tree, overwrite=overwrite)
            if paragraph is not None and (number or len(chunk) > 1):
                raise SettingError("--paragraph draws the sentences of one picture; name a single one")
            written = captioner.caption(
                [given for _, given in chunk], beam, alignments=attends, progress=progress, **given_options
            )
            if paragraph is not None:
                text = written[0][0].text
                drawn = attend_picture({os.fspath(model): captioner}, chunk[0][1], text, unit="sentence")
                drawn.save(paragraph, overwrite=overwrite)
            for (name, given), captions in zip(chunk, written, strict=True):
                sentences = captioner.sentences(given, captions[0].text) if json and tells and captions else None
                _print(number, name, captions, nbest, sentences, json=json)
                number += 1
            sys.stdout.flush()
    if not number:
        note("there was no picture to caption")


def _chunks(captioner: CaptionModel, pictures: Sequence[str], progress: Progress) -> Iterator[list[tuple[str, Any]]]:
    """Pictures, or their vectors, with their names, some at a time. Raises TextError, SettingError."""
    from chainrule.features.vision.picture_encoder import read_vectors
    from chainrule.features.vision.pictures.labelled import picture_paths
    from chainrule.features.vision.pictures.picture import as_picture

    def kind_of(name: str) -> str:
        special = "-" if name == "-" else ".npy" if name.endswith(".npy") else ""
        return "boxes" if captioner.needs_boxes and name != "-" else special

    for kind, names in groupby(pictures, kind_of):
        if kind == "-":
            lines = (line.strip() for line in sys.stdin)
            yield from ([(line, as_picture(line))] for line in lines if line)
        elif kind == "boxes":
            for name in names:
                yield from _with_boxes(name, progress)
        elif kind == ".npy":
            for name in names:
                rows, place = read_vectors(name), f"{name}, row" if len(pictures) > 1 else "row"
                for first in range(0, len(rows), _AT_ONCE):
                    yield [(f"{place} {first + i}", row) for i, row in enumerate(rows[first : first + _AT_ONCE])]
        else:
            paths = [path for name in names for path in picture_paths(name)]
            for first in range(0, len(paths), _AT_ONCE):
                progress("captioning", first, len(paths))
                yield [(path, as_picture(path)) for path in paths[first : first + _AT_ONCE]]


def _with_boxes(pictures: str, progress: Progress) -> Iterator[list[tuple[str, Any]]]:
    """Pictures of a file whose lines have boxes, some at a time. Raises TextError, SettingError."""
    from chainrule.features.vision.pictures.boxes import read_boxes
    from chainrule.features.vision.pictures.captions import CaptionedPicture

    if not pictures.endswith(".jsonl"):
        raise SettingError(f"{pictures}: this model needs the boxes of each picture; name JSON lines with image, boxes")
    read = read_boxes(pictures, progress=progress)
    for first in range(0, len(read), _AT_ONCE):
        chosen = read[first : first + _AT_ONCE]
        yield [
            (item.input.name, CaptionedPicture(item.input, (), item.place, cast("BoxLabels", item.labels)))
            for item in chosen
        ]


def _print(
    number: int, name: str, captions: list[Caption], nbest: int, sentences: list[Sentence] | None, *, json: bool
) -> None:
    """sentences: those of the first caption, if it is a paragraph."""
    if json:
        record: dict[str, Any] = {"picture": name, "captions": [_as_json(one) for one in captions]}
        if sentences is not None:
            record["sentences"] = [one._asdict() for one in sentences]
        print_json(record)
    elif nbest > 1:
        for one in captions:
            print(f"{number} ||| {printable(one.text)} ||| log_prob= {one.log_prob:.4f} ||| {one.score:.4f}")
    else:
        print(f"{printable(captions[0].text) if captions else ''}\t{printable(name)}")


def _as_json(one: Caption) -> dict[str, Any]:
    return {
        "text": one.text,
        "log_prob": finite(one.log_prob),
        "score": finite(one.score),
        "ending": one.ending,
        "tokens": one.tokens,
        "attention": None if one.attention is None else one.attention.round(4).tolist(),
    }
