"""Small networks as arrays for a page, which reads them in plain JavaScript: Transformers with keys and values kept,
LSTMs and GRUs with their states.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.open.network.config import OpenSettings, opened
from chainrule.neural.encoders.recurrent import Recurrent
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.matrix_products import is_in_blocks, is_packed, unpacked_shape
from chainrule.neural.layers.output import FullSoftmax
from chainrule.neural.layers.positions import alibi_slopes

if TYPE_CHECKING:
    from numpy import ndarray

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]

# Settings that the page knows, or that change nothing once a network is trained. Others must have their defaults.
_KNOWN = frozenset(
    """
    layers width heads context key_value_heads feed_forward feed_forward_width norm norm_place norm_gain
    embedding_norm positions rotary_base score query_key_norm parallel window biases scaled_embedding
    zero_projections initialisation dropout attention_dropout embedding_dropout head_width norm_epsilon
    shared_norm without_biases position_offset sublayer_norms gains_above_one attention_scale score_cap logit_cap
    logit_scale embedding_scale residual_scale output_bias rotary_width tied memory output cutoffs noise_samples
    noise_power begins_with first_read window_every full_layers
    """.split()  # noqa: SIM905  # a list would have a line each
)
_KNOWN_OF_RECURRENT = frozenset(
    """
    cell layers width context residual variational input_dropout dropout output_dropout weight_drop forget_bias
    activation_regularisation temporal_regularisation tied memory output cutoffs noise_samples noise_power
    begins_with first_read embedding_dropout
    """.split()  # noqa: SIM905  # a list would have a line each
)
_CHOICES = {
    "cell": ("lstm", "gru"),
    "norm": ("layer", "rms"),
    "norm_place": ("pre", "post"),
    "sublayer_norms": ("before", "after", "both"),
    "feed_forward": (
        *("relu", "gelu", "gelu_exact", "silu", "relu_squared"),
        *("swiglu", "geglu", "geglu_exact", "clamped_swiglu"),
    ),
    "positions": ("none", "learned", "sinusoidal", "alibi", "rotary"),
    "score": ("dot", "scaled_dot"),
    "output": ("full",),
}


def check_network(engine: object) -> None:
    """Raise SettingError, with the name of what the page does not know, unless it can read a network."""
    if not isinstance(engine, NeuralModel) or not isinstance(engine.network.encoder, Transformer | Recurrent):
        raise SettingError(
            "a page computes with n-gram models, Transformers, LSTMs and GRUs that continue texts, and this model is "
            "none of them; chainrule explore without --static shows it"
        )
    config, is_recurrent = engine.network.config, isinstance(engine.network.encoder, Recurrent)
    for name, known in _CHOICES.items():
        if hasattr(config, name) and (value := getattr(config, name)) not in known:
            choices = " or ".join(f"{name}={choice!r}" for choice in known)
            raise SettingError(f"{name} is {value}, which a page cannot compute; train the network with {choices}")
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in (_KNOWN_OF_RECURRENT if is_recurrent else _KNOWN) and value != field.default:
            raise SettingError(f"the network has {field.name} {value}, which a page cannot compute")
    if any(is_in_blocks(weight) for weight in engine.network.parameters()):
        raise SettingError(
            "the weights are in blocks, and products round vectors, too; open it with --exact, or quantise it without "
            "--bits"
        )
    assert isinstance(engine.network.output, FullSoftmax)


def network_model(engine: NeuralModel, arrays: Arrays) -> Json:
    """Add the weights of a network to the arrays, and return what the page needs to read it.

    Matrices in int8 stay so: whole numbers, and a scale for every 32 of a row. Raises as `check_network`.
    """
    check_network(engine)
    network = engine.network
    encoder = network.encoder
    shapes: dict[str, list[int]] = {}
    for name, weight in network.named_parameters():
        own = weight.detach().cpu()
        if is_packed(own):
            rows, columns = unpacked_shape(own)
            numbers = own.numpy()
            arrays[f"{name}#int8"] = np.ascontiguousarray(numbers[:, :columns]).reshape(-1)
            arrays[f"{name}#scales"] = np.ascontiguousarray(numbers[:, columns:]).view(np.float32).reshape(-1)
            shapes[name] = [rows, columns]
        else:
            arrays[name] = own.float().numpy().reshape(-1)
            shapes[name] = list(own.shape)
    shared = {
        "shapes": shapes,
        "begins_with": network.first_token,
        "embedding_scale": float(network.embedding.scale),
    }
    if isinstance(encoder, Recurrent):
        return shared | {
            "kind": "recurrent",
            "cell": encoder.cell,
            "layers": len(encoder.layers),
            "widths": encoder.widths,
            "residual": encoder.residual,
            "logit_scale": 1.0,
            "logit_cap": None,
        }
    config = cast("OpenSettings", opened(network.config))
    return shared | {
        "kind": "transformer",
        "layers": config.layers,
        "heads": config.heads,
        "key_heads": config.key_heads,
        "head_width": config.width_of_heads,
        "width": config.width,
        "context": encoder.context,
        "windows": [config.window if config.has_window(layer) else None for layer in range(config.layers)],
        "embedding_norm": config.embedding_norm,
        "norm": config.norm,
        "epsilon": config.epsilon,
        "above_one": config.gains_above_one,
        "post": config.norm_place == "post",
        "parallel": config.parallel,
        "norms": 1 if config.parallel and config.shared_norm else 2,
        "sublayer_norms": config.sublayer_norms,
        "normed": config.query_key_norm,
        "normed_epsilon": 2.0**-23 if config.norm_epsilon is None else config.norm_epsilon,
        "scale": _scale(config),
        "cap": config.score_cap,
        "residual_scale": config.residual_scale,
        "activation": config.feed_forward,
        "gated": config.is_gated,
        "positions": config.positions,
        "position_offset": config.position_offset,
        "rotary_base": config.rotary_base,
        "rotated": config.rotated_width,
        "slopes": alibi_slopes(config.heads) if config.positions == "alibi" else None,
        "logit_scale": config.logit_scale,
        "logit_cap": config.logit_cap,
    }


def _scale(config: OpenSettings) -> float:
    """Return the factor of products of queries and keys."""
    root = float(config.width_of_heads**0.5)
    factor = 1.0 if config.attention_scale is None else config.attention_scale * root
    return factor if config.score == "dot" else factor / root
