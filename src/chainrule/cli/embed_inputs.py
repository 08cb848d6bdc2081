"""The vectors of what a classifier labels, for chainrule embed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from chainrule.applications.classification import UnitVectors
    from chainrule.text.tokenization.vocabulary import Markers

DIGITS = 6  # decimals of numbers in JSON


def embed_inputs(
    model: Path, name: str, output: Path | None, markers: Markers | None, reading: TextOptions, *, overwrite: bool
) -> None:
    """Prints or writes the vectors of the inputs in a file, or of their units."""
    from chainrule.api.models.classifier_model import ClassifierModel
    from chainrule.applications.classifier_inputs import config_of, inputs_of

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
    from chainrule.applications.embedding import write_rows
    from chainrule.base.files import replace_file

    if output is None:
        for row in _rows(found, is_whole=is_whole):
            print_json(row)
        return
    with replace_file(output) as file:
        if output.suffix == ".jsonl":
            for row in _rows(found, is_whole=is_whole):
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        else:
            write_rows(file, (own.vectors for own in found))


def _rows(found: Sequence[UnitVectors], *, is_whole: bool) -> Iterator[dict[str, Any]]:
    """Of each input, for JSON."""
    for units, vectors in found:
        rows = vectors.astype(float).round(DIGITS).tolist()
        yield {"input": units[0], "vector": rows[0]} if is_whole else {"units": units, "vectors": rows}
