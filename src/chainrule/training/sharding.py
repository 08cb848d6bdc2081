"""Weights, gradients and optimiser states shared out among processes: torch's FSDP2, after ZeRO's third stage.

Each process keeps the rows of every parameter that are its share. Before a block of layers runs, its weights are
gathered; after it ran, they are dropped again; its gradients go to the shares as sums over all processes. Sources:
Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models (2020); Zhao et al., PyTorch
FSDP (2023). This module imports torch.distributed.tensor, which takes a second or two, so import it only to shard.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True)
class Sharding:
    """The processes that share out a network, of which this is the one of `rank`."""

    mesh: DeviceMesh
    rank: int
    number: int

    @classmethod
    def among(cls, rank: int, number: int, device: torch.device) -> Sharding:
        """The mesh is named: without one, FSDP2 takes a GPU where there is one, whatever the device of the run."""
        return cls(init_device_mesh(device.type, (number,)), rank, number)

    def share_out(self, network: nn.Module, blocks: Iterable[nn.Module]) -> None:
        """Keeps this process's share of a network, on the device. blocks: whose weights are gathered together."""
        for module in (*blocks, network):
            fully_shard(module, mesh=self.mesh)
            sharded = cast("FSDPModule", module)
            sharded.set_gradient_divide_factor(1.0)  # sums, not means: the loop divides losses by the step's weight
            sharded.set_force_sum_reduction_for_comms(True)

    @staticmethod
    def drop_gathered(network: nn.Module) -> None:
        """Drops the weights that stay gathered after a forward pass without a backward pass."""
        cast("FSDPModule", network).reshard()

    @staticmethod
    def shares(tensors: Sequence[Tensor]) -> list[Tensor]:
        """This process's rows of some tensors, in the same memory."""
        return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]

    @staticmethod
    def whole(tensor: Tensor) -> Tensor:
        """All rows of a tensor. All processes must call it."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    @staticmethod
    def like(whole: Tensor, sharded: Tensor) -> Tensor:
        """A tensor that every process has as a whole, shared out as another one is."""
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
        """Applies a function to matrices of one shape, each as a whole in one process; returns the shares of results.

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
        """Sends each process its part; returns what the others sent to this one, in their order."""
        received = sent.new_empty(sum(received_sizes))
        dist.all_to_all_single(received, sent, received_sizes, sizes)
        return received
