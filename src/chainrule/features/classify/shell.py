"""chainrule classify CLASSIFIER [TEXT]: predicts labels of texts or of their words, or measures a classifier."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.base.tables import count_of
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import FILE, ModelMarkerRule, Needs, TextFile
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    LabelField,
    LabelledOptions,
    Strict,
    TextOptions,
    bad_records,
    note_repairs,
)
from chainrule.features.classify.shell_train import assess

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from chainrule.base.progress import Progress
    from chainrule.base.results import Shown
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.text.tokenization.vocabulary import Markers

_AT_ONCE = 64  # pictures in which boxes are found at a time
_PART_BYTES = 1 << 16  # of text, classified at a time


def classify(
    model: Annotated[Path, Parameter(help="A folder that chainrule finetune or train classifier wrote.")],
    text: TextFile = "-",
    /,
    *,
    data: Annotated[
        str | None, FILE, Parameter(help="Labelled texts, as for finetune, to measure the classifier on.")
    ] = None,
    strict: Annotated[Strict, Needs("data")] = False,
    label_field: Annotated[LabelField, Needs("data")] = "label",
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    page: Annotated[
        Path | None,
        Parameter(help="Draw the labelled inputs, too: a page, .html. Of graphs and pictures."),
    ] = None,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Label texts, or each of their words.

        $ chainrule classify classifier/ heldout.txt

    Columns: the label, its probability, the normalised text. A classifier of
    words prints a line for each word as written, and an empty line after each
    text; one of ratings prints the rating of each pair, then both sides; one of
    pixels prints the share of each label, then the name of the picture. One of
    boxes prints a line for each box: label, probability, left, top, right and
    bottom in pixels, the name of the picture. With --json: an object for each
    text, with the probabilities of all labels.
    """
    from chainrule.features.classify.classification import predict_documents
    from chainrule.features.classify.inputs import BOX_UNIT, PAIR_UNITS, config_of, inputs_of, predicts_ratings
    from chainrule.features.classify.model import ClassifierModel, check_page
    from chainrule.features.classify.results import of_input, of_pixels, of_rating, of_units

    if data is not None and text != "-":
        raise CycloptsError(msg="--data names the texts; leave out TEXT.")
    if page is not None and data is not None:
        raise CycloptsError(msg="--page draws predicted labels; leave out --data.")
    show.check(*(name for name in (text, data) if name is not None))
    if data is not None:
        show_accuracy(model, data, markers, reading.labelled(label_field), strict=strict, show=show)
        return
    with progress_bar() as progress:
        labeller = open_model(model, None, markers, progress, kind=ClassifierModel)
        unit: str = labeller.classifier.unit
        kind = inputs_of(labeller.classifier)
        if kind.inputs is not None:
            if text == "-" or (reading != DEFAULT_READING and unit not in PAIR_UNITS):
                raise CycloptsError(
                    msg=f"This classifier labels {kind.plural}: name a file of them, without options of texts."
                )
            if unit == BOX_UNIT:
                if page is not None:
                    raise CycloptsError(msg="--page draws labels of graphs and pictures, not boxes; leave it out.")
                boxes = _boxes(labeller, text, progress)
                show.show_all(own for own in boxes if show.json or own.records)  # of none, there is no line
                return
            columns = reading.labelled(label_field)
            inputs = columns.inputs(kind, text, config_of(labeller.classifier), progress)
            found = labeller.classify(inputs) if page is None else labeller.draw(inputs, page, overwrite=show.overwrite)
            if unit == "pixel":
                pictures = zip(found, inputs, strict=True)
                show.show_all(of_pixels(own, picture.name, picture.pixels.shape[1]) for own, picture in pictures)
            elif predicts_ratings(labeller.classifier):
                show.show_all(map(of_rating, found))
            elif unit != kind.units[0]:
                show.show_all(map(of_units, found, count(1)))
            else:
                show.show_all(of_input(own, "picture" if unit == "picture" else "text") for own in found)
            return
        if page is not None:
            check_page(labeller.classifier, page, overwrite=show.overwrite)
        source = reading.corpus(text)
        empty = ends = total = 0
        shown = silent if sys.stdout.isatty() else progress  # a progress bar would break into the output
        with show.showing() as show_one:
            for block in source.blocks_as_they_come(shown, "classifying"):
                for piece in block.pieces(_PART_BYTES):
                    encoded, documents = labeller.tokenizer.encode_block(piece), piece.documents()
                    ends += sum(_ends_in_label(document, labeller.classifier.labels) for document in documents)
                    for prediction in predict_documents(labeller.classifier, labeller.tokenizer, encoded, documents):
                        total += 1
                        show_one(of_units(prediction, total) if unit == "word" else of_input(prediction))
                        empty += not any(prediction.units)
    note_repairs(source)
    if 2 * ends > total:
        note(
            f"{ends:,} of the {count_of(total, 'text')} end in a tab and a label, which is read as a part of them; "
            f"`chainrule evaluate {model} {text}` reads labelled texts, and measures"
        )
    if empty:
        note(f"{empty:,} of the texts are empty; their labels mean nothing")


def _ends_in_label(document: str, labels: Collection[str]) -> bool:
    """Whether this is a line of a file of labelled texts."""
    _, tab, label = document.rpartition("\t")
    return bool(tab) and label.strip() in labels


def show_accuracy(
    model: Path, data: str, markers: Markers | None, columns: LabelledOptions, *, strict: bool, show: ResultOptions
) -> None:
    """Prints how well a classifier labels the labelled inputs of a file."""
    from chainrule.features.classify.inputs import config_of, inputs_of
    from chainrule.features.classify.model import ClassifierModel

    with progress_bar() as progress:
        labeller = open_model(model, None, markers, progress, kind=ClassifierModel)
        kind, network = inputs_of(labeller.classifier), labeller.classifier
        with bad_records(strict=strict) as on_bad:
            examples = columns.read(kind, data, network.unit, config_of(network), on_bad, progress)
        result = assess(labeller, examples, progress)
    show.show(result)


def _boxes(detector: ClassifierModel, name: str, progress: Progress) -> Iterator[Shown]:
    """The boxes in a picture, or in each of a folder or file of them, found a few pictures at a time."""
    from chainrule.features.classify.results import of_boxes
    from chainrule.features.vision.pictures.labelled import picture_paths
    from chainrule.features.vision.pictures.picture import as_picture

    paths = picture_paths(name)
    for first in range(0, len(paths), _AT_ONCE):
        progress("finding boxes", first, len(paths))
        chosen = paths[first : first + _AT_ONCE]
        found = detector.detect([as_picture(path) for path in chosen], progress=False)
        yield from map(of_boxes, found, chosen)
