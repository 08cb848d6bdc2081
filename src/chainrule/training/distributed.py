"""Training in several processes, started by torchrun: sharding by FSDP2, and checkpoints, whole or in shards.

Each process takes its share of the rows of every step. Sharded (ZeRO's third stage), it also keeps only its share of
the rows of every parameter, gradient and optimiser state. Before a block of layers runs, its weights are gathered;
after it ran, they are dropped again; its gradients go to the shares as sums over all processes. Sources: Rajbhandari et
al., ZeRO: memory optimizations toward training trillion parameter models (2020); Zhao et al., PyTorch FSDP (2023).

A checkpoint's tensors are one file that the first process writes, or a file from each process that shards. Both are
safetensors, so nothing is ever unpickled. Files of shards are written and read by torch.distributed.checkpoint, whose
reader finds the rows that a process needs, however many processes wrote them. torch.distributed.tensor takes a second
or two to import, so it is imported only to shard.
"""

from __future__ import annotations

import itertools
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import torch
import torch.distributed as dist

from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.storage.safetensors import open_tensors
from chainrule.training.defaults import processes_started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from jaxtyping import Float
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The number of processes, and which one this is.

    sharding: how they share out the weights; None if each has all weights.
    """

    rank: int = 0
    number: int = 1
    sharding: Sharding | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    def rows(self, batch: int) -> tuple[int, int]:
        """Return this process's rows of a batch: the first, and the one after the last."""
        return self.rank * batch // self.number, (self.rank + 1) * batch // self.number

    def turns(self, parts: Iterable[T]) -> Iterator[tuple[T, bool]]:
        """Yield this process's parts of some work, taken in turn, and True.

        Processes that share out weights must call the network equally often: where the last round has no part for this
        one, it gets the first part of that round and False, and its result does not count.
        """
        first, count = None, 0
        for part in parts:
            turn = count % self.number
            if turn == 0:
                first = part
            if turn == self.rank:
                yield part, True
            count += 1
        if self.sharding is not None and first is not None and 0 < count % self.number <= self.rank:
            yield first, False

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one transfer."""
        if self.number == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the rows of all processes, in order; all must have equally many."""
        if self.number == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.number)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def collect(self, values: list[T]) -> list[T]:
        """Return the values of all processes, in order."""
        if self.number == 1:
            return values
        lists: list[list[T]] = [[] for _ in range(self.number)]
        dist.all_gather_object(lists, values)
        return [value for values in lists for value in values]

    def broadcast(self, value: float) -> float:
        """Return the first process's value, so that all processes decide alike."""
        if self.number == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(tensor, 0)
        return float(tensor)

    def check_batch(self, batch: int, accumulate: int) -> None:
        """Raise SettingError if a batch does not divide evenly."""
        if batch % (self.number * accumulate):
            raise SettingError(
                f"a batch of {batch} rows cannot be shared evenly among {self.number} processes"
                f"{f' in {accumulate} parts each' if accumulate > 1 else ''}; choose a multiple"
            )


def join_processes() -> Processes:
    """Join the other processes, if torchrun started any."""
    if processes_started() == 1:
        return Processes()
    if not dist.is_initialized():
        dist.init_process_group("cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo")
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return Processes(dist.get_rank(), dist.get_world_size())


def leave_processes() -> None:
    """End the connection to the other processes."""
    with suppress(Exception):
        if dist.is_initialized():
            dist.destroy_process_group()


@dataclass(frozen=True)
class Sharding:
    """The processes that share out a network; this process is the one of number `rank`."""

    mesh: DeviceMesh
    rank: int
    number: int

    @classmethod
    def among(cls, rank: int, number: int, device: torch.device) -> Sharding:
        """Return the sharding among these processes.

        It names the mesh: without one, FSDP2 takes a GPU where there is one, whatever the device of the run.
        """
        from torch.distributed.device_mesh import init_device_mesh

        return cls(init_device_mesh(device.type, (number,)), rank, number)

    def shard(self, network: nn.Module, blocks: Iterable[nn.Module]) -> None:
        """Keep this process's share of a network, on the device.

        blocks: the layers whose weights are each gathered together.
        """
        from torch.distributed.fsdp import fully_shard

        for module in (*blocks, network):
            fully_shard(module, mesh=self.mesh)
            sharded = cast("FSDPModule", module)
            sharded.set_gradient_divide_factor(1.0)  # sums, not means: the loop divides losses by the step's weight
            sharded.set_force_sum_reduction_for_comms(True)

    @staticmethod
    def drop_gathered(network: nn.Module) -> None:
        """Drop the weights that stay gathered after a forward pass without a backward pass."""
        cast("FSDPModule", network).reshard()

    @staticmethod
    def shares(tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return this process's rows of some tensors, in the same memory."""
        from torch.distributed.tensor import DTensor

        return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]

    @staticmethod
    def whole(tensor: Tensor) -> Tensor:
        """Return all rows of a tensor. All processes must call it."""
        from torch.distributed.tensor import DTensor

        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    @staticmethod
    def like(whole: Tensor, sharded: Tensor) -> Tensor:
        """Return this process's share of a tensor that every process has as a whole, shared out as another tensor
        is.
        """
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(sharded, DTensor):
            return whole
        device = sharded.device_mesh.device_type
        return distribute_tensor(whole.to(device), sharded.device_mesh, sharded.placements, src_data_rank=None)

    def on_whole_matrices(
        self,
        function: Callable[[Float[Tensor, "matrices rows columns"]], Float[Tensor, "matrices rows columns"]],
        shares: Sequence[Float[Tensor, "share columns"]],
        rows: int,
    ) -> list[Float[Tensor, "share columns"]]:
        """Apply a function to matrices of one shape, each as a whole in one process; return the shares of results.

        shares: this process's rows of each matrix. rows: of a whole one. Every process sends its rows of a matrix to
        the one that computes it, and gets its rows of the result back, in one exchange each.
        """
        columns, count = shares[0].shape[1], len(shares)
        share_rows = [len(part) for part in torch.empty(rows).chunk(self.number)]
        share_rows += [0] * (self.number - len(share_rows))
        bounds = [count * process // self.number for process in range(self.number + 1)]
        owned = [last - first for first, last in itertools.pairwise(bounds)]  # matrices of each process
        own_sizes = [matrices * share_rows[self.rank] * columns for matrices in owned]
        other_sizes = [owned[self.rank] * share * columns for share in share_rows]

        parts = self._exchange(torch.cat([share.flatten() for share in shares]), own_sizes, other_sizes)
        matrices = torch.cat(
            [part.view(owned[self.rank], -1, columns) for part in torch.split(parts, other_sizes) if part.numel()]
            or [parts.view(0, rows, columns)],
            dim=1,
        )
        results = function(matrices) if len(matrices) else matrices
        sent = torch.cat([part.flatten() for part in torch.split(results, share_rows, dim=1)])
        returned = self._exchange(sent, other_sizes, own_sizes)
        return list(returned.view(count, share_rows[self.rank], columns).unbind())

    @staticmethod
    def _exchange(sent: Tensor, sizes: list[int], received_sizes: list[int]) -> Tensor:
        """Send each process its part; return what the others sent to this one, in their order."""
        received = sent.new_empty(sum(received_sizes))
        dist.all_to_all_single(received, sent, received_sizes, sizes)
        return received


_TORCH = 2, 13  # the first version that it is tested with


class SavedTensors(Protocol):
    """Tensors on disk, by name."""

    def whole(self) -> dict[str, Tensor]:
        """Return all of every tensor. Raises ModelFormatError."""

    def shares(self, sharding: Sharding, sharded_as: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """Return this process's shares.

        sharded_as: the parameter of the same shape that a tensor is shared out like; None where it is not shared out.
        All processes must call it. Raises ModelFormatError.
        """


class TensorFile:
    """Whole tensors in one file."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises ModelFormatError."""
        self._arrays = open_tensors(path)

    def whole(self) -> dict[str, Tensor]:
        """Implement `SavedTensors.whole`."""
        return {name: torch.tensor(array) for name, array in self._arrays.items()}

    def shares(self, sharding: Sharding, sharded_as: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """Implement `SavedTensors.shares`."""
        tensors = {}
        for name, array in self._arrays.items():
            like, whole = sharded_as(name), torch.tensor(array)
            fits = like is not None and like.shape == whole.shape
            tensors[name] = sharding.like(whole, like) if fits and like is not None else whole
        return tensors


class TensorShards:
    """A folder of files, each with the rows of one process."""

    def __init__(self, folder: Path) -> None:
        """Store the folder. Raises SettingError where packages are missing or old."""
        check_packages()
        self._folder = folder

    def whole(self) -> dict[str, Tensor]:
        """Implement `SavedTensors.whole`."""
        return self._read(lambda name, empty: empty, is_alone=True)

    def shares(self, sharding: Sharding, sharded_as: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """Implement `SavedTensors.shares`."""

        def template(name: str, empty: Tensor) -> Tensor:
            like = sharded_as(name)
            return empty if like is None or like.shape != empty.shape else torch.empty_like(like, dtype=empty.dtype)

        return self._read(template, is_alone=False)

    def _read(self, template: Callable[[str, Tensor], Tensor], *, is_alone: bool) -> dict[str, Tensor]:
        """Read all tensors.

        template: a function that makes the tensor to read into, from a name and an empty tensor of the whole shape that
        takes no memory.
        """
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
    """Open tensors on disk. Raises ModelFormatError; SettingError where a package is missing."""
    return TensorShards(path) if path.is_dir() else TensorFile(path)


def write_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Write this process's shares of some tensors into a folder. All processes must call it. Raises OutputError."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

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
    """Return the reason of an error, in one line; if several processes failed, that of the first."""
    failures = getattr(error, "failures", None)
    if failures:
        rank, (first, _) = next(iter(failures.items()))
        return f"process {rank}: {_reason(first)}"
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def check_packages() -> None:
    """Raise SettingError where what checkpoints of shards need is missing: safetensors, and a torch that uses it."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < _TORCH:
        raise SettingError(f"shard needs torch {_TORCH[0]}.{_TORCH[1]} or later; this is {torch.__version__}")
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        raise SettingError(
            "shard needs the package safetensors for its checkpoints; install it: pip install safetensors"
        ) from error
