"""Networks whose matrices become weights in eight bits, and which tensors those are."""

from __future__ import annotations

from torch import nn

from chainrule.errors import SettingError
from chainrule.neural.config.transformer import TransformerConfig
from chainrule.neural.int8_weights import can_pack, is_packed, pack
from chainrule.neural.network import Network
from chainrule.neural.output import FullSoftmax


def packable(network: nn.Module) -> set[int]:
    """The ids of the parameters that may be packed: those that are used only by products and look-ups that know int8.

    They are the matrices of a Transformer and the vectors of tokens; none of any other network.
    """
    if not (isinstance(network, Network) and isinstance(network.config, TransformerConfig)):
        return set()
    if not isinstance(network.output, FullSoftmax):
        return set()
    ends = [network.embedding.weight, network.output.weight]
    if network.output.transform is not None:
        ends += [weight for weight in network.output.transform.parameters() if weight.ndim == 2]
    return {id(weight) for weight in (*network.matrices(), *ends)}


def quantise(network: Network) -> None:
    """Packs a network's matrices in place, where their rows consist of whole blocks; it can be used, but not trained.

    Raises SettingError where nothing can be packed.
    """
    chosen = packable(network)
    packed: dict[int, nn.Parameter] = {}
    for module in network.modules():
        for name, weight in module._parameters.items():
            if weight is None or id(weight) not in chosen or not (can_pack(weight) or is_packed(weight)):
                continue
            if id(weight) not in packed:
                packed[id(weight)] = weight if is_packed(weight) else _parameter(weight)
            module._parameters[name] = packed[id(weight)]
    if not packed:
        raise SettingError(
            "weights in int8 are for Transformers whose widths are multiples of 32, with a full output; leave them as "
            "they are"
        )


def is_quantised(network: Network) -> bool:
    """Whether any matrix is packed."""
    return any(is_packed(weight) for weight in network.parameters())


def check_trainable(network: Network) -> None:
    """Raises SettingError if a network's weights are in eight bits."""
    if is_quantised(network):
        raise SettingError("weights in int8 cannot be trained; take the model that they were made from")


def _parameter(weight: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(pack(weight), requires_grad=False)
