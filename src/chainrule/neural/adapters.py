"""Low-rank adapters beside the linear layers of a Transformer's blocks: W x + (alpha / r) B A x (LoRA, Hu et al. 2021).

The network stays as it is, in 32 bits or fewer; only A and B are trained, saved and exchanged. Matrices that we hold as
one and others as several (queries, keys and values; a gate and what it multiplies) have an A for each part.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.bfloat16 import widen
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.encoders.blocks import Attention
from chainrule.neural.layers.basic import FeedForward
from chainrule.neural.layers.matrix_products import is_packed, product, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Float
    from numpy import ndarray

    from chainrule.neural.encoders.transformer import Transformer
    from chainrule.neural.network import Network

NAME = "adapter"  # of the attribute of a linear layer
_ENDINGS = (f".{NAME}.a", f".{NAME}.b")


class LowRank(nn.Module):
    """scale B A x, with B = 0 at first, so that the network begins unchanged."""

    def __init__(self, inputs: int, parts: Sequence[int], rank: int, scale: float) -> None:
        """Build A and B. parts: of the rows of the matrix; each has a separate A and B."""
        super().__init__()
        self.parts, self.scale, self.is_on = list(parts), scale, True
        self.a = nn.Parameter(torch.empty(len(parts) * rank, inputs))  # (parts r, K)
        self.b = nn.Parameter(torch.zeros(sum(parts), rank))  # (N, r)
        nn.init.kaiming_uniform_(self.a, math.sqrt(5))

    def forward(self, x: Float[Tensor, "*shape K"]) -> Float[Tensor, "*shape N"]:
        """Return what is added to W x."""
        low = product(x, self.a) * self.scale
        if len(self.parts) == 1:
            return product(low, self.b)
        both = zip(low.chunk(len(self.parts), -1), torch.split(self.b, self.parts), strict=True)
        return torch.cat([product(own, rows) for own, rows in both], -1)

    def whole(self) -> Float[Tensor, "N K"]:
        """Return scale B A."""
        both = zip(self.a.chunk(len(self.parts)), torch.split(self.b, self.parts), strict=True)
        return torch.cat([rows @ own for own, rows in both]).detach() * self.scale


def add_adapters(network: nn.Module, rank: int, scale: float, last: int | None = None) -> None:
    """Put new adapters beside the linear layers; all other weights are frozen.

    last: of so many of the last blocks only. A is drawn from torch's random numbers. Earlier adapters are replaced.
    Raises SettingError if there are no such layers.
    """
    layers = _layers_of(network, last)
    remove_adapters(network)
    network.requires_grad_(False)
    for layer, parts in layers.values():
        adapter = LowRank(layer.in_features, parts, rank, scale)
        setattr(layer, NAME, adapter.to(layer.weight.device))
    _forget_reader(network)


def _layers_of(network: nn.Module, last: int | None = None) -> dict[str, tuple[nn.Linear, list[int]]]:
    """Return the linear layers that may have adapters, by name, with their parts.

    last: of so many of the last blocks only. Raises SettingError.
    """
    config = cast("Network", network).config
    if not config.blocks:
        raise SettingError(
            "adapters (lora) are for the linear layers of a Transformer's blocks, and this network has none; leave "
            "lora out"
        )
    encoder = cast("Transformer", cast("Network", network).encoder)
    blocks = list(encoder.blocks)
    if last is not None and last > len(blocks):
        raise SettingError(f"lora_layers is {last}, but the network has {len(blocks)} blocks; expected at most that")
    chosen = {id(each) for part in ([encoder] if last is None else blocks[-last:]) for each in part.modules()}
    found: dict[str, tuple[nn.Linear, list[int]]] = {}
    owners = {id(child): owner for owner in network.modules() for child in owner.children()}
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear) and id(module) in chosen:
            found[name] = module, _parts_of(owners[id(module)], module)
    return found


def _parts_of(owner: nn.Module, layer: nn.Linear) -> list[int]:
    """Return the rows of what others hold as separate matrices."""
    if isinstance(owner, Attention) and owner.parts() and layer is owner.query_key_value:
        return owner.parts()
    if isinstance(owner, FeedForward) and layer is owner.up and owner.gated:
        return [layer.out_features // 2] * 2
    return [layer.out_features]


def adapters_of(network: nn.Module) -> dict[str, LowRank]:
    """Return the adapters, by the names of their layers."""
    return {
        name.removesuffix(f".{NAME}"): module for name, module in network.named_modules() if isinstance(module, LowRank)
    }


def adapter_matrices(network: nn.Module) -> list[nn.Parameter]:
    """Return A and B of all adapters."""
    return [weight for adapter in adapters_of(network).values() for weight in (adapter.a, adapter.b)]


def remove_adapters(network: nn.Module) -> None:
    """Remove the adapters, so that the network is as it was before."""
    for name in adapters_of(network):
        delattr(network.get_submodule(name), NAME)
    _forget_reader(network)


def _forget_reader(network: nn.Module) -> None:
    """Let the network find out again whether kernels may read its blocks, since these know no adapters."""
    cast("Transformer", cast("Network", network).encoder).packed = None


@contextmanager
def without_adapters(network: nn.Module) -> Iterator[None]:
    """Let the network compute as without its adapters, and without gradients, inside."""
    adapters = adapters_of(network).values()
    for adapter in adapters:
        adapter.is_on = False
    try:
        yield
    finally:
        for adapter in adapters:
            adapter.is_on = True


def is_of_adapter(name: str) -> bool:
    """Return whether a weight, by its name in a network, is an adapter's."""
    return name.endswith(_ENDINGS)


def learned_state(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights that training changes, by name: those of adapters, if there are some, else all."""
    state = network.state_dict()
    own = {name: tensor for name, tensor in state.items() if is_of_adapter(name)}
    return own or state


def load_learned_state(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Restore what `learned_state` gave. Raises RuntimeError if it is of another network."""
    wanted = learned_state(network)
    if wanted.keys() != state.keys():
        raise RuntimeError(f"it has no weights {sorted(wanted.keys() ^ state.keys())[0]}")
    network.load_state_dict(dict(state), strict=len(wanted) == len(network.state_dict()))


def adapter_arrays(network: nn.Module) -> dict[str, ndarray]:
    """Return A and B of each adapter, by their names in the network."""
    return {
        name: tensor.detach().cpu().float().numpy()
        for name, tensor in network.state_dict().items()
        if is_of_adapter(name)
    }


def attach(network: nn.Module, scale: float, arrays: Mapping[str, ndarray]) -> None:
    """Put saved adapters into a network, which they need not all have. scale: the factor of B A.

    Raises ModelFormatError where names or shapes do not fit the network; SettingError where it has no such layers.
    """
    layers = _layers_of(network)
    names = {name.rpartition(f".{NAME}.")[0] for name in arrays}
    if unknown := sorted(names - layers.keys()):
        raise ModelFormatError(
            f"there is an adapter of {unknown[0]!r}, but the network has no such linear layer; it is for another base"
        )
    adapters: dict[str, LowRank] = {}
    for name in sorted(names):
        layer, parts = layers[name]
        both = [arrays.get(f"{name}.{NAME}.{each}") for each in "ab"]
        a, b = both
        if a is None or b is None:
            raise ModelFormatError(f"the adapter of {name!r} has only one of its two matrices; the file is damaged")
        rank = b.shape[1] if b.ndim == 2 else 0
        if rank and len(a) == rank:
            parts = [layer.out_features]
        if a.ndim != 2 or a.shape != (len(parts) * rank, layer.in_features) or b.shape != (layer.out_features, rank):
            raise ModelFormatError(
                f"the adapter of {name!r} has matrices {list(a.shape)} and {list(b.shape)}, beside one of "
                f"[{layer.out_features}, {layer.in_features}]; they do not fit: it is for another base"
            )
        adapters[name] = adapter = LowRank(layer.in_features, parts, rank, scale)
        for own, array in ((adapter.a, a), (adapter.b, b)):
            numbers = np.ascontiguousarray(widen(array), np.float32)
            if not np.isfinite(numbers).all():
                raise ModelFormatError(f"the adapter of {name!r} holds NaN or infinity; the file is damaged")
            own.data = torch.from_numpy(numbers.copy())
    remove_adapters(network)
    network.requires_grad_(False)
    for name, adapter in adapters.items():
        setattr(layers[name][0], NAME, adapter.eval())
    _forget_reader(network)


def merged_arrays(network: nn.Module, arrays: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """Return the arrays of a network with its adapters added to its matrices, which become float32."""
    merged = {name: array for name, array in arrays.items() if not is_of_adapter(name)}
    for name, adapter in adapters_of(network).items():
        array = merged[f"{name}.weight"]
        weight = torch.from_numpy(np.asarray(widen(array) if array.dtype.kind in "fV" else array, order="C"))
        exact = unpack(weight) if is_packed(weight) else weight.float()
        merged[f"{name}.weight"] = (exact + adapter.whole().cpu()).numpy()
    return merged


def fingerprint(network: nn.Module) -> str:
    """Return a digest that tells bases apart, whether they are quantised or not: of the vectors among their weights."""
    digest = hashlib.sha256()
    for name, weight in network.named_parameters():
        if weight.ndim == 1 and weight.is_floating_point():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(weight.detach().cpu().float().numpy()).data)
    return digest.hexdigest()[:16]


def describe(network: nn.Module, rank: int, scale: float) -> dict[str, Any]:
    """Return, for records, what the adapters of a network are, and the digest of its other weights."""
    adapters = adapters_of(network).values()
    return {
        "rank": rank,
        "alpha": scale * rank,
        "parameters": sum(weight.numel() for adapter in adapters for weight in adapter.parameters()),
        "fingerprint": fingerprint(network),
    }
