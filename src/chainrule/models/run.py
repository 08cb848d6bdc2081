"""What every training from Python shares: its run, the header of its record, and its file of ids.

A run is given as a TrainingRun, or as its fields in separate arguments (`RunOptions`). The record begins with family,
settings, time, versions and command. The ids of a text go to a file if the text may be larger than memory.
"""

from __future__ import annotations

import datetime
import platform
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.base.arguments import as_path
from chainrule.base.memory import available_memory
from chainrule.base.progress import COMMAND_BEGAN
from chainrule.base.scratch import check_disk_room
from chainrule.errors import OutputError, SettingError
from chainrule.models.progress_line import on_report_of
from chainrule.storage.model_folder import check_folder_name
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.reading import compression_suffix
from chainrule.text.corpus.streams import file_size
from chainrule.training.config import TrainingRun
from chainrule.training.reports import ignore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from _typeshed import DataclassInstance

    from chainrule.base.progress import Progress
    from chainrule.models.run_options import RunOptions
    from chainrule.text.corpus.corpus import Source


def training_run(options: RunOptions, progress: Progress) -> TrainingRun:
    """Return the run given, or one made from the options.

    Without on_report, `progress` shows reports. Raises SettingError. Its minutes begin now or, where a command calls,
    when that began.
    """
    run = options.run
    if run is not None and (given := options.given_for_run):
        raise SettingError(f"run is given, so {' and '.join(given)} cannot be; set its fields instead")
    if run is None:
        run = TrainingRun(
            folder=None if options.folder is None else as_path(options.folder, "folder"),
            resume=options.resume,
            overwrite=options.overwrite,
            on_report=options.on_report or ignore,
        )
    if run.resume and run.overwrite:
        raise SettingError("resume and overwrite are both given; resume to continue the run, overwrite to start again")
    if run.folder is not None:
        check_folder_name(run.folder)
    if run.began is None:
        run = replace(run, began=COMMAND_BEGAN.get() or time.monotonic())
    return run if run.on_report is not ignore else replace(run, on_report=on_report_of(progress))


def record_header(family: str, config: DataclassInstance) -> dict[str, Any]:
    """Return what a record begins with."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    versions = {"chainrule": __version__, "python": platform.python_version(), "numpy": np.__version__}
    return {"family": family, "settings": asdict(config), "trained": now, "versions": versions, "command": sys.argv}


def seconds_since(began: float, learned: Mapping[str, Any]) -> float:
    """Return seconds of a training: since `began`, by `time.perf_counter`, and of its parts before it was resumed.

    learned: the record of its run.
    """
    return time.perf_counter() - began + float(learned.get("earlier_seconds", 0.0))


def digests_read(*records: Mapping[str, Any]) -> list[str]:
    """Return the digests of the texts that models, and the models in them, were trained or tuned on, as far as their
    records say: for the record of what is made of them, as `data_of_models`.
    """
    found: set[str] = set()
    for record in records:
        tuned = record.get("tuned_on", {})
        of_tuned = tuned.get("data", tuned)  # of n-gram models without more around it
        for digests in (record.get("data", {}), of_tuned if isinstance(of_tuned, dict) else tuned):
            found.update(digests.values())
        found.update(record.get("data_of_models", []))
    return sorted(found)


_ID_BYTES = 4
_LEAST_TOKEN_BYTES = 4  # of text, a token and the space after it, in the mean
_EXPANSION = 5  # of a compressed text


@contextmanager
def ids_file(folder: Path | None) -> Iterator[Any]:
    """Yield a file without a name, which vanishes when nothing is mapped from it any more. Raises OutputError.

    It is in the folder or, since a folder is made only when something is saved in it, in the nearest existing parent.
    """
    directory = None if folder is None else next(path for path in (folder, *folder.parents) if path.exists())
    try:
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    except OSError as error:
        raise OutputError(f"{directory or tempfile.gettempdir()}: cannot be written: {error.strerror}") from error
    with file:
        yield file


def may_exceed_memory(source: Source, token_bytes: int) -> bool:
    """Return whether the files of a text are so large that its tokens may need more than half of the memory."""
    available = available_memory()
    if available is None or not isinstance(source, Corpus):
        return False
    size = 0
    for file in (file for files in source.files for file in files):
        size += file_size(file) * (_EXPANSION if compression_suffix(file) else 1)
    return size // _LEAST_TOKEN_BYTES * token_bytes > available // 2


def check_ids_room(tokens: int) -> None:
    """Raise OutputError where the disk has no room for the ids of a text."""
    check_disk_room(_ID_BYTES * tokens, f"a text of about {tokens:,} tokens")
