"""Checkpoints: all that a run needs to continue, and its best weights so far; and whether a run may resume from one.

    checkpoint.json              settings, progress, and which files belong to this checkpoint
    last-<digest>.safetensors    weights, optimiser, average, carried state, random state
    best-<digest>.safetensors    the weights that validated best

Processes that shard the weights write folders in place of these files: last-<name>/, best-<name>/, a file for each.

Replacing checkpoint.json is the one commit point: after a kill at any moment, this checkpoint is whole or the previous
one. Nothing is ever unpickled. A run may resume only with the same settings and texts.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from chainrule.base.files import lock_folder, read_file, replace_file, sync_folder
from chainrule.errors import ModelFormatError, OutputError, SettingError, os_errors_as
from chainrule.neural.config.network import without_ngram_memory
from chainrule.storage.safetensors import file_digest, write_tensors
from chainrule.training.config import differences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy import ndarray
    from torch import Tensor

    from chainrule.training.config import TrainingRun
    from chainrule.training.distributed import Processes, SavedTensors

FORMAT: Literal[1] = 1
FOLDER, INDEX = "checkpoints", "checkpoint.json"
START_OVER = "start over with overwrite=True in place of resume=True"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class DataFile(_Strict):
    """A file of arrays."""

    name: str
    bytes: int
    sha256: str


class DataFolder(_Strict):
    """A folder of files, each with one process's shares of the arrays."""

    name: str
    files: list[DataFile]


class RunProgress(_Strict):
    """How far a run has come. Losses are nats per token."""

    step: int = 0
    steps: int | None = None  # the budget; None until the speed is known
    batch: int | None = None  # rows
    every: int | None = None  # steps between validations, and tokens in each; None until `steps` is known
    sample: int | None = None
    token_seconds: float | None = None  # for validation, as last measured
    plans: int = 0  # times that the number of steps was set by the clock
    seconds: float = 0.0  # of training steps alone
    elapsed: float = 0.0  # seconds of the whole run, validation and checkpoints included
    total_seconds: float | None = None  # of all its parts, with what came before training; None: `elapsed`
    best: float | None = None  # the lowest criterion, which is the loss unless the objective has another
    best_step: int = 0
    since_best: int = 0  # validations since then
    halved: int = 0  # times that plateau has halved the learning rate
    averaged: int = 0  # weights that the running average has taken in
    log_bytes: int = 0
    before: dict[str, Any] | None = None  # the validation before the first step, of a network that was trained before


class Checkpoint(_Strict):
    """What checkpoint.json holds."""

    format: Literal[1]
    run: dict[str, Any]  # settings of network and training, tokenizer and text: a resumed run must have the same
    machine: dict[str, Any]
    progress: RunProgress
    files: dict[str, DataFile | DataFolder]


class OpenedCheckpoint(NamedTuple):
    """A checkpoint that was read from its folder."""

    entry: Checkpoint
    last: SavedTensors | None  # None if that file is damaged while the best is whole
    best: SavedTensors | None
    damage: str  # what is wrong with the last


class Checkpoints:
    """The checkpoints of one run, in a separate folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, DataFile | DataFolder] = {}
        self._best_step = 0

    @property
    def index(self) -> Path:
        return self.folder / INDEX

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out of this folder; at the end, remove folders that stayed empty. Raises OutputError."""
        created = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        with ExitStack() as lock:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock.enter_context(lock_folder(self.folder, wait=False))
            except BlockingIOError as error:
                raise OutputError(
                    f"{self.folder.parent}: another run is using this folder; wait for its end, or choose another"
                ) from error
            except OSError as error:
                raise OutputError(f"{self.folder}: cannot be written: {error.strerror}") from error
            try:
                yield
            finally:
                with suppress(OSError):  # those that are not empty stay
                    for path in created:
                        path.rmdir()

    def exist(self) -> bool:
        return self.index.exists()

    def network(self) -> dict[str, Any] | None:
        """Return the settings of the run's network; None if there is no checkpoint. Raises ModelFormatError."""
        network = self._entry().run.get("network") if self.exist() else None
        return network if isinstance(network, dict) else None

    def has_best(self, step: int) -> bool:
        """Return whether the best weights, those of this step, are already saved."""
        return "best" in self._files and self._best_step == step

    def save(
        self,
        run: dict[str, Any],
        machine: dict[str, Any],
        progress: RunProgress,
        last: dict[str, ndarray] | DataFolder,
        best: dict[str, ndarray] | DataFolder | None,
    ) -> None:
        """Save a checkpoint.

        best: the best weights; None if there are none, or if the saved ones are still the best. Raises OutputError.
        last, best: arrays, or the folder of them that `write_shards` wrote.
        """
        new: list[Path] = []
        files = dict(self._files)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, arrays in (("last", last), ("best", best)):
                if arrays is None:
                    continue
                if isinstance(arrays, DataFolder):
                    new.append(self.folder / arrays.name)
                    files[name] = arrays
                    continue
                temporary = self.folder / f".{name}.{secrets.token_hex(4)}.tmp"
                new.append(temporary)
                digest = write_tensors(temporary, arrays)
                path = self.folder / f"{name}-{digest[:16]}.safetensors"
                files[name] = DataFile(name=path.name, bytes=temporary.stat().st_size, sha256=digest)
                new.append(path)
                os.replace(temporary, path)
            sync_folder(self.folder)
            entry = Checkpoint(format=FORMAT, run=run, machine=machine, progress=progress, files=files)
            with replace_file(self.index) as file:
                file.write(entry.model_dump_json(indent=2).encode())
        except OSError as error:
            self._remove(new)
            raise OutputError(
                f"{self.folder}: the checkpoint of step {progress.step:,} cannot be written: {error.strerror}; "
                f"{self._what_remains()}"
            ) from error
        except OutputError as error:
            self._remove(new)
            raise OutputError(f"{error}; {self._what_remains()}") from error
        self._files, self._best_step = files, progress.best_step
        self._sweep()

    def write_shards(self, kind: str, tensors: dict[str, Tensor], processes: Processes) -> DataFolder:
        """Write the shares of all processes, for `save` in the first process.

        All processes must call it. Raises OutputError.
        """
        from chainrule.training.distributed import write_shards  # imports torch

        name = f"{kind}-{int(processes.broadcast(float(secrets.randbits(32)))):08x}"
        folder = self.folder / name
        try:
            write_shards(folder, tensors)
            own = sorted(folder.iterdir())[processes.rank :: processes.number]
            digests = [DataFile(name=path.name, bytes=path.stat().st_size, sha256=file_digest(path)) for path in own]
            sync_folder(folder)
        except (OSError, OutputError) as error:
            if processes.is_first:
                self._remove([folder])
            reason = error if isinstance(error, OutputError) else f"{folder}: cannot be written: {error.strerror}"
            raise OutputError(f"{reason}; {self._what_remains()}") from error
        return DataFolder(name=name, files=sorted(processes.collect(digests), key=lambda file: file.name))

    def _what_remains(self) -> str:
        if not self.exist():
            return "there is no earlier one. Make room, and start again"
        return "the one before it is whole. Make room, and continue with resume=True"

    def _remove(self, paths: list[Path]) -> None:
        named = {file.name for file in self._files.values()}
        for path in paths:
            if path.name not in named:
                _delete(path)

    def _sweep(self) -> None:
        """Remove the files of earlier checkpoints and of interrupted saves."""
        named = {INDEX, *(file.name for file in self._files.values())}
        for path in self.folder.iterdir():
            if path.name not in named:
                _delete(path)

    def open(self) -> OpenedCheckpoint:
        """Open the checkpoint.

        Raises ModelFormatError if the best arrays are damaged, or the last ones are and there are no best.
        """
        entry = self._entry()
        if "last" not in entry.files:
            raise ModelFormatError(f"{self.index}: files: expected an entry named last; {START_OVER}")
        best = self._open_saved(entry.files["best"]) if "best" in entry.files else None
        last, damage = None, ""
        try:
            last = self._open_saved(entry.files["last"])
        except ModelFormatError as error:
            if best is None:
                raise
            damage = str(error).removesuffix(f"; {START_OVER}")
        self._files, self._best_step = dict(entry.files), entry.progress.best_step
        return OpenedCheckpoint(entry, last, best, damage)

    def _entry(self) -> Checkpoint:
        """Return what checkpoint.json says. Raises ModelFormatError."""
        try:
            with os_errors_as(ModelFormatError, self.index, "read"):
                entry = Checkpoint.model_validate_json(read_file(self.index))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the file"
            raise ModelFormatError(
                f"{self.index}: {field}: {first['msg']}, found {str(first.get('input'))[:80]!r}; this checkpoint is "
                f"damaged, or of another version; {START_OVER}"
            ) from error
        if "network" in entry.run:
            try:
                entry.run["network"] = without_ngram_memory(entry.run["network"])
            except ModelFormatError as error:
                raise ModelFormatError(f"{self.index}: {error}") from error
        return entry

    def _open_saved(self, saved: DataFile | DataFolder) -> SavedTensors:
        from chainrule.training.distributed import open_saved  # imports torch

        path = self.folder / os.path.basename(saved.name)
        if isinstance(saved, DataFile):
            _check_digest(path, saved)
        else:
            for file in saved.files:
                _check_digest(path / os.path.basename(file.name), file)
        return open_saved(path)

    def remove(self) -> None:
        """Remove the checkpoints of a run whose model is saved, unless another run has started here since."""
        with suppress(OSError), lock_folder(self.folder, wait=False):
            self.index.unlink()
            self._files = {}
            self._sweep()
            self.folder.rmdir()


def _delete(path: Path) -> None:
    """Remove a file or a folder, if that is possible."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _check_digest(path: Path, file: DataFile) -> None:
    """Raise ModelFormatError where a file has changed since it was written."""
    with os_errors_as(ModelFormatError, path, "read", f"the checkpoint is incomplete; {START_OVER}"):
        digest = file_digest(path)
    if digest != file.sha256:
        raise ModelFormatError(
            f"{path}: its SHA-256 is {digest}, expected {file.sha256}; the file has changed since it was written; "
            f"{START_OVER}"
        )


def is_first_process() -> bool:
    """Return whether this process writes files and reports: the only one, or the first that torchrun started."""
    return int(os.environ.get("RANK", "0")) == 0


def is_unfinished(folder: Path) -> bool:
    """Return whether the folder has a checkpoint to resume from."""
    return Checkpoints(folder / FOLDER).exist()


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a run whose model is saved."""
    Checkpoints(folder / FOLDER).remove()


def open_checkpoint(checkpoints: Checkpoints | None, run: TrainingRun) -> OpenedCheckpoint | None:
    """Return the checkpoint to resume from; None for a new run.

    Raises OutputError if neither is allowed; ModelFormatError.
    """
    if checkpoints is None or not checkpoints.exist():
        return None
    if run.resume:
        return checkpoints.open()
    if not run.overwrite:
        raise OutputError(
            f"{run.folder}: an unfinished run is there; continue it with resume=True, or start over with overwrite=True"
        )
    return None


def check_same(folder: Path | None, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise SettingError that names the differences between two runs' settings of network, training and text."""
    families = [settings.get("text", {}).get("family") for settings in (before, now)]
    if families[0] != families[1]:
        raise SettingError(
            f"{folder}: the checkpoint is of family {families[0]}, not {families[1]}; choose another folder"
        )
    different = [text for part in ("network", "training") for text in differences(before.get(part, {}), now[part])]
    different += text_differences(before.get("text", {}), now["text"])
    if different:
        raise SettingError(
            f"{folder}: cannot resume with other settings: {'; '.join(different)}. Set them as before, or start over "
            "with overwrite=True in place of resume=True"
        )


def text_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the differences between the texts of two runs: their settings first, then their contents."""
    digested = ("ids", "tokens", "vocabulary", "validation", "validation_tokens")
    different = differences(
        {name: value for name, value in before.items() if name not in digested},
        {name: value for name, value in now.items() if name not in digested},
    )
    if not different and before.get("ids") != now["ids"]:
        different.append(f"the text has changed ({before.get('tokens', 0):,} tokens, now {now['tokens']:,})")
    if not different and before.get("validation") != now["validation"]:
        was, becomes = (f"{text.get('validation_tokens') or 0:,}" for text in (before, now))
        different.append(f"the validation text has changed ({was} tokens, now {becomes})")
    return different
