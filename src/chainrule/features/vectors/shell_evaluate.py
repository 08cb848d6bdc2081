"""What `chainrule evaluate` does with word vectors, and how the shell opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.cli.shared.measures import ShellMeasure
from chainrule.cli.shared.models import note_warnings
from chainrule.cli.shared.options import NO_FLAGS, Flags, given_settings
from chainrule.cli.shared.screen import progress_bar
from chainrule.features.vectors.options import VectorsEvaluation

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.cli.shared.measures import Given
    from chainrule.features.vectors.model import WordVectors


def open_vectors(path: Path, progress: Progress) -> WordVectors:
    """Open word vectors, with notes on words of a file that are left out. Raises ModelFormatError, TextError."""
    from chainrule.features.vectors.model import load_vectors

    vectors = load_vectors(path, progress=progress)
    note_warnings(vectors.record, path)
    return vectors


def measure_vectors(model: Path, flags: Any, given: Given) -> None:
    """Measure word vectors and show the result. Raises as `ShellMeasure`."""
    options = given_settings(flags)
    if not options:
        raise CycloptsError(msg=f"{model} holds word vectors; measure them with --similarity or --analogies.")
    given.refuse_texts("--similarity and --analogies", "word vectors")
    from chainrule.features.vectors.evaluate import evaluate_vectors as measure

    VectorsEvaluation(**options)  # raises SettingError, before anything is opened
    with progress_bar() as progress:
        measurement = measure(open_vectors(model, progress), progress=progress, **options)
    given.show.show(measurement)


EVALUATE = ShellMeasure(Flags[VectorsEvaluation], NO_FLAGS, measure_vectors)
