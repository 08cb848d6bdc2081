"""chainrule classify CLASSIFIER [TEXT]: the labels of texts, or of their words; or how well they are found."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.progress import silent
from chainrule.cli.arguments import FILE, Json, ModelMarkerRule, TextFile
from chainrule.cli.bad_records import Strict, bad_records
from chainrule.cli.finetune import described, note_unseen
from chainrule.cli.models import opened
from chainrule.cli.screen import note, on_one_line, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs

if TYPE_CHECKING:
    from chainrule.applications.labelling import Predicted

_PART_BYTES = 1 << 16  # of texts that are classified at a time


def classify(
    model: Annotated[Path, Parameter(help="What chainrule finetune wrote.")],
    text: TextFile = "-",
    /,
    *,
    data: Annotated[
        str | None, FILE, Parameter(help="Labelled texts, as for finetune: how well their labels are found is told.")
    ] = None,
    strict: Strict = False,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    json: Json = False,
) -> None:
    """Label texts, or their words.

    Columns: the label; its probability; the text, as normalised. Where words
    are labelled: a line for each, as written, and an empty one after each text. With
    --json: an object for each text, with the probabilities of all labels.
    """
    from chainrule.applications.labelling import predicted_of
    from chainrule.text.labelled import read_labelled

    if data is not None and (text != "-" or reading != AS_USUAL):
        raise CycloptsError(msg="--data has labelled texts of its own; leave TEXT, and how it is read, out.")
    if strict and data is None:
        raise CycloptsError(msg="--strict is for --data.")
    with progress() as told:
        labeller = opened(model, None, markers, told)
        unit = labeller.classifier.unit
        if data is not None:
            with bad_records(strict=strict) as on_bad:
                examples = read_labelled(data, unit, on_bad)
            found = labeller.assess(examples, told)
            if json:
                print_json(found.as_json())
            else:
                print(described(found))
            note_unseen(found)
            return
        source = reading.corpus(text)
        empty = 0
        shown = silent if sys.stdout.isatty() else told  # a bar among the answers would spoil both
        for block in source.blocks_as_they_come(shown, "classifying"):
            for piece in block.pieces(_PART_BYTES):
                encoded = labeller.tokenizer.encode_block(piece)
                for one in predicted_of(labeller.classifier, labeller.tokenizer, encoded, piece.documents()):
                    _print(one, unit == "word", json=json)
                    empty += not any(one.units)
                sys.stdout.flush()
    note_repairs(source)
    if empty:
        note(f"{empty:,} of the texts are empty; what is said of them means nothing")


def _print(one: Predicted, by_word: bool, *, json: bool) -> None:
    if json:
        rows = one.log_probs.tolist()
        shares = [{name: math.exp(share) for name, share in zip(one.labels, row, strict=True)} for row in rows]
        labels = [label for label, _ in one.best]
        if by_word:
            print_json({"words": one.units, "labels": labels, "probabilities": shares})
        else:
            print_json({"text": one.units[0], "label": labels[0], "probabilities": shares[0]})
        return
    for unit, (label, probability) in zip(one.units, one.best, strict=True):
        print(f"{label}\t{probability:.6f}\t{on_one_line(unit)}")
    if by_word:
        print()
