"""One process or several, started by torchrun: each takes its share of the rows of every step."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import Tensor

    from chainrule.training.sharding import Sharding

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The number of processes, and which one this is. sharding: how they share out the weights; None: all have all."""

    rank: int = 0
    number: int = 1
    sharding: Sharding | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    def rows(self, batch: int) -> tuple[int, int]:
        """This process's rows of a batch: the first, and the one after the last."""
        return self.rank * batch // self.number, (self.rank + 1) * batch // self.number

    def turns(self, parts: Iterable[T]) -> Iterator[tuple[T, bool]]:
        """This process's parts of some work, taken in turn, and True.

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
        """Replaces each tensor by its sum over all processes, in one transfer."""
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
        """The rows of all processes, in order; all must have equally many."""
        if self.number == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.number)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def collect(self, values: list[T]) -> list[T]:
        """The values of all processes, in order."""
        if self.number == 1:
            return values
        lists: list[list[T]] = [[] for _ in range(self.number)]
        dist.all_gather_object(lists, values)
        return [value for values in lists for value in values]

    def broadcast(self, value: float) -> float:
        """The first process's value, so that all processes decide alike."""
        if self.number == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(tensor, 0)
        return float(tensor)

    def check_batch(self, batch: int, accumulate: int) -> None:
        """Raises SettingError if a batch does not divide evenly."""
        if batch % (self.number * accumulate):
            raise SettingError(
                f"a batch of {batch} rows cannot be shared evenly among {self.number} processes"
                f"{f' in {accumulate} parts each' if accumulate > 1 else ''}; choose a multiple"
            )


def join_processes() -> Processes:
    """Joins the other processes, if torchrun started any."""
    number = int(os.environ.get("WORLD_SIZE", "1"))
    if number == 1:
        return Processes()
    if not dist.is_initialized():
        dist.init_process_group("cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo")
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return Processes(dist.get_rank(), dist.get_world_size())


def leave_processes() -> None:
    """Ends the connection to the other processes."""
    with suppress(Exception):
        if dist.is_initialized():
            dist.destroy_process_group()
