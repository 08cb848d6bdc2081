"""The tensors of a checkpoint: one file that the first process writes, or a file from each process that shards.

Both are safetensors, so nothing is ever unpickled. Files of shards are written and read by
torch.distributed.checkpoint, whose reader finds the rows that a process needs, however many processes wrote them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Protocol

import torch

from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.storage.safetensors import open_tensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from chainrule.training.sharding import Sharding


_TORCH = 2, 13  # the first version that it is tested with


class SavedTensors(Protocol):
    """Tensors on disk, by name."""

    def whole(self) -> dict[str, Tensor]:
        """All of every tensor. Raises ModelFormatError."""

    def shares(self, sharding: Sharding, sharded_as: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """This process's shares. sharded_as: the parameter of the same shape that a tensor is shared out as; None: it
        is not. All processes must call it. Raises ModelFormatError.
        """


class TensorFile:
    """Whole tensors in one file."""

    def __init__(self, path: Path) -> None:
        """Raises ModelFormatError."""
        self._arrays = open_tensors(path)

    def whole(self) -> dict[str, Tensor]:
        """As `SavedTensors`."""
        return {name: torch.tensor(array) for name, array in self._arrays.items()}

    def shares(self, sharding: Sharding, sharded_as: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """As `SavedTensors`."""
        tensors = {}
        for name, array in self._arrays.items():
            like, whole = sharded_as(name), torch.tensor(array)
            fits = like is not None and like.shape == whole.shape
            tensors[name] = sharding.like(whole, like) if fits and like is not None else whole
        return tensors


class TensorShards:
    """A folder of files, each with the rows of one process."""

    def __init__(self, folder: Path) -> None:
        """Raises SettingError where packages are missing or old."""
        check_packages()
        self._folder = folder

    def whole(self) -> dict[str, Tensor]:
        """As `SavedTensors`."""
        return self._read(lambda name, empty: empty, is_alone=True)

    def shares(self, sharding: Sharding, sharded_as: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """As `SavedTensors`."""

        def template(name: str, empty: Tensor) -> Tensor:
            like = sharded_as(name)
            return empty if like is None or like.shape != empty.shape else torch.empty_like(like, dtype=empty.dtype)

        return self._read(template, is_alone=False)

    def _read(self, template: Callable[[str, Tensor], Tensor], *, is_alone: bool) -> dict[str, Tensor]:
        """template: makes the tensor to read into of a name and an empty tensor of its whole shape, in no memory."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.metadata import TensorStorageMetadata
        from torch.distributed.checkpoint.state_dict_loader import load

        try:
            entries = HuggingFaceStorageReader(str(self._folder)).read_metadata().state_dict_metadata
            tensors = {}
            for name, entry in entries.items():
                assert isinstance(entry, TensorStorageMetadata)  # nothing else was saved
                made = template(name, torch.empty(entry.size, dtype=entry.properties.dtype, device="meta"))
                tensors[name] = torch.empty_like(made, device="cpu") if made.is_meta else made.detach()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch remarks that there is one process, as is_alone says
                load(tensors, storage_reader=HuggingFaceStorageReader(str(self._folder)), no_dist=is_alone)
        except (CheckpointException, OSError, RuntimeError, ValueError, KeyError) as error:
            raise ModelFormatError(f"{self._folder}: cannot be read: {_reason(error)}") from error
        return tensors


def open_saved(path: Path) -> SavedTensors:
    """Raises ModelFormatError; SettingError where a package is missing."""
    return TensorShards(path) if path.is_dir() else TensorFile(path)


def write_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Writes this process's shares of some tensors into a folder. All processes must call it. Raises OutputError."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    from chainrule.training.sharding import Sharding

    memory: set[int] = set()
    tensors = dict(tensors)
    for name, tensor in tensors.items():  # an output may be the embedding, and a file of safetensors has no sharing
        (share,) = Sharding.shares([tensor])
        if share.data_ptr() in memory:
            tensors[name] = tensor.clone()
        memory.add(share.data_ptr())
    try:
        save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except (CheckpointException, OSError, RuntimeError) as error:
        raise OutputError(f"{folder}: cannot be written: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What went wrong, in one line; of several processes, in the first."""
    failures = getattr(error, "failures", None)
    if failures:
        rank, (first, _) = next(iter(failures.items()))
        return f"process {rank}: {_reason(first)}"
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def check_packages() -> None:
    """Raises SettingError where what checkpoints of shards need is missing: safetensors, and a torch that uses it."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < _TORCH:
        raise SettingError(f"shard needs torch {_TORCH[0]}.{_TORCH[1]} or later; this is {torch.__version__}")
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        raise SettingError(
            "shard needs the package safetensors for its checkpoints; install it: pip install safetensors"
        ) from error
