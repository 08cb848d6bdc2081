"""How a training from Python goes: a TrainingRun, or its fields given by themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from chainrule.api.progress_line import on_report_of
from chainrule.errors import SettingError
from chainrule.training.options import TrainingRun
from chainrule.training.reports import ignore

if TYPE_CHECKING:
    import os

    from chainrule.base.progress import Progress
    from chainrule.training.reports import OnReport


class RunOptions(TypedDict, total=False):
    """Fields of a TrainingRun. told: its on_report."""

    folder: str | os.PathLike[str] | None
    resume: bool
    overwrite: bool
    told: OnReport | None


RUN_OPTIONS = frozenset(RunOptions.__annotations__)


def training_run(run: TrainingRun | None, options: RunOptions, progress: Progress) -> TrainingRun:
    """One run of both. Where it has no callback for reports, the progress shows them. Raises SettingError."""
    if run is not None and options:
        raise SettingError(f"{' and '.join(options)} are fields of the run that is given; set them there")
    if run is None:
        folder, told = options.get("folder"), options.get("told")
        run = TrainingRun(
            folder=None if folder is None else Path(folder),
            resume=options.get("resume", False),
            overwrite=options.get("overwrite", False),
            on_report=told or ignore,
        )
    if run.resume and run.overwrite:
        raise SettingError("resume goes on with a run and overwrite begins anew; say one of them")
    return run if run.on_report is not ignore else replace(run, on_report=on_report_of(progress))
