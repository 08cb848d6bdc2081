"""Which settings of a Transformer have an effect beside its others: two that differ in the rest alone are the same."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.network.config import OpenSettings, opened
from chainrule.features.seq2seq.network.config import Seq2SeqConfig

if TYPE_CHECKING:
    from chainrule.neural.config import NetworkConfig

    Json = dict[str, Any]

_OF_EXPERTS = """
    chosen_experts normalised_experts router_bias expert_width router router_shift expert_groups chosen_groups
    routed_scale shared_expert_width gated_shared_expert dense_layers
""".split()  # noqa: SIM905  # a list would have a line each
_OF_MAMBA2 = ("recurrence_norm", "recurrence_scales", "recurrence_scale", "least_step")


def filled_in(config: NetworkConfig | Seq2SeqConfig) -> NetworkConfig | Seq2SeqConfig:
    """Return the same settings, with all defaults filled in, and settings without effect reset to their defaults."""
    config = config if isinstance(config, Seq2SeqConfig) else opened(config)
    if not isinstance(config, OpenSettings):
        return config
    config = replace(
        config,
        norm_epsilon=config.epsilon,
        key_value_heads=config.key_heads,
        head_width=config.width_of_heads,
        feed_forward_width=config.hidden_width,
        rotary_width=config.rotated_width if config.positions == "rotary" else None,
        embedding_width=config.input_width,
        attention_scale=config.width_of_heads**-0.5 if config.attention_scale is None else config.attention_scale,
        block_groups=None if config.distinct_blocks == config.layers else config.block_groups,
    )
    without_effect = {
        "rotary_base": config.positions != "rotary",
        "position_offset": config.positions != "learned",
        "without_biases": not config.biases,
        "shared_norm": not config.parallel,
        **dict.fromkeys(("window_every", "full_layers"), config.window is None),
        "window_rotary_base": config.window is None or config.positions != "rotary",
        "unrotated_layers": config.positions != "rotary",
        **dict.fromkeys(
            ("recurrence_kernel", "recurrence_biases", "kernel_bias", "recurrence_width", "recurrence_heads"),
            not config.is_stateful,
        ),
        **dict.fromkeys(("recurrence_key_heads", "state_width", "step_rank"), not config.is_stateful),
        **dict.fromkeys(
            ("feed_forward", "context", "key_value_heads", "head_width", "attention_scale"), not config.has_feed_forward
        ),
        "feed_forward_width": not config.has_feed_forward and "rwkv_channels" not in config.mixers,
        "gains_above_one": not config.norm_gain,
        **dict.fromkeys(("full_head_width", "full_key_value_heads", "keys_as_values"), config.window is None),
        "wide_shared_blocks": not config.shared_key_layers,
        "rotary_turning": config.positions != "rotary",
        "joint_query_key_norm": not config.query_key_norm,
        "norm_after_rotation": not config.query_key_norm or config.positions != "rotary",
        **dict.fromkeys(_OF_EXPERTS, not config.experts),
        "dense_width": not (config.experts and config.dense_layers),
        "chosen_groups": config.expert_groups == 1,
        "gated_shared_expert": not config.shared_expert_width,
        "expert_epsilon": not (config.experts and config.normalised_experts),
        **dict.fromkeys(("query_rank", "value_width"), config.key_rank is None),
        "up_biases": not config.has_biases("feed_forward"),
        **dict.fromkeys(_OF_MAMBA2, not any(mixer.endswith("mamba2") for mixer in config.mixers)),
        "selection_epsilon": "mamba" not in config.mixers,
        "distance_limit": not config.distance_buckets,
        **dict.fromkeys(("rotary_divisors", "rotary_long_divisors"), config.rotary_scaling != "longrope"),
        "rotary_amplitude": config.rotary_scaling not in ("yarn", "longrope"),
        "rotary_factor": config.rotary_scaling == "none",
        "rotary_whole_pairs": config.rotary_scaling != "yarn",
        "rotary_trained_context": config.rotary_scaling in ("none", "linear") and not config.query_growth,
        **dict.fromkeys(("rotary_low_factor", "rotary_high_factor"), config.rotary_scaling not in ("llama3", "yarn")),
    }
    defaults: Json = {each.name: each.default for each in fields(config)}
    return replace(config, **{name: defaults[name] for name, is_idle in without_effect.items() if is_idle})
