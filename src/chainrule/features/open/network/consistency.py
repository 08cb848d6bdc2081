"""Which settings of opened Transformers suit each other. The class of configurations imports this file."""

from __future__ import annotations

from typing import Any

from chainrule.errors import SettingError


def check_opened(config: Any) -> None:
    """Raise SettingError if settings of an opened Transformer contradict each other."""
    if config.rotated_width > config.width_of_heads:
        raise SettingError(
            f"rotary_width is {config.rotary_width}, but a head has {config.width_of_heads} numbers; lower it"
        )
    if config.rotary_scaling == "llama3" and not config.rotary_low_factor < config.rotary_high_factor:
        raise SettingError("rotary_low_factor must be below rotary_high_factor")
    if config.output != "full" and (config.logit_cap is not None or config.logit_scale != 1):
        raise SettingError(f"logit_cap and logit_scale need a full output; output is {config.output}")
    _check_scaling(config)
    if config.sublayer_norms != "before" and (config.parallel or config.norm_place == "post"):
        raise SettingError(
            f"sublayer_norms is {config.sublayer_norms}, which needs norm_place to be pre, and blocks that are not "
            "parallel"
        )
    if config.input_width != config.width and config.has_output and not config.output_transform:
        raise SettingError(f"embedding_width is {config.embedding_width}, which needs output_transform; leave it out")
    if config.mixers and len(config.mixers) != config.layers:
        raise SettingError(f"mixers names {len(config.mixers)} blocks, but there are {config.layers}")
    if config.is_stateful and (config.is_bidirectional or config.parallel or config.norm_place == "post"):
        raise SettingError("mixers that carry a state need a causal network of blocks with norms first")
    if not config.has_feed_forward and (
        config.parallel or config.is_bidirectional or config.norm_place == "post" or config.sublayer_norms != "before"
    ):
        raise SettingError("blocks without a feed-forward layer need norm_place to be pre, and no other norms")
    if config.recurrence_width % config.recurrence_heads or config.recurrence_heads % config.recurrence_key_heads:
        raise SettingError(
            f"{config.recurrence_width} numbers cannot be divided among {config.recurrence_heads} heads, or these "
            f"among {config.recurrence_key_heads} heads of keys"
        )
    if config.block_groups is not None and (
        config.block_groups > config.layers or config.is_stateful or not config.first_norm
    ):
        raise SettingError(
            f"block_groups is {config.block_groups}; expected at most the {config.layers} layers, all of the same parts"
        )
    if config.attention_sinks and config.score == "additive":
        raise SettingError("an additive score has no attention_sinks; leave them out, or take another score")
    if config.distance_buckets and (
        not config.is_bidirectional
        or config.score != "scaled_dot"
        or config.key_heads != config.heads
        or config.attention_sinks
        or config.score_cap is not None
    ):
        raise SettingError(
            "distance_buckets need a bidirectional network with a scaled_dot score in every head, without a cap or "
            "sinks"
        )
    if config.distance_buckets and (
        config.distance_buckets % 2 or config.distance_buckets >= 2 * config.distance_limit
    ):
        raise SettingError(
            f"distance_buckets is {config.distance_buckets}; expected an even number below twice the distance_limit"
        )
    if config.experts and config.chosen_experts > config.experts:
        raise SettingError(f"chosen_experts is {config.chosen_experts}, but there are {config.experts}; lower it")
    if config.expert_width and not (config.experts and config.sublayer_norms == "both"):
        raise SettingError("expert_width needs experts, and sublayer_norms that are both; leave it out, or set them")
    _check_full_blocks(config)
    _check_experts(config)
    _check_latent(config)
    _check_mixers(config)


def _check_experts(config: Any) -> None:
    """Raise SettingError if groups of experts, or blocks without experts, are invalid."""
    least = 2 if config.router == "sigmoid" else 1
    grouped = config.expert_groups > 1
    if grouped and (config.experts % config.expert_groups or config.experts < least * config.expert_groups):
        raise SettingError(
            f"expert_groups is {config.expert_groups}, which {config.experts} experts cannot be divided into, with "
            f"{least} or more in each"
        )
    if grouped and config.chosen_experts * config.expert_groups > config.experts * config.chosen_groups:
        raise SettingError(f"chosen_groups is {config.chosen_groups}, which have fewer experts than are chosen")
    if grouped and config.chosen_groups > config.expert_groups:
        raise SettingError(f"chosen_groups is {config.chosen_groups}, but there are {config.expert_groups}; lower it")
    if any(layer >= config.layers for layer in config.dense_layers):
        raise SettingError(f"dense_layers has {max(config.dense_layers)}, but there are {config.layers} blocks, from 0")
    if config.gated_shared_expert and not config.shared_expert_width:
        raise SettingError("gated_shared_expert needs a shared_expert_width; set it, or leave the gate out")
    if config.feed_forward_scales and (
        len(config.feed_forward_scales) != 2 or not config.is_gated or config.experts or config.is_bidirectional
    ):
        raise SettingError("feed_forward_scales are two numbers for gated feed-forward layers, without experts")


def _check_latent(config: Any) -> None:
    """Raise SettingError if keys that are made from short vectors have invalid settings."""
    if config.key_rank is None:
        if config.query_rank is not None or config.value_width is not None:
            raise SettingError("query_rank and value_width need a key_rank; set it, or leave them out")
        return
    if config.width_of_values > config.width_of_heads or config.rotated_width >= config.width_of_heads:
        raise SettingError(
            f"value_width is {config.width_of_values} and rotary_width {config.rotated_width}; expected at most, and "
            f"below, the {config.width_of_heads} numbers of a head"
        )
    others = (
        config.query_key_norm,
        config.gated_attention,
        config.attention_sinks,
        config.score != "scaled_dot",
        config.score_cap is not None,
        config.key_heads != config.heads,
        config.positions != "rotary",
        config.is_bidirectional,
        config.shared_key_layers > 0,
        config.full_head_width is not None,
        config.query_growth,
    )
    if any(others):
        raise SettingError("key_rank needs a causal network of plain attention, with rotary positions")


def _check_mixers(config: Any) -> None:
    """Raise SettingError if what stands in the place of attention has invalid settings."""
    if ("none" in config.mixers or config.fed_alone) and not (config.fed_alone and config.mixers):
        raise SettingError("mixers that are none need fed_alone, and fed_alone needs mixers")
    if "none" in config.mixers and (
        not config.has_feed_forward or config.is_bidirectional or config.parallel or config.sublayer_norms != "before"
    ):
        raise SettingError("mixers that are none need feed-forward layers, in blocks with a norm first")
    if config.recurrence_scales and len(config.recurrence_scales) != 5:
        raise SettingError(f"recurrence_scales are {len(config.recurrence_scales)} numbers; expected 5")


def _check_full_blocks(config: Any) -> None:
    """Raise SettingError if blocks that attend to all, or blocks that share keys, have invalid settings."""
    full = [layer for layer in range(config.layers) if config.is_full(layer)]
    if full and config.heads % config.key_heads_of(full[0]):
        raise SettingError(f"{config.heads} heads cannot share {config.key_heads_of(full[0])} heads of keys evenly")
    if config.positions == "rotary" and full and config.head_width_of(full[0]) % 2:
        raise SettingError(f"full_head_width is {config.full_head_width}; expected an even number for rotary positions")
    own = range(config.layers - config.shared_key_layers)
    for layer in range(len(own), config.layers):
        if not any(config.has_window(other) == config.has_window(layer) for other in own):
            raise SettingError(
                f"shared_key_layers is {config.shared_key_layers}, but no block before them is of the kind of block "
                f"{layer}"
            )
    rare = config.shared_key_layers or config.layer_input_width or config.keys_as_values or config.value_norm
    if rare and (config.is_bidirectional or config.is_stateful or config.block_groups or config.parallel):
        raise SettingError(
            "shared_key_layers, layer_input_width, keys_as_values and value_norm need a causal network of blocks of "
            "attention, not parallel, each with weights of its own"
        )
    if rare and (config.score != "scaled_dot" or config.gated_attention or config.joint_query_key_norm):
        raise SettingError(
            "shared_key_layers, layer_input_width, keys_as_values and value_norm need a scaled_dot score, no "
            "gated_attention, and no joint_query_key_norm"
        )
    if config.layer_input_width and (config.embedding_norm or config.input_width != config.width or config.input_norm):
        raise SettingError(
            "layer_input_width needs vectors of tokens of the width, without embedding_norm or input_norm"
        )
    if config.rotary_turning is not None and config.rotary_scaling != "none":
        raise SettingError("rotary_turning has no rotary_scaling; leave one of them out")


def _check_scaling(config: Any) -> None:
    """Raise SettingError if the scaling of rotary positions is invalid."""
    factors = config.rotary_base - 1, config.rotary_low_factor, config.rotary_high_factor
    if config.rotary_scaling == "yarn" and min(factors) <= 0:
        raise SettingError("rotary_scaling by yarn needs a rotary_base above 1, and factors above 0")
    for name in ("rotary_divisors", "rotary_long_divisors") if config.rotary_scaling == "longrope" else ():
        divisors: tuple[float, ...] = getattr(config, name)
        if len(divisors) != config.rotated_width // 2 or not all(divisors):
            raise SettingError(
                f"{name} is {len(divisors)} numbers, or has a zero; expected {config.rotated_width // 2} above 0, "
                "one for each pair of rotated numbers"
            )
