"""The run of a training from Python: a TrainingRun, or its fields as separate arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from chainrule.api.progress_line import on_report_of
from chainrule.errors import SettingError
from chainrule.training.config import TrainingRun
from chainrule.training.reports import ignore

if TYPE_CHECKING:
    import os

    from chainrule.base.progress import Progress
    from chainrule.training.reports import OnReport


class RunOptions(TypedDict, total=False):
    """The fields of a TrainingRun; see there."""

    folder: str | os.PathLike[str] | None
    resume: bool
    overwrite: bool
    on_report: OnReport | None


RUN_OPTIONS = frozenset(RunOptions.__annotations__)


def training_run(run: TrainingRun | None, options: RunOptions, progress: Progress) -> TrainingRun:
    """The run given, or one made from the options. Without on_report, `progress` shows reports. Raises SettingError."""
    if run is not None and options:
        raise SettingError(f"run is given, so {' and '.join(options)} cannot be; set its fields instead")
    if run is None:
        folder = options.get("folder")
        run = TrainingRun(
            folder=None if folder is None else Path(folder),
            resume=options.get("resume", False),
            overwrite=options.get("overwrite", False),
            on_report=options.get("on_report") or ignore,
        )
    if run.resume and run.overwrite:
        raise SettingError("resume and overwrite are both given; resume to continue the run, overwrite to start again")
    return run if run.on_report is not ignore else replace(run, on_report=on_report_of(progress))
