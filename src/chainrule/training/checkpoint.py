"""Checkpoints: all that a run needs to go on, and its best weights so far.

    checkpoint.json              what was trained how, how far it is, and which files belong to it
    last-<digest>.safetensors    weights, optimiser, average, carried state, random state
    best-<digest>.safetensors    the weights that validated best

Replacing checkpoint.json is the one commit point: a kill at any moment leaves the checkpoint before it whole, or this
one. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from chainrule.base.files import lock_folder, replace_file, sync_folder
from chainrule.errors import ModelFormatError, OutputError
from chainrule.storage.safetensors import file_digest, open_tensors, write_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy import ndarray

FORMAT: Literal[1] = 1
FOLDER, INDEX = "checkpoints", "checkpoint.json"
_ANEW = "begin anew with overwrite=True in place of resume=True"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Data(_Strict):
    """A file of arrays."""

    name: str
    bytes: int
    sha256: str


class Progressed(_Strict):
    """How far a run is. Losses are nats a token."""

    step: int = 0
    steps: int | None = None  # the budget; None while the speed is not known
    batch: int | None = None  # rows
    every: int | None = None  # steps between validations, and the tokens of each; None while there are no steps
    sample: int | None = None
    token_seconds: float | None = None  # of validation, when last measured
    plans: int = 0  # times that the number of steps was set by the clock
    seconds: float = 0.0  # of steps alone
    elapsed: float = 0.0  # seconds of all that was done between them, too
    best: float | None = None
    best_step: int = 0
    since_best: int = 0  # validations
    halved: int = 0  # times that plateau has halved the learning rate
    averaged: int = 0  # weights that the running average has been told
    log_bytes: int = 0


class Checkpoint(_Strict):
    """What checkpoint.json holds."""

    format: Literal[1]
    run: dict[str, Any]  # the settings of network and training, the tokenizer and the text: must be the same to go on
    machine: dict[str, Any]
    progress: Progressed
    files: dict[str, Data]


class Opened(NamedTuple):
    """What a checkpoint holds."""

    entry: Checkpoint
    last: dict[str, ndarray] | None  # None where the file is damaged, and the best is whole
    best: dict[str, ndarray] | None
    damage: str  # to the last


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Data] = {}
        self._best_step = 0

    @property
    def index(self) -> Path:
        return self.folder / INDEX

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other runs out of this folder, and leaves none where nothing was saved. Raises OutputError."""
        made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        with ExitStack() as lock:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock.enter_context(lock_folder(self.folder, wait=False))
            except BlockingIOError as error:
                raise OutputError(
                    f"{self.folder.parent}: another run goes on in this folder; wait for its end, or choose another"
                ) from error
            except OSError as error:
                raise OutputError(f"{self.folder}: cannot be written: {error.strerror}") from error
            try:
                yield
            finally:
                with suppress(OSError):  # those that hold something stay
                    for path in made:
                        path.rmdir()

    def exist(self) -> bool:
        return self.index.exists()

    def has_best(self, step: int) -> bool:
        """Whether the best weights of this step are saved already."""
        return "best" in self._files and self._best_step == step

    def save(
        self,
        run: dict[str, Any],
        machine: dict[str, Any],
        progress: Progressed,
        last: dict[str, ndarray],
        best: dict[str, ndarray] | None,
    ) -> None:
        """best: None where there is none, or where that of before is still the best. Raises OutputError."""
        fresh: list[Path] = []
        files = dict(self._files)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, arrays in (("last", last), ("best", best)):
                if arrays is None:
                    continue
                temporary = self.folder / f".{name}.{secrets.token_hex(4)}.tmp"
                fresh.append(temporary)
                digest = write_tensors(temporary, arrays)
                path = self.folder / f"{name}-{digest[:16]}.safetensors"
                files[name] = Data(name=path.name, bytes=temporary.stat().st_size, sha256=digest)
                fresh.append(path)
                os.replace(temporary, path)
            sync_folder(self.folder)
            entry = Checkpoint(format=FORMAT, run=run, machine=machine, progress=progress, files=files)
            with replace_file(self.index) as file:
                file.write(entry.model_dump_json(indent=2).encode())
        except OSError as error:
            self._remove(fresh)
            raise OutputError(
                f"{self.folder}: the checkpoint of step {progress.step:,} cannot be written: {error.strerror}; "
                f"{self._kept()}"
            ) from error
        except OutputError as error:
            self._remove(fresh)
            raise OutputError(f"{error}; {self._kept()}") from error
        self._files, self._best_step = files, progress.best_step
        self._sweep()

    def _kept(self) -> str:
        if not self.exist():
            return "there is none yet. Make room and begin again"
        return "the one before it is whole. Make room, and go on with resume=True"

    def _remove(self, paths: list[Path]) -> None:
        named = {data.name for data in self._files.values()}
        for path in paths:
            if path.name not in named:
                with suppress(OSError):
                    path.unlink()

    def _sweep(self) -> None:
        """Removes what earlier checkpoints and kills have left."""
        named = {INDEX, *(data.name for data in self._files.values())}
        for path in self.folder.iterdir():
            if path.name not in named:
                with suppress(OSError):
                    path.unlink()

    def open(self) -> Opened:
        """Raises ModelFormatError where neither the last arrays nor the best are whole, or the best are damaged."""
        try:
            entry = Checkpoint.model_validate_json(self.index.read_bytes())
        except OSError as error:
            raise ModelFormatError(f"{self.index}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ModelFormatError(
                f"{self.index}: {place}: {first['msg']}, found {str(first.get('input'))[:80]!r}; this checkpoint is "
                f"damaged, or of another version; {_ANEW}"
            ) from error
        if "last" not in entry.files:
            raise ModelFormatError(f"{self.index}: files: there is no last; {_ANEW}")
        best = self._opened(entry.files["best"]) if "best" in entry.files else None
        last, damage = None, ""
        try:
            last = self._opened(entry.files["last"])
        except ModelFormatError as error:
            if best is None:
                raise
            damage = str(error).removesuffix(f"; {_ANEW}")
        self._files, self._best_step = dict(entry.files), entry.progress.best_step
        return Opened(entry, last, best, damage)

    def _opened(self, data: Data) -> dict[str, ndarray]:
        path = self.folder / os.path.basename(data.name)
        try:
            found = file_digest(path)
        except OSError as error:
            raise ModelFormatError(
                f"{path}: cannot be read: {error.strerror}; the checkpoint is incomplete; {_ANEW}"
            ) from error
        if found != data.sha256:
            raise ModelFormatError(
                f"{path}: its SHA-256 is {found}, expected {data.sha256}; the file has changed since it was written; "
                f"{_ANEW}"
            )
        return open_tensors(path)

    def remove(self) -> None:
        """When a run is over, and its model saved; not where another one has begun here since."""
        with suppress(OSError), lock_folder(self.folder, wait=False):
            self.index.unlink()
            self._files = {}
            self._sweep()
            self.folder.rmdir()
