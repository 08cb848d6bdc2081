"""Models with attention and Mamba-2: Granite 4 (IBM 2025), Falcon-H1 (TII 2025), Nemotron-H (NVIDIA 2025).

Granite 4 may have experts, and has no positions where it has Mamba-2. Falcon-H1 has both side by side in each block.
A block of Nemotron-H is Mamba-2, attention, a feed-forward layer or experts, each alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import ACTIVATIONS, QUERY_KEY_VALUE, Rule, Setting, Tensor
from chainrule.features.open.architectures.llama import BIASES, GRANITE, LLAMA, MIXTRAL
from chainrule.features.open.architectures.llama_kin import with_defaults, with_settings
from chainrule.features.open.architectures.recurrent import check_steps, mamba2
from chainrule.features.open.architectures.shared_experts import GRANITE_EXPERTS, GRANITE_SHARED, ROUTED, SIGMOID
from chainrule.features.open.positions import ROPE

if TYPE_CHECKING:
    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_FED = _BLOCK + "feed_forward."
_MIXERS = {"linear_attention": "mamba2", "mamba": "mamba2", "full_attention": "attention", "attention": "attention"}
_OF_STEPS = (
    *("mamba_chunk_size", "time_step_floor", "time_step_max", "time_step_min", "time_step_rank"),
    "num_logits_to_keep",
)


def _widths(*, own: bool) -> Rule:
    """Return the rule of Mamba-2's width and heads. own: whether config.json may name the width."""
    fields = ("mamba_expand", "mamba_n_heads", "mamba_d_head", "time_step_limit", *(["mamba_d_ssm"] if own else []))

    def read(config: Json) -> Json:
        check_steps(config)
        width, heads = config.get("mamba_d_ssm", 1024) if own else None, config.get("mamba_n_heads", 128)
        width = config.get("mamba_expand", 2) * config["hidden_size"] if width is None else width
        numbers = config.get("mamba_d_head", "auto")
        if numbers not in ("auto", None) and numbers * heads != width:
            raise ValueError(f"{heads} heads of {numbers} numbers are not {width}")
        return {"recurrence_width": int(width), "recurrence_heads": heads}

    def write(config: OpenSettings) -> Json:
        width, heads = config.recurrence_width, config.recurrence_heads
        written: Json = {"mamba_n_heads": heads, "mamba_d_head": width // heads}
        return written | ({"mamba_d_ssm": width} if own else {"mamba_expand": width / config.width})

    return Rule(fields, read, write)


_MAMBA2 = (
    Setting("mamba_n_groups", "recurrence_key_heads", 1),
    Setting("mamba_d_state", "state_width", 256),
    Setting("mamba_d_conv", "recurrence_kernel", 4),
    Setting("mamba_conv_bias", "kernel_bias", True),
)
_TYPES = ("layer_types", "layers_block_type")


def _read_types(config: Json) -> Json:
    layers = config["num_hidden_layers"]
    types = next((config[name] for name in _TYPES if config.get(name)), ["linear_attention"] * layers)
    if len(types) != layers or not set(types) <= _MIXERS.keys():
        raise ValueError(f"they name {len(types)} layers, or other types than {', '.join(_MIXERS)}")
    return {"mixers": tuple(_MIXERS[kind] for kind in types)}


def _write_types(config: OpenSettings) -> Json:
    names = {"mamba2": "linear_attention", "attention": "full_attention"}
    return {"layer_types": [names[config.mixer(layer)] for layer in range(config.layers)]}


def _read_positions(config: Json) -> Json:
    kind = config.get("position_embedding_type")
    if kind not in (None, "rope", "nope"):
        raise ValueError(f"{kind!r} is not supported; expected rope, nope or null")
    return ROPE.read(config) if kind == "rope" else {"positions": "none"}


def _write_positions(config: OpenSettings) -> Json:
    if config.positions == "none":
        return {"position_embedding_type": None}
    return {**ROPE.write(config), "position_embedding_type": "rope"}


_OF_EXPERTS = ("num_local_experts", "num_experts_per_tok", "intermediate_size", "shared_intermediate_size")


def _read_experts(config: Json) -> Json:
    """Return the feed-forward layers: without experts, that for all tokens is the only one."""
    count, shared = config.get("num_local_experts", 8), config.get("shared_intermediate_size", 1024)
    if not count:
        return {"feed_forward_width": shared}
    return {
        "experts": count,
        "chosen_experts": config.get("num_experts_per_tok", 2),
        "feed_forward_width": config.get("intermediate_size", 11_008),
        "shared_expert_width": shared,
    }


def _write_experts(config: OpenSettings) -> Json:
    if not config.experts:
        return {"num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": config.hidden_width}
    values = config.experts, config.chosen_experts, config.hidden_width, config.shared_expert_width
    return dict(zip(_OF_EXPERTS, values, strict=True))


GRANITE4 = replace(
    GRANITE,
    model_type="granitemoehybrid",
    class_name="GraniteMoeHybridForCausalLM",
    settings=(
        *with_settings(
            tuple(row for row in GRANITE.settings if row is not BIASES),
            Rule((*ROPE.fields, "position_embedding_type"), _read_positions, _write_positions),
            Rule(_OF_EXPERTS, _read_experts, _write_experts),
            leave_out=("head_dim",),
        ),
        *_MAMBA2,
        _widths(own=False),
        Setting("mamba_proj_bias", "recurrence_biases", False),
        Rule(_TYPES, _read_types, _write_types),
    ),
    tensors=(
        *(row for row in LLAMA.tensors if not row.ours.startswith(_FED) and not row.ours.endswith(".bias")),
        *mamba2(_LAYER + "mamba."),
        *(
            row._replace(ours=row.ours.replace("shared.", ""), when=lambda config: not config.experts)
            for row in GRANITE_SHARED
        ),
        *GRANITE_SHARED,
        *GRANITE_EXPERTS,
    ),
    fixed={"attention_bias": False, "normalization_function": "rmsnorm"},
    ignored=(*MIXTRAL.ignored, *_OF_STEPS, "init_method"),
)

_MULTIPLIERS = (
    *("attention_in_multiplier", "key_multiplier", "attention_out_multiplier", "ssm_in_multiplier"),
    *("ssm_multipliers", "ssm_out_multiplier", "mlp_multipliers"),
)


def _read_multipliers(config: Json) -> Json:
    """Return factors: those of what attention reads become one of scores, and one of what it adds."""
    into, of_keys, out, of_states = (config.get(name, 1.0) for name in _MULTIPLIERS[:4])
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    scales = tuple(of_states * scale for scale in config.get("ssm_multipliers") or [1.0] * 5)
    of_fed = tuple(map(float, config.get("mlp_multipliers") or (1.0, 1.0)))
    return {
        "attention_scale": width**-0.5 * into * into * of_keys,
        "attention_out_scale": into * out,
        "recurrence_scales": () if set(scales) == {1.0} else scales,
        "recurrence_scale": config.get("ssm_out_multiplier", 1.0),
        "feed_forward_scales": () if of_fed == (1.0, 1.0) else of_fed,
    }


def _write_multipliers(config: OpenSettings) -> Json:
    scale, root = config.attention_scale, math.sqrt(config.width_of_heads)
    written = 1.0, 1.0 if scale is None else round(scale * root, 12), config.attention_out_scale, 1.0
    states, fed = config.recurrence_scales or (1.0,) * 5, config.feed_forward_scales or (1.0, 1.0)
    return dict(zip(_MULTIPLIERS, (*written, list(states), config.recurrence_scale, list(fed)), strict=True))


_NORMS = {"after": (True, False), "before": (True, True), "none": (False, True)}


def _read_norm(config: Json) -> Json:
    has, before = config.get("mamba_rms_norm", False), config.get("mamba_norm_before_gate", True)
    return {"recurrence_norm": "none" if not has else "before" if before else "after"}


def _write_norm(config: OpenSettings) -> Json:
    return dict(zip(("mamba_rms_norm", "mamba_norm_before_gate"), _NORMS[config.recurrence_norm], strict=True))


def _read_projections(config: Json) -> Json:
    first, last = config.get("mamba_proj_bias", False), config.get("projectors_bias", False)
    if first != last:
        raise ValueError(f"{first} and {last} are not supported together; expected the same")
    return {"recurrence_biases": first}


def _write_projections(config: OpenSettings) -> Json:
    return dict.fromkeys(("mamba_proj_bias", "projectors_bias"), config.recurrence_biases)


_FALCON_NAMES = {
    "mlp.": "feed_forward.",
    "post_attention_layernorm": "pre_ff_layernorm",
    "model.norm": "model.final_layernorm",
}


def _renamed(row: Tensor) -> Tensor:
    def rename(name: str) -> str:
        for old, new in _FALCON_NAMES.items():
            name = name.replace(old, new)
        return name

    return row._replace(theirs=rename(row.theirs) if isinstance(row.theirs, str) else tuple(map(rename, row.theirs)))


def _read_both(config: Json) -> Json:
    return {"layers": config["num_hidden_layers"], "mixers": ("attention_mamba2",) * config["num_hidden_layers"]}


FALCON_H1 = replace(
    LLAMA,
    model_type="falcon_h1",
    class_name="FalconH1ForCausalLM",
    settings=(
        *with_settings(
            with_defaults(
                tuple(row for row in LLAMA.settings if row is not BIASES),
                {"rms_norm_eps": 1e-5, "num_key_value_heads": 8, "max_position_embeddings": 8192},
            ),
            Rule(("num_hidden_layers",), _read_both, lambda config: {"num_hidden_layers": config.layers}),
        ),
        Setting("embedding_multiplier", "embedding_scale", 1.0),
        Setting("lm_head_multiplier", "logit_scale", 1.0),
        *_MAMBA2,
        _widths(own=True),
        Rule(("mamba_proj_bias", "projectors_bias"), _read_projections, _write_projections),
        Rule(("mamba_rms_norm", "mamba_norm_before_gate"), _read_norm, _write_norm),
        Rule(_MULTIPLIERS, _read_multipliers, _write_multipliers),
    ),
    tensors=(
        *(_renamed(row) for row in LLAMA.tensors if not row.ours.endswith(".bias")),
        *mamba2(_LAYER + "mamba."),
    ),
    fixed={"attention_bias": False, "mlp_bias": False, "mamba_use_mlp": True},
    ignored=(*LLAMA.ignored, *_OF_STEPS, "mlp_expansion_factor", "layers_block_type", "layer_types"),
)

_LETTERS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
_KINDS = {"linear_attention": "mamba2", "moe": "none", "full_attention": "attention", "mlp": "none"}
_LAYOUT = (
    *("layers_block_type", "layer_types", "hybrid_override_pattern", "num_hidden_layers", "intermediate_size"),
    *("n_routed_experts", "moe_intermediate_size", "moe_shared_expert_intermediate_size"),
)


def _read_layout(config: Json) -> Json:
    """Return what each block is. Raises ValueError."""
    types = next((config[name] for name in _LAYOUT[:2] if config.get(name)), None)
    if types is None:
        types = [_LETTERS.get(letter, letter) for letter in config["hybrid_override_pattern"]]
    types = [{"mamba": "linear_attention", "attention": "full_attention"}.get(kind, kind) for kind in types]
    if not set(types) <= _KINDS.keys():
        raise ValueError(f"there are other types than {', '.join(_KINDS)}")
    dense, has_experts = config.get("intermediate_size", 21_504), "moe" in types
    settings: Json = {"layers": len(types), "mixers": tuple(_KINDS[kind] for kind in types)}
    if not has_experts:
        return {**settings, "feed_forward_width": dense}
    plain = tuple(layer for layer, kind in enumerate(types) if kind == "mlp")
    return {
        **settings,
        "experts": config.get("n_routed_experts", 8),
        "feed_forward_width": config.get("moe_intermediate_size", 7688),
        "shared_expert_width": config.get("moe_shared_expert_intermediate_size", 7688),
        "dense_layers": plain,
        "dense_width": dense if plain else None,
    }


def _write_layout(config: OpenSettings) -> Json:
    names = {"mamba2": "linear_attention", "attention": "full_attention", "none": "moe" if config.experts else "mlp"}
    types = ["mlp" if layer in config.dense_layers else names[config.mixer(layer)] for layer in range(config.layers)]
    written: Json = {"layers_block_type": types}
    if not config.experts:
        return {**written, "intermediate_size": config.hidden_width}
    written |= {"n_routed_experts": config.experts, "moe_intermediate_size": config.hidden_width}
    written["moe_shared_expert_intermediate_size"] = config.shared_expert_width
    return written | ({"intermediate_size": config.dense_width} if config.dense_width is not None else {})


def _read_steps(config: Json) -> Json:
    check_steps(config)
    heads = config.get("mamba_num_heads", 128)
    least = config.get("time_step_min", 0.001)
    width = heads * config.get("mamba_head_dim", 64)
    return {"recurrence_heads": heads, "recurrence_width": width, "least_step": least}


def _write_steps(config: OpenSettings) -> Json:
    heads = config.recurrence_heads
    return {
        "mamba_num_heads": heads,
        "mamba_head_dim": config.recurrence_width // heads,
        "time_step_min": config.least_step,
    }


_MIXER = "backbone.layers.{layer}.mixer."

NEMOTRON_H = replace(
    LLAMA,
    model_type="nemotron_h",
    class_name="NemotronHForCausalLM",
    implied={**LLAMA.implied, **SIGMOID, "positions": "none", "fed_alone": True, "biases": False},
    settings=(
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads", 32),
        Setting("num_key_value_heads", "key_value_heads", 8),
        Setting("head_dim", "head_width", 128),
        Setting("max_position_embeddings", "context", 4096),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("mlp_hidden_act", "feed_forward", "relu2", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", False),
        Setting("n_groups", "recurrence_key_heads", 8),
        Setting("ssm_state_size", "state_width", 128),
        Setting("conv_kernel", "recurrence_kernel", 4),
        Setting("use_conv_bias", "kernel_bias", True),
        Setting("use_bias", "recurrence_biases", False),
        Rule(("mamba_num_heads", "mamba_head_dim", "time_step_min", "time_step_limit"), _read_steps, _write_steps),
        Rule(_LAYOUT, _read_layout, _write_layout),
        *with_defaults(ROUTED, {"num_experts_per_tok": 2}),
    ),
    tensors=(
        Tensor("embedding.weight", "backbone.embeddings.weight", by_token=True),
        Tensor(_BLOCK + "norms.0.weight", "backbone.layers.{layer}.norm.weight"),
        *mamba2(_MIXER),
        Tensor(
            *(_BLOCK + "attention.query_key_value.weight", tuple(f"{_MIXER}{name}_proj.weight" for name in "qkv")),
            QUERY_KEY_VALUE,
        ),
        Tensor(_BLOCK + "attention.out.weight", _MIXER + "o_proj.weight"),
        Tensor(_FED + "router.weight", _MIXER + "gate.weight"),
        Tensor(_FED + "shift", _MIXER + "gate.e_score_correction_bias"),
        *(
            Tensor(f"{_FED}{ours}{part}.weight", f"{_MIXER}{theirs}{part}_proj.weight")
            for ours, theirs in (("", ""), ("experts.{expert}.", "experts.{expert}."), ("shared.", "shared_experts."))
            for part in ("up", "down")
        ),
        Tensor("encoder.norm.weight", "backbone.norm_f.weight"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={
        **dict.fromkeys(("attention_bias", "mlp_bias", "mamba_proj_bias"), False),
        **dict.fromkeys(("sliding_window", "moe_latent_size"), None),
        "mamba_hidden_act": "silu",
        "n_shared_experts": 1,
    },
    ignored=(
        *(*MIXTRAL.ignored, *_OF_STEPS[1:3], "num_logits_to_keep", "expand", "chunk_size", "hidden_dropout"),
        *("residual_in_fp32", "rescale_prenorm_residual", "use_mamba_kernels", "mamba_ssm_cache_dtype"),
        *("moe_shared_expert_overlap", "num_nextn_predict_layers", "mtp_layers_block_type", "mtp_layer_types"),
        *("mtp_hybrid_override_pattern", "attention_head_dim", "rms_norm", "norm_eps"),
    ),
    ignored_tensors=(r"mtp\..*",),
)
