"""chainrule classify CLASSIFIER [TEXT]: predicts labels of texts or of their words, or measures a classifier."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.cli.shared.measures import Given, ShellMeasure
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import FILE, ModelMarkerRule, Needs, TextFile
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    TextOptions,
    bad_records,
    check_text_target,
    note_repairs,
)
from chainrule.features.classify.shell_columns import LabelField, labelled_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.base.progress import Progress
    from chainrule.base.results import Result
    from chainrule.features.classify.classification import UnitVectors
    from chainrule.features.classify.model import ClassifierModel
    from chainrule.text.tokenization.vocabulary import Markers


def classify(
    model: Annotated[Path, Parameter(help="A folder that chainrule finetune or train classifier wrote.")],
    text: TextFile = "-",
    /,
    *,
    data: Annotated[
        str | None, FILE, Parameter(help="Labelled texts, as for finetune, to measure the classifier on.")
    ] = None,
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
    from chainrule.features.classify.inputs import PAIR_UNITS, config_of, inputs_of
    from chainrule.features.classify.model import ClassifierModel, check_page
    from chainrule.features.classify.results import TextLabels, labels_of
    from chainrule.features.classify.units import unit_kind

    if data is not None and text != "-":
        raise CycloptsError(msg="--data names the texts; leave out TEXT.")
    if page is not None and data is not None:
        raise CycloptsError(msg="--page draws predicted labels; leave out --data.")
    show.check(*(name for name in (text, data) if name is not None))
    if data is not None:
        given = Given((data,), reading, None, markers, ends=True, show=show, flags={})
        measure_classifier(model, LabelFlags(label_field=label_field), given)
        return
    with progress_bar() as progress:
        labeller = open_model(model, None, markers, progress, kind=ClassifierModel)
        kind, unit = inputs_of(labeller.classifier), labeller.classifier.unit
        if kind.inputs is not None:
            if text == "-" or (reading != DEFAULT_READING and unit not in PAIR_UNITS):
                raise CycloptsError(
                    msg=f"This classifier labels {kind.plural}: name a file of them, without options of texts."
                )
            find = unit_kind(unit).find
            if find is not None:
                if page is not None:
                    raise CycloptsError(msg="--page draws labels of graphs and pictures, not boxes; leave it out.")
                found = find.get()(labeller, text, progress)
                show.show_all(one for one in found if show.json or one.records)  # of none, there is no line
                return
            with bad_records(reading, "stop", text) as bad:
                columns = labelled_of(reading, label_field)
                inputs = columns.inputs(kind, text, config_of(labeller.classifier), bad, progress)
            predicted = (
                labeller.classify(inputs) if page is None else labeller.draw(inputs, page, overwrite=show.overwrite)
            )
            show.show_all(labels_of(labeller.classifier, inputs, predicted))
            return
        if page is not None:
            check_page(labeller.classifier, page, overwrite=show.overwrite)
        source = reading.corpus(text)
        shown = silent if sys.stdout.isatty() else progress  # a progress bar would break into the output
        labels = TextLabels(labeller, source, shown)
        show.show_all(labels)
    note_repairs(source)
    for message in labels.notes():
        note(message)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LabelFlags:
    """Where a file of labelled inputs has its labels, for a verb that also reads other files."""

    label_field: LabelField = "label"


def measure_classifier(model: Path, flags: LabelFlags, given: Given) -> None:
    """Show how well a classifier labels the labelled inputs of a file. Raises as `ShellMeasure`."""
    from chainrule.features.classify.inputs import config_of, inputs_of
    from chainrule.features.classify.model import ClassifierModel

    if not given.texts:
        raise CycloptsError(msg="TEXTS is missing.")
    if not given.ends or len(given.texts) > 1:
        raise CycloptsError(
            msg="A classifier is measured on one file of labelled inputs; leave out the options of texts."
        )
    columns = labelled_of(given.reading, flags.label_field)
    with progress_bar() as progress:
        labeller = open_model(model, None, given.markers, progress, kind=ClassifierModel)
        kind, network = inputs_of(labeller.classifier), labeller.classifier
        with bad_records(given.reading, "skip", given.texts[0]) as on_bad:
            examples = columns.read(kind, given.texts[0], network.unit, config_of(network), on_bad, progress)
        result = assess(labeller, examples, progress)
    given.show.show(result)


def assess(model: ClassifierModel, examples: Sequence[Any], progress: Progress) -> Result:
    """Return how well a classifier does, by the kind of its unit. Raises as `ClassifierModel.assess`."""
    from chainrule.features.classify.units import unit_kind

    result: Result = unit_kind(model.classifier.unit).assess(model, examples, progress)
    return result


EVALUATE = ShellMeasure(LabelFlags, LabelFlags(), measure_classifier)


def embed_inputs(
    model: Path,
    name: str,
    output: Path | None,
    given: Mapping[str, Any],
    markers: Markers | None,
    reading: TextOptions,
    *,
    overwrite: bool,
) -> tuple[list[UnitVectors], bool]:
    """Return the vectors of the inputs in a file, or of their units, and whether they are of whole inputs.

    given: options of units and layers, of which there are none. Raises CycloptsError.
    """
    from chainrule.features.classify.inputs import config_of, inputs_of
    from chainrule.features.classify.model import ClassifierModel

    if given:
        raise CycloptsError(msg="A classifier embeds what it labels; leave out the options of units and layers.")
    with progress_bar() as progress:
        embedder = open_model(model, None, markers, progress, kind=ClassifierModel)
        kind = inputs_of(embedder.classifier)
        found: list[UnitVectors] = []
        if kind.inputs is None:
            source = reading.corpus(name)
            if output is not None:
                check_text_target(output, source, overwrite=overwrite)
            for block in source.blocks(progress, "embedding"):
                found += embedder.embed_units(block.documents())
        elif name == "-" or reading != DEFAULT_READING:
            raise CycloptsError(msg=f"This classifier reads {kind.plural}: name a file of them, without text options.")
        else:
            if output is not None:
                check_text_target(output, None, overwrite=overwrite)
            found = embedder.embed_units(kind.inputs(name, config_of(embedder.classifier), progress))
        return found, embedder.classifier.unit == kind.units[0]
