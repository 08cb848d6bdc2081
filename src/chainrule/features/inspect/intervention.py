"""Causal questions of a Transformer: how log P changes where a head or a layer is removed, or reads another text.

Attention maps show where a head looks, not whether that matters. So its output is replaced while the network reads:

    zero    by nothing, so that it adds nothing to the residual stream
    mean    by its mean over the tokens up to there, so that only what it says of this token is lost
    patch   by its output for another text of as many tokens (activation patching; Vig et al. 2020, Meng et al. 2022)

and the log-probability of every token is compared with what it was (Michel et al. 2019 remove heads so).
Legend: L layers, H heads, T tokens, d width of a head, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
import torch

from chainrule.errors import SettingError
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.network import check_length
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.base.progress import Progress
    from chainrule.neural.encoders.blocks import Block
    from chainrule.neural.layers.masks import Part
    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " T"]

Removal = Literal["zero", "mean"]

_TOGETHER = 512  # tokens that are read at once, over all rows


class Unit(NamedTuple):
    """A head, counted from 0, or another part of a layer: attention (all its heads), feed-forward, or both: layer."""

    layer: int
    part: int | Literal["attention", "feed-forward", "layer"]

    def __str__(self) -> str:
        name = f"head {self.part + 1}" if isinstance(self.part, int) else self.part
        return f"layer {self.layer + 1}" if name == "layer" else f"layer {self.layer + 1}, {name}"


def has_units(model: object) -> bool:
    """Whether a model has heads and layers that can be removed."""
    return isinstance(model, NeuralModel) and isinstance(model.network.encoder, Transformer)


def units_of(model: object) -> list[list[Unit]]:
    """What can be removed of each layer: its heads, attention, feed-forward, layer; of all layers alike.

    A recurrence counts as attention. A part that a layer lacks changes nothing. Raises SettingError.
    """
    encoder = _transformer_of(model)
    blocks = cast("list[Block]", list(encoder.blocks))
    heads = max(block.heads for block in blocks)
    parts: list[int | Literal["attention", "feed-forward", "layer"]] = [*range(heads), "attention"]
    if any(block.feed_forward is not None for block in blocks):
        parts.append("feed-forward")
    return [[Unit(layer, part) for part in (*parts, "layer")] for layer in range(encoder.layers)]


@torch.inference_mode()
def log_probs_without(
    model: object, tokens: Tokens, groups: Sequence[Sequence[Unit]], by: Removal | Tokens, progress: Progress
) -> Float32[ndarray, "groups T"]:
    """The log-probability of each token of a text where the outputs of a group of units are replaced; row by row.

    An empty group replaces nothing. by: zero, mean, or the beginning of another text, whose outputs take the place of
    those of as many tokens. Raises SettingError.
    """
    encoder = _transformer_of(model)
    assert isinstance(model, NeuralModel)
    network = model.network
    _check_length(network, tokens)
    inputs = torch.from_numpy(np.append(END, tokens[:-1]).astype(np.int64))[None].to(network.device)
    targets = torch.from_numpy(tokens.astype(np.int64)).to(network.device)
    others = None if isinstance(by, str) else _outputs(encoder, network, by)
    step = max(1, _TOGETHER // len(tokens))
    rows = []
    for first in range(0, len(groups), step):
        progress("replacing outputs", first, len(groups))
        some = groups[first : first + step]
        hidden = _hidden_without(encoder, network, inputs, some, by, others)
        rows += [network.output.log_probs_of(row, targets).float().cpu().numpy() for row in hidden]
    progress("replacing outputs", 1, 1)
    return np.stack(rows)


@torch.inference_mode()
def read_without(
    model: object, tokens: Tokens, units: Sequence[Unit], by: Removal | Tokens
) -> Float32[ndarray, "T+1 V"]:
    """The distribution before each token of a text and after it, in nats, where the outputs of units are replaced.

    by: as for `log_probs_without`. Raises SettingError.
    """
    encoder = _transformer_of(model)
    assert isinstance(model, NeuralModel)
    network = model.network
    check_length(network, len(tokens))
    inputs = torch.from_numpy(np.append(END, tokens).astype(np.int64))[None].to(network.device)
    others = None if isinstance(by, str) else _outputs(encoder, network, by)
    [hidden] = _hidden_without(encoder, network, inputs, [units], by, others)
    return network.output.log_probs(hidden).float().cpu().numpy()


def _hidden_without(
    encoder: Transformer,
    network: Network,
    inputs: Int64[Tensor, "1 T"],
    groups: Sequence[Sequence[Unit]],
    by: Removal | Tokens,
    others: dict[tuple[Part, int], Tensor] | None,
) -> Float[Tensor, "groups T D"]:
    """The hidden states of a text where a group of units is replaced, row by row."""

    def edit(part: Part, layer: int, x: Tensor) -> Tensor:
        chosen = [(row, unit) for row, group in enumerate(groups) for unit in group if unit.layer == layer]
        if not chosen:
            return x
        x = x.expand(len(groups), *x.shape[1:]).clone()  # until here, one row stands for all
        for row, unit in chosen:
            if part != "heads" and unit.part in (part, "layer"):
                x[row] = _replacement(x[row], by, None if others is None else others[part, layer])
            elif part == "heads" and isinstance(unit.part, int):
                other = None if others is None else others[part, layer][:, unit.part]
                x[row, :, unit.part] = _replacement(x[row, :, unit.part], by, other)
        return x

    edited = encoder.read_edited(network.embed(inputs), edit)
    return edited.expand(len(groups), -1, -1)


def _replacement(
    x: Float[Tensor, "T width"], by: Removal | Tokens, other: Float[Tensor, "S width"] | None
) -> Float[Tensor, "T width"]:
    if other is not None:
        return torch.cat((other, x[len(other) :]))[: len(x)]
    if isinstance(by, str) and by == "mean":
        counts = torch.arange(1, len(x) + 1, device=x.device, dtype=x.dtype)
        return x.cumsum(0) / counts[:, None]
    return torch.zeros_like(x)


def _outputs(encoder: Transformer, network: Network, tokens: Tokens) -> dict[tuple[Part, int], Tensor]:
    """What every part computes for </s> and each token of a text: heads (T, H, d), others (T, D)."""
    _check_length(network, tokens)
    outputs = {}

    def record(part: Part, layer: int, x: Tensor) -> Tensor:
        outputs[part, layer] = x[0]
        return x

    inputs = torch.from_numpy(np.append(END, tokens).astype(np.int64))[None].to(network.device)
    encoder.read_edited(network.embed(inputs), record)
    return outputs


def _transformer_of(model: object) -> Transformer:
    if has_units(model):
        return cast("NeuralModel", model).network.encoder  # type: ignore[return-value]  # a Transformer
    raise SettingError("this model has no heads to remove; expected a Transformer that continues texts")


def _check_length(network: Network, tokens: Tokens) -> None:
    if not len(tokens):
        raise SettingError("the text has no tokens; give one with a token in it at least")
    context = network.encoder.context
    if context is not None and len(tokens) > context:
        raise SettingError(
            f"the text has {len(tokens):,} tokens, but the network reads at most {context:,} at once; shorten it"
        )
