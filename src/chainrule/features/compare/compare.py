"""Comparisons in one table: of given models, of models of all families trained on a text, and of smoothings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.base.options import takes
from chainrule.errors import SettingError
from chainrule.features.compare.config import FamiliesOptions, SmoothingsOptions
from chainrule.features.compare.ladder import Networks, check_families, compare_models, run_ladder
from chainrule.features.compare.smoothings import SmoothingTable, smoothing_table
from chainrule.models.files.opening import load
from chainrule.models.model import Model
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.text.corpus.corpus import Lines, source_of
from chainrule.text.corpus.sample import sample_lines
from chainrule.text.corpus.splits import split, train_and_heldout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.base.progress import Progress
    from chainrule.features.compare.comparison import Comparison
    from chainrule.text.corpus.corpus import Paths, Source

    AnyModel = Model | str | os.PathLike[str]

# The shares of the training text that networks learn from, and that their best weights are chosen by.
_VALIDATED = {"95 %": "19/20", "5 %": "1/20"}
SAMPLE_NAME = "Python's own documentation"


@shows_progress
def compare(
    models: Mapping[str, AnyModel] | Iterable[AnyModel],
    source: Source | Paths,
    *,
    progress: ProgressOption = None,
    ends: bool = True,
) -> Comparison:
    """Measure models on one text, in one table, with paired tests against the best.

    models: by the names that the table shows; or models and paths, with the paths as names. A path is opened only when
    its model is measured. The source is read once for each model. ends: as in `evaluate`. Raises TextError,
    ModelFormatError; SettingError if there is no model.

    good:  print(chainrule.compare(["lm/", "model.arpa"], "heldout.txt"))
    good:  pandas.DataFrame(chainrule.compare({"old": old, "new": new}, "heldout.txt").to_records())
    """
    progress = callback(progress)
    return compare_models(_named(models, progress), source_of(source), progress, ends=ends)


@takes(FamiliesOptions)
def compare_families(options: FamiliesOptions) -> Comparison:
    """Train models of all families on one text, from uniform to a mixture of the best, and measure them on another.

    The options are those of `FamiliesOptions`. Raises TextError, SettingError, EstimationError.
    """
    with showing(options.progress) as progress:
        check_families(options.families, has_minutes=options.minutes is not None)
        train, measured = parts_of(options.source, options.heldout, progress)
        train, networks = with_validation(train, options.minutes, progress)
        return run_ladder(
            train,
            measured,
            order=options.order,
            tokenizer=options.tokenizer,
            markers=options.markers,
            networks=networks,
            families=options.families,
            progress=progress,
        )


@takes(SmoothingsOptions)
def compare_smoothings(options: SmoothingsOptions) -> SmoothingTable:
    """Train n-gram models of every smoothing at every order on one text, and measure them on another.

    The options are those of `SmoothingsOptions`. Raises TextError, SettingError, EstimationError.
    """
    with showing(options.progress) as progress:
        train, measured = parts_of(options.source, options.heldout, progress)
        return smoothing_table(
            train,
            measured,
            smoothings=options.smoothings,
            order=options.order,
            tokenizer=options.tokenizer,
            markers=options.markers,
            progress=progress,
        )


def parts_of(
    source: Source | Paths | None, heldout: Source | Paths | None, progress: Progress
) -> tuple[Source, Source]:
    """Return the text to train on and the text to measure on."""
    whole = Lines(sample_lines(progress), SAMPLE_NAME) if source is None else source_of(source)
    return train_and_heldout(whole, progress) if heldout is None else (whole, source_of(heldout))


def with_validation(train: Source, minutes: float | None, progress: Progress) -> tuple[Source, Networks | None]:
    """Return the text to train on and, if there is time for networks, their budget and validation text."""
    if minutes is None:
        return train, None
    rest, validation = split(train, _VALIDATED, progress).values()
    return rest, Networks(minutes, validation)


def with_names(models: Mapping[str, Any] | Iterable[Any], kind: type) -> list[tuple[str, Any]]:
    """Return models and paths with their names: those in a list are called by their paths, or model 1, 2, ..."""
    if isinstance(models, Mapping):
        return list(models.items())
    return [(f"model {i}" if isinstance(one, kind) else os.fspath(one), one) for i, one in enumerate(models, 1)]


def _named(models: Mapping[str, AnyModel] | Iterable[AnyModel], progress: Progress) -> Iterator[tuple[str, Model]]:
    """Yield models with their names, opened one at a time. Raises SettingError if two have the same name."""
    if isinstance(models, str | os.PathLike | Model):
        raise SettingError("compare takes several models; put a single one in a list")
    pairs = with_names(models, Model)
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingError(f"there are two models called {twice}; expected different names")
    for name, model in pairs:
        yield name, model if isinstance(model, Model) else load(Path(model), Model, progress=progress)
