"""Networks with weights in eight bits or fewer: which arrays are packed; the check that these are not trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.base.bfloat16 import widen
from chainrule.errors import SettingError
from chainrule.neural.config.transformer import TransformerConfig
from chainrule.neural.layers.matrix_products import can_pack, is_in_blocks, is_packed, pack, unpack, unpacked_shape
from chainrule.neural.layers.output import FullSoftmax
from chainrule.neural.network import Network
from chainrule.neural.packed.layouts import matrix_of
from chainrule.neural.packed.layouts import pack as pack_in_blocks

if TYPE_CHECKING:
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.base.progress import Progress

    Arrays = dict[str, ndarray]


_ENDS = ("embedding.weight", "output.weight")  # which lose most by rounding, and so never have fewer than eight bits


def packable(network: nn.Module) -> set[str]:
    """Return the names of the weights that may be packed: those that are used only by products and look-ups that know
    int8.

    They are the matrices of a Transformer and the vectors of tokens; none of any other network.
    """
    if not (isinstance(network, Network) and isinstance(network.config, TransformerConfig)):
        return set()
    if not isinstance(network.output, FullSoftmax):
        return set()
    ends = [network.embedding.weight, network.output.weight]
    if network.output.transform is not None:
        ends += [weight for weight in network.output.transform.parameters() if weight.ndim == 2]
    chosen = {id(weight) for weight in (*network.matrices(), *ends)}
    return {name for name, weight in network.named_parameters() if id(weight) in chosen}


def packed_arrays(network: Network, arrays: Arrays, progress: Progress, bits: int | None = None) -> Arrays:
    """Return the arrays of a network with its matrices packed, where their rows consist of whole blocks.

    bits: of a weight, 4, 5, 6 or 8, in blocks, so that vectors are rounded in products; None for int8 with vectors in
    float32. Raises SettingError where none can be packed.
    """
    if bits is not None and is_quantised(network):
        raise SettingError(
            "its weights are quantised already; leave bits out, or open it with exact (--exact) to quantise it anew"
        )
    packed = dict(arrays)
    names = [name for name in packable(network) if can_pack(network.get_parameter(name))]
    if not names and not is_quantised(network):
        raise SettingError(
            "a network is compact with its matrices in eight bits or fewer, which needs a Transformer with a full "
            f"output and matrices whose rows have a multiple of 32 numbers; {_described(network)}"
        )
    for done, name in enumerate(names):
        progress("packing", done, len(names))
        weight = torch.from_numpy(widen(arrays[name]))
        packed[name] = pack(weight).numpy() if bits is None else pack_in_blocks(weight, 8 if name in _ENDS else bits)
    return packed


def _described(network: Network) -> str:
    """Say what a network is that cannot be packed: the first thing of those that are needed which it lacks."""
    config = network.config
    if not isinstance(config, TransformerConfig):
        return "this one is no Transformer"
    if not config.has_output:
        return "this one predicts no tokens; it gives vectors"
    if not isinstance(network.output, FullSoftmax):
        return f"this one's output is {config.output} (train it with output='full')"
    return f"this one's have {' or '.join(map(str, sorted({weight.shape[1] for weight in network.matrices()})))}"


def forms_of(network: nn.Module) -> list[str]:
    """Return the forms in which weights are packed, by name: int8, or those of blocks."""
    forms = set()
    for weight in network.parameters():
        if is_in_blocks(weight):
            forms |= {part.name for part in matrix_of(weight.detach().numpy()).parts}
        elif is_packed(weight):
            forms.add("int8")
    return sorted(forms)


def rounds_activations(network: nn.Module) -> bool:
    """Return whether vectors are rounded to eight bits in products."""
    return any(is_in_blocks(weight) for weight in network.parameters())


def unpacked_arrays(network: Network, arrays: Arrays) -> Arrays:
    """Return the same weights in float32."""
    is_one = {name: is_packed(weight) for name, weight in network.named_parameters()}
    return {
        name: unpack(torch.from_numpy(array)).numpy() if is_one.get(name) else array for name, array in arrays.items()
    }


def is_quantised(network: nn.Module) -> bool:
    """Return whether any matrix is packed."""
    return any(is_packed(weight) for weight in network.parameters())


def packed_share(network: nn.Module) -> float:
    """Return the share of the weights that may be packed which are; those of rows that are no whole blocks never
    are.
    """
    weights = [network.get_parameter(name) for name in packable(network)]
    return sum(_size(weight) for weight in weights if is_packed(weight)) / max(1, sum(map(_size, weights)))


def parameters_of(network: nn.Module) -> int:
    """Return how many weights a network has, whatever they are stored in."""
    return sum(map(_size, network.parameters()))


def _size(weight: Tensor) -> int:
    """Return how many numbers a weight has."""
    if is_in_blocks(weight):
        matrix = matrix_of(weight.detach().numpy())
        return matrix.rows * matrix.columns
    return unpacked_shape(weight).numel() if is_packed(weight) else weight.numel()


def check_trainable(network: nn.Module) -> None:
    """Raise SettingError if a network's weights are packed."""
    if is_quantised(network):
        raise SettingError(
            "a compact network, its weights in eight bits or fewer, cannot be trained; train an adapter beside it "
            "(adapt --lora), unpack it, open it with exact (--exact), or take the original"
        )
