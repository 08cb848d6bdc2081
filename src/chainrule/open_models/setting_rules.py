"""Rules that several architectures share: several fields of config.json that together are one of our settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.open_models.architecture import Rule

if TYPE_CHECKING:
    from chainrule.neural.config import TransformerConfig

    Json = dict[str, Any]

# What activations are called; gelu_new and its like are the form with tanh.
ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu": "gelu_exact",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu_squared",
}
GATED = {"silu": "swiglu", "swish": "swiglu", "gelu_pytorch_tanh": "geglu", "gelu_new": "geglu"}


def _read_rope(config: Json) -> Json:
    """rope_theta and rope_scaling of transformers 4, rope_parameters of 5; they may not contradict each other."""
    scaling, parameters = config.get("rope_scaling"), config.get("rope_parameters")
    given = {**(scaling or {}), **(parameters or {})}
    if scaling and parameters:
        for name in scaling.keys() & parameters.keys():
            if scaling[name] != parameters[name]:
                raise ValueError(f"{name} is {scaling[name]!r} in one and {parameters[name]!r} in the other")
    theta, new_theta = config.get("rope_theta"), given.get("rope_theta")
    if None not in (theta, new_theta) and theta != new_theta:
        raise ValueError(f"rope_theta is {theta!r}, and {new_theta!r} in rope_parameters")
    base = next((value for value in (new_theta, theta) if value is not None), 10_000.0)
    settings: Json = {"positions": "rotary", "rotary_base": float(base)}
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return settings
    settings |= {"rotary_scaling": kind, "rotary_factor": float(given["factor"])}
    if kind == "llama3":
        return settings | {
            "rotary_low_factor": float(given["low_freq_factor"]),
            "rotary_high_factor": float(given["high_freq_factor"]),
            "rotary_trained_context": given["original_max_position_embeddings"],
        }
    if kind != "linear":
        raise ValueError(f"rotary scaling {kind!r} is not supported; known are default, linear and llama3")
    return settings


def _write_rope(config: TransformerConfig) -> Json:
    """Both spellings: transformers 4 would take theta 10,000 where there is only the new one, and say nothing."""
    if config.rotary_scaling == "none":
        return {
            "rope_theta": config.rotary_base,
            "rope_scaling": None,
            "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base},
        }
    scaling: Json = {"rope_type": config.rotary_scaling, "factor": config.rotary_factor}
    if config.rotary_scaling == "llama3":
        scaling |= {
            "low_freq_factor": config.rotary_low_factor,
            "high_freq_factor": config.rotary_high_factor,
            "original_max_position_embeddings": config.rotary_trained_context,
        }
    return {
        "rope_theta": config.rotary_base,
        "rope_scaling": scaling,
        "rope_parameters": {**scaling, "rope_theta": config.rotary_base},
    }


ROPE = Rule(("rope_theta", "rope_scaling", "rope_parameters"), _read_rope, _write_rope)


def _read_window(config: Json) -> Json:
    window, context = config.get("sliding_window"), config.get("max_position_embeddings")
    return {"window": None if window is None or (context is not None and window >= context) else window}


# A window that is as long as the context is none.
SLIDING_WINDOW = Rule(("sliding_window",), _read_window, lambda config: {"sliding_window": config.window})
