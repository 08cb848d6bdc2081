"""One process or several: torchrun starts them, and each takes its share of the rows of every step."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """How many there are, and which this one is."""

    rank: int = 0
    number: int = 1

    @property
    def is_first(self) -> bool:
        """Only the first process writes files and reports."""
        return self.rank == 0

    def rows(self, batch: int) -> tuple[int, int]:
        """The first row of a batch that is this process's, and the one after its last."""
        return self.rank * batch // self.number, (self.rank + 1) * batch // self.number

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Each becomes the sum of it over all processes; small ones travel together."""
        if self.number == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        place = 0
        for tensor in tensors:
            tensor.copy_(flat[place : place + tensor.numel()].view_as(tensor))
            place += tensor.numel()

    def joined(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, one after the other; every process must have as many."""
        if self.number == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.number)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def agreed(self, number: float) -> float:
        """The first process's number, so that all decide alike."""
        if self.number == 1:
            return number
        told = torch.tensor([number], dtype=torch.float64)
        dist.broadcast(told, 0)
        return float(told)

    def check_batch(self, batch: int, accumulate: int) -> None:
        """Raises SettingError where a batch cannot be shared out."""
        if batch % (self.number * accumulate):
            raise SettingError(
                f"a batch of {batch} rows cannot be shared evenly among {self.number} processes"
                f"{f' in {accumulate} parts each' if accumulate > 1 else ''}; choose a multiple"
            )


def started_here() -> Processes:
    """This process among those that torchrun started, if it did; they are connected when this returns."""
    number = int(os.environ.get("WORLD_SIZE", "1"))
    if number == 1:
        return Processes()
    if not dist.is_initialized():
        dist.init_process_group("cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo")
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return Processes(dist.get_rank(), dist.get_world_size())


def ended() -> None:
    """Lets the other processes go."""
    with suppress(Exception):
        if dist.is_initialized():
            dist.destroy_process_group()
