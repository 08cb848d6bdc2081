"""Comparisons in one table: of given models, of models of all families trained on a text, and of smoothings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.api.models.load_model import load
from chainrule.api.models.model import Model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.comparison.ladder import Networks, compare_models, run_ladder
from chainrule.comparison.smoothings import SmoothingTable, smoothing_table
from chainrule.errors import SettingError
from chainrule.ngram.config import SMOOTHINGS
from chainrule.text.corpus.corpus import Lines, source_of
from chainrule.text.corpus.sample import sample_lines
from chainrule.text.corpus.splits import split, train_and_heldout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.evaluation.comparison import Comparison
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers

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
) -> Comparison:
    """Measures models on one text, in one table, with paired tests against the best.

    models: by the names that the table shows; or models and paths, with the paths as names. A path is opened only when
    its model is measured. The source is read once for each model. Raises TextError, ModelFormatError; SettingError if
    there is no model.

    good:  print(chainrule.compare(["lm/", "model.arpa"], "heldout.txt"))
    good:  pandas.DataFrame(chainrule.compare({"old": old, "new": new}, "heldout.txt").to_records())
    """
    progress = callback(progress)
    return compare_models(_named(models, progress), source_of(source), progress)


@shows_progress
def compare_families(
    source: Source | Paths | None = None,
    heldout: Source | Paths | None = None,
    *,
    order: int = 5,
    minutes: float | None = None,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    progress: ProgressOption = None,
) -> Comparison:
    """Trains models of all families on one text, from uniform to a mixture of the best, and measures them on another.

    source: by default Python's own documentation. heldout: by default a tenth of the source. order: the highest of the
    n-gram models. minutes: the training time of each network; None for no networks and no mixture.
    Raises TextError, SettingError, EstimationError.
    """
    progress = callback(progress)
    train, measured = parts_of(source, heldout, progress)
    train, networks = with_validation(train, minutes, progress)
    return run_ladder(
        train, measured, order=order, tokenizer=tokenizer, markers=markers, networks=networks, progress=progress
    )


@shows_progress
def compare_smoothings(
    source: Source | Paths | None = None,
    heldout: Source | Paths | None = None,
    *,
    smoothings: Sequence[str] = SMOOTHINGS,
    order: int = 5,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    progress: ProgressOption = None,
) -> SmoothingTable:
    """N-gram models of every smoothing at every order, trained on one text and measured on another.

    source, heldout: as in `compare_families`. Raises TextError, SettingError, EstimationError.
    """
    progress = callback(progress)
    train, measured = parts_of(source, heldout, progress)
    return smoothing_table(
        train, measured, smoothings=smoothings, order=order, tokenizer=tokenizer, markers=markers, progress=progress
    )


def parts_of(
    source: Source | Paths | None, heldout: Source | Paths | None, progress: Progress
) -> tuple[Source, Source]:
    """The text to train on and the text to measure on."""
    whole = Lines(sample_lines(progress), SAMPLE_NAME) if source is None else source_of(source)
    return train_and_heldout(whole, progress) if heldout is None else (whole, source_of(heldout))


def with_validation(train: Source, minutes: float | None, progress: Progress) -> tuple[Source, Networks | None]:
    """The text to train on and, if there is time for networks, their budget and validation text."""
    if minutes is None:
        return train, None
    rest, validation = split(train, _VALIDATED, progress).values()
    return rest, Networks(minutes, validation)


def _named(models: Mapping[str, AnyModel] | Iterable[AnyModel], progress: Progress) -> Iterator[tuple[str, Model]]:
    """Models with their names, opened one at a time. Raises SettingError if two have the same name."""
    if isinstance(models, str | os.PathLike | Model):
        raise SettingError("compare takes several models; put a single one in a list")
    if isinstance(models, Mapping):
        pairs = list(models.items())
    else:
        pairs = [
            (f"model {i}" if isinstance(model, Model) else os.fspath(model), model)
            for i, model in enumerate(models, start=1)
        ]
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingError(f"there are two models called {twice}; expected different names")
    for name, model in pairs:
        yield name, model if isinstance(model, Model) else load(Path(model), progress=progress)
