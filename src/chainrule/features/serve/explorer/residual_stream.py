"""What each part of a Transformer adds to a prediction, and what each layer would predict.

All parts of a Transformer add to one vector, the residual stream, which the final norm and the output read. With the
scale of that norm as it is, both are linear, so that each part has a share of a token's logit (direct logit
attribution: Elhage et al., A Mathematical Framework for Transformer Circuits, 2021), and the shares add up to it.
Legend: T time, D width of a layer, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel, layer_states
from chainrule.neural.layers.matrix_products import product
from chainrule.neural.layers.output import FullSoftmax
from chainrule.neural.network import add_boundaries, check_length
from chainrule.neural.scoring import top_tokens
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.encoders.blocks import Block
    from chainrule.neural.inspection import Tokens
    from chainrule.neural.network import Network


class Added(NamedTuple):
    """What one part of a Transformer adds to the residual stream at the last token of a text.

    part: token, position, attention or feed-forward; layer: from 1, 0 before the first. after: the length of the stream
    with it. shares: of the logit of each token; None where a later norm mixes the parts.
    """

    part: Literal["token", "position", "attention", "feed-forward"]
    layer: int
    vector: Float32[ndarray, " D"]
    after: float
    shares: Float32[ndarray, " V"] | None


_CLOSE = 1e-3  # of the stream's length: what the parts may miss of it


@torch.inference_mode()
def added_by_part(model: NeuralModel, prefix: Tokens) -> list[Added]:
    """What each part adds after a prefix, in the order in which they are computed.

    Raises SettingError for other networks than Transformers.
    """
    network, encoder = model.network, model.network.encoder
    if not isinstance(encoder, Transformer) or encoder.is_bidirectional:
        raise SettingError("this network has no residual stream to follow; expected a Transformer that continues texts")
    recorded: list[tuple[Literal["attention", "feed-forward"], int, Tensor]] = []

    def record(part: str, layer: int, x: Tensor) -> Tensor:
        if part != "heads":
            recorded.append((cast("Literal['attention', 'feed-forward']", part), layer + 1, x[0, -1].float()))
        return x

    streams: list[Tensor] = []
    first, last = encoder.blocks[0], encoder.blocks[-1]
    hooks = [
        first.register_forward_pre_hook(lambda _, given: streams.append(given[0][0, -1].float())),
        last.register_forward_hook(lambda _, given, out: streams.append(out[0, -1].float())),
    ]
    tokens = torch.from_numpy(model.last_window(prefix).astype("int64"))[None].to(network.device)
    try:
        encoder.read_edited(network.embed(tokens), record)
    finally:
        for hook in hooks:
            hook.remove()
    begin, end, own = streams[0], streams[-1], network.embed(tokens)[0, -1].float()
    scale = cast("Block", first).scale
    parts: list[tuple[Literal["token", "position", "attention", "feed-forward"], int, Tensor]] = []
    if own.shape == begin.shape:
        parts += [("token", 0, own)]
        parts += [("position", 0, begin - own)] if not torch.equal(begin, own) else []
    else:
        parts += [("token", 0, begin)]
    parts += [(part, layer, scale * x) for part, layer, x in recorded]
    missing = (torch.stack([x for _, _, x in parts]).sum(0) - end).norm()
    shares = _shares(network, end) if encoder.norm is not None and bool(missing <= _CLOSE * end.norm()) else None
    added, stream = [], torch.zeros_like(begin)
    for part, layer, x in parts:
        stream = stream + x
        own_shares = None if shares is None else shares(x).cpu().numpy()
        added.append(Added(part, layer, x.cpu().numpy(), float(stream.norm()), own_shares))
    return added


@torch.inference_mode()
def attention_of_last(model: NeuralModel, prefix: Tokens) -> list[Float32[ndarray, "heads T"]]:
    """Of each layer that attends, where the heads of the last token look after a prefix."""
    encoder = model.network.encoder
    if not isinstance(encoder, Transformer):
        return []
    tokens = torch.from_numpy(model.last_window(prefix).astype("int64"))[None].to(model.network.device)
    return [maps[0, :, -1].float().cpu().numpy() for maps in encoder.attention_maps(model.network.embed(tokens))]


@torch.inference_mode()
def logits_after(model: NeuralModel, prefix: Tokens) -> Float32[ndarray, " V"] | None:
    """The logits after a prefix; None of an output that has none of all tokens, such as one in clusters."""
    output = model.network.output
    if not isinstance(output, FullSoftmax):
        return None
    [*_, (_, states)] = layer_states(model.network, model.last_window(prefix))
    return output.logits(states[-1:])[0].cpu().numpy()


def _shares(network: Network, end: Float[Tensor, " D"]) -> Callable[[Tensor], Tensor] | None:
    """A function from what a part adds to its shares of all logits; None where the output is not linear."""
    output, final_norm = network.output, cast("nn.Module", cast("Transformer", network.encoder).norm)
    if not isinstance(output, FullSoftmax) or output.transform is not None or output.cap is not None or output.ends:
        return None
    # A norm is x (less its mean) over a length, times gains, plus shifts: linear once the length is known.
    centred = isinstance(final_norm, nn.LayerNorm)
    middle = end - end.mean() if centred else end
    shift = final_norm.bias if isinstance(final_norm, nn.LayerNorm) and final_norm.bias is not None else 0.0
    normed = final_norm(end[None])[0] - shift
    gains = torch.where(middle.abs() > 0, normed / torch.where(middle.abs() > 0, middle, 1.0), 0.0)

    def of(x: Tensor) -> Tensor:
        linear = (x - x.mean() if centred else x) * gains * output.scale
        return product(linear[None], output.weight)[0]

    return of


class LayerLens(NamedTuple):
    """What one layer would predict at each token that is read.

    tokens: the likeliest, best first. of_next: log P of the token that follows; none after the last.
    """

    layer: int
    tokens: Int32[ndarray, "T k"]
    log_probs: Float32[ndarray, "T k"]
    of_next: Float32[ndarray, " T-1"]


@torch.inference_mode()
def lens_of_text(model: object, tokens: Tokens, k: int = 3) -> tuple[Int64[ndarray, " read"], list[LayerLens]]:
    """The tokens that a network reads for a text, and what each layer would predict after each of them.

    Raises SettingError for models without several layers that the output can read, and for texts that are too long.
    """
    network = layered_network(model)
    check_length(network, len(tokens))
    read = add_boundaries(tokens, network)
    layers = []
    following = torch.from_numpy(read[1:].astype("int64")).to(network.device)
    for layer, states in layer_states(network, read.astype("int32")):
        of_next = network.output.log_probs_of(states[:-1], following) if len(following) else states.new_empty(0)
        rows = [
            top_tokens(network.output.log_probs(states[i : i + _AT_ONCE]), k) for i in range(0, len(states), _AT_ONCE)
        ]
        log_probs, best = (np.concatenate(column) for column in zip(*rows, strict=True))
        layers.append(LayerLens(layer, best, log_probs, of_next.float().cpu().numpy()))
    return read, layers


@torch.inference_mode()
def layered_network(model: object) -> Network:
    """The network of a model of which two layers or more could predict. Raises SettingError for others."""
    if not isinstance(model, NeuralModel) or model.network.encoder.is_bidirectional:
        raise SettingError("this model has no layers that could predict; expected a network that continues texts")
    if len(list(layer_states(model.network, np.array([END], np.int32)))) < 2:
        raise SettingError("this network has one layer that its output reads; the logit lens needs two at least")
    return model.network


_AT_ONCE = 64  # positions whose whole distributions are in memory
