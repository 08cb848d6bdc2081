"""chainrule classify CLASSIFIER [TEXT]: predicts labels of texts or of their words, or measures a classifier."""

from __future__ import annotations

import json as json_library
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.base.tables import count_of
from chainrule.cli.shared.measures import Given, ShellMeasure
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import FILE, Json, ModelMarkerRule, Needs, Overwrite, TextFile
from chainrule.cli.shared.screen import note, on_one_line, print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    Strict,
    TextOptions,
    bad_records,
    check_text_target,
    note_repairs,
)
from chainrule.features.classify.shell_columns import LabelField, labelled_of
from chainrule.features.classify.shell_train import assess, describe, note_unseen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from chainrule.features.classify.classification import Predicted, UnitVectors
    from chainrule.features.classify.labelled_pairs import Pair
    from chainrule.text.tokenization.vocabulary import Markers

_DIGITS = 6  # decimals of vectors in JSON
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
    overwrite: Overwrite = False,
    json: Json = False,
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
    from chainrule.features.classify.inputs import PAIR_UNITS, config_of, inputs_of
    from chainrule.features.classify.model import ClassifierModel, check_page
    from chainrule.features.classify.units import unit_kind

    if data is not None and text != "-":
        raise CycloptsError(msg="--data names the texts; leave out TEXT.")
    if page is not None and data is not None:
        raise CycloptsError(msg="--page draws predicted labels; leave out --data.")
    if data is not None:
        given = Given((data,), reading, None, markers, ends=True, strict=strict, json=json, flags={})
        measure_classifier(model, LabelFlags(label_field=label_field), given)
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
            labelled = unit_kind(unit)
            if labelled.print_file is not None:
                labelled.print_file.get()(labeller, text, page, progress, json=json)
                return
            columns = labelled_of(reading, label_field)
            inputs = columns.inputs(kind, text, config_of(labeller.classifier), progress)
            found = labeller.classify(inputs) if page is None else labeller.draw(inputs, page, overwrite=overwrite)
            for own, prediction in zip(inputs, found, strict=True):
                if labelled.print_one is not None:
                    labelled.print_one.get()(own, prediction, json=json)
                else:
                    _print(prediction, unit != kind.units[0], json=json, what=kind.field)
            return
        if page is not None:
            check_page(labeller.classifier, page, overwrite=overwrite)
        source = reading.corpus(text)
        empty = ends = total = 0
        shown = silent if sys.stdout.isatty() else progress  # a progress bar would break into the output
        for block in source.blocks_as_they_come(shown, "classifying"):
            for piece in block.pieces(_PART_BYTES):
                encoded, documents = labeller.tokenizer.encode_block(piece), piece.documents()
                ends += sum(_ends_in_label(document, labeller.classifier.labels) for document in documents)
                total += len(documents)
                for prediction in predict_documents(labeller.classifier, labeller.tokenizer, encoded, documents):
                    _print(prediction, unit == "word", json=json)
                    empty += not any(prediction.units)
                sys.stdout.flush()
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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LabelFlags:
    """Where a file of labelled inputs has its labels, for a verb that also reads other files."""

    label_field: LabelField = "label"


def measure_classifier(model: Path, flags: LabelFlags, given: Given) -> None:
    """Prints how well a classifier labels the labelled inputs of a file. Raises as `ShellMeasure`."""
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
        with bad_records(strict=given.strict) as on_bad:
            examples = columns.read(kind, given.texts[0], network.unit, config_of(network), on_bad, progress)
        result = assess(labeller, examples, progress)
    if given.json:
        print_json(result.as_json())
    else:
        print(describe(result))
    note_unseen(result)


EVALUATE = ShellMeasure(LabelFlags, LabelFlags(), measure_classifier)


def print_rating(pair: Pair, prediction: Predicted, *, json: bool) -> None:
    """Prints the predicted rating of a pair."""
    if json:
        print_json({"text": prediction.units[0], "rating": prediction.means[0]})
    else:
        print(f"{prediction.means[0]:.4f}\t{on_one_line(prediction.units[0])}")


def _print(prediction: Predicted, by_word: bool, *, json: bool, what: str = "text") -> None:
    """what: the name of the field that holds an input in JSON."""
    if json:
        rows = prediction.log_probs.tolist()
        shares = [{name: math.exp(share) for name, share in zip(prediction.labels, row, strict=True)} for row in rows]
        labels = [label for label, _ in prediction.best]
        if by_word:
            print_json({"words": prediction.units, "labels": labels, "probabilities": shares})
        else:
            print_json({what: prediction.units[0], "label": labels[0], "probabilities": shares[0]})
        return
    for unit, (label, probability) in zip(prediction.units, prediction.best, strict=True):
        print(f"{label}\t{probability:.6f}\t{on_one_line(unit)}")
    if by_word:
        print()


def embed_inputs(
    model: Path, name: str, output: Path | None, markers: Markers | None, reading: TextOptions, *, overwrite: bool
) -> None:
    """Prints or writes the vectors of the inputs in a file, or of their units."""
    from chainrule.features.classify.inputs import config_of, inputs_of
    from chainrule.features.classify.model import ClassifierModel

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
        _write_units(found, output, is_whole=embedder.classifier.unit == kind.units[0])


def _write_units(found: Sequence[UnitVectors], output: Path | None, *, is_whole: bool) -> None:
    """Raises OutputError."""
    from chainrule.base.files import replace_file
    from chainrule.models.embedding import write_rows

    if output is None:
        for row in _rows(found, is_whole=is_whole):
            print_json(row)
        return
    with replace_file(output) as file:
        if output.suffix == ".jsonl":
            for row in _rows(found, is_whole=is_whole):
                file.write(json_library.dumps(row, ensure_ascii=False).encode() + b"\n")
        else:
            write_rows(file, (own.vectors for own in found))


def _rows(found: Sequence[UnitVectors], *, is_whole: bool) -> Iterator[dict[str, Any]]:
    """A record for each input, for JSON."""
    for units, vectors in found:
        rows = vectors.astype(float).round(_DIGITS).tolist()
        yield {"input": units[0], "vector": rows[0]} if is_whole else {"units": units, "vectors": rows}
