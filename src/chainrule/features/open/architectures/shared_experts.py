"""Mixtures with an expert for all tokens: Qwen 2 MoE (Qwen Team 2024), Granite 3 MoE (IBM 2024), GLM 4 MoE (Zeng et
al. 2025).

Qwen 2 MoE has a gate after it. Granite 3 MoE may be without it. GLM 4 MoE chooses experts as DeepSeek V3 does, and has
none in its first layers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import TWO_PARTS, Rule, Setting, Tensor
from chainrule.features.open.architectures.llama import (
    GRANITE,
    LLAMA,
    MIXTRAL,
    NAMES,
    QUERY_KEY_GAINS,
    WITH_DENSE_LAYERS,
    biases,
    qwen_layers,
    sparse,
)
from chainrule.features.open.architectures.llama_kin import with_defaults, with_settings
from chainrule.features.open.positions import rotary

if TYPE_CHECKING:
    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_FED, _LAYER = "encoder.blocks.{layer}.feed_forward.", "model.layers.{layer}."


def shared_expert(theirs: str) -> tuple[Tensor, ...]:
    """Return the tensors of an expert for all tokens. theirs: its name in a layer."""
    gate, up, down = (f"{_LAYER}{theirs}.{name}.weight" for name in NAMES)
    return Tensor(_FED + "shared.up.weight", (gate, up), TWO_PARTS), Tensor(_FED + "shared.down.weight", down)


QWEN2_MOE = replace(
    LLAMA,
    model_type="qwen2_moe",
    class_name="Qwen2MoeForCausalLM",
    implied={**LLAMA.implied, "gated_shared_expert": True},
    settings=(
        *with_settings(LLAMA.settings, sparse(60, 1408, 5632), biases({"query_key_value": ("qkv_bias", True)})),
        Setting("shared_expert_intermediate_size", "shared_expert_width", 5632),
        Setting("num_experts_per_tok", "chosen_experts", 4),
        Setting("norm_topk_prob", "normalised_experts", False),
        qwen_layers(lambda config, layer: layer % 2 == 0 and layer < config.get("max_window_layers", 28)),
    ),
    tensors=(
        *WITH_DENSE_LAYERS,
        *shared_expert("mlp.shared_expert"),
        Tensor(_FED + "shared_gate.weight", _LAYER + "mlp.shared_expert_gate.weight"),
    ),
    ignored=MIXTRAL.ignored,
)


# Granite's experts, all in one tensor, and the one for all tokens.
_PARTS = (("up", "input_linear"), ("down", "output_linear"))
GRANITE_EXPERTS = (
    Tensor(_FED + "router.weight", _LAYER + "block_sparse_moe.router.layer.weight"),
    *(
        Tensor(f"{_FED}experts.{{expert}}.{ours}.weight", f"{_LAYER}block_sparse_moe.{theirs}.weight", of_experts=True)
        for ours, theirs in _PARTS
    ),
)
GRANITE_SHARED = tuple(
    Tensor(f"{_FED}shared.{ours}.weight", f"{_LAYER}shared_mlp.{theirs}.weight") for ours, theirs in _PARTS
)

_OF_ATTENTION = ("attention_bias", False)

GRANITE_MOE = replace(
    GRANITE,
    model_type="granitemoe",
    class_name="GraniteMoeForCausalLM",
    settings=(
        *with_settings(GRANITE.settings, biases({"query_key_value": _OF_ATTENTION, "attention_out": _OF_ATTENTION})),
        Setting("num_local_experts", "experts", 8),
        Setting("num_experts_per_tok", "chosen_experts", 2),
    ),
    tensors=(*(row for row in LLAMA.tensors if not row.ours.startswith(_FED)), *GRANITE_EXPERTS),
    ignored=MIXTRAL.ignored,
)

GRANITE_MOE_SHARED = replace(
    GRANITE_MOE,
    model_type="granitemoeshared",
    class_name="GraniteMoeSharedForCausalLM",
    settings=(*GRANITE_MOE.settings, Setting("shared_intermediate_size", "shared_expert_width", 0)),
    tensors=(*GRANITE_MOE.tensors, *GRANITE_SHARED),
)


_FIELDS = (
    "first_k_dense_replace",
    "n_routed_experts",
    "moe_intermediate_size",
    "intermediate_size",
    "n_shared_experts",
)


def after_dense(
    first: int, count: int, width: int, dense: int, shared: int = 0, fields: tuple[str, ...] = _FIELDS
) -> Rule:
    """Return the rule of experts in all layers but the first ones, by its defaults.

    first: layers without experts. count: of experts. width, dense: hidden numbers of one, and of a layer without.
    shared: how many are together the one for all tokens. fields: their names, but for `shared` where there is none.
    """
    defaults = dict(zip(fields, (first, count, width, dense, shared), strict=False))

    def read(config: Json) -> Json:
        said = {name: default if config.get(name) is None else config[name] for name, default in defaults.items()}
        first, count, width, dense, shared = (*said.values(), 0)[:5]
        return {
            "experts": count,
            "feed_forward_width": width,
            "dense_layers": tuple(range(min(first, config["num_hidden_layers"]))),
            "dense_width": dense if first else None,
            "shared_expert_width": shared * width,
        }

    def write(config: OpenSettings) -> Json:
        shared = config.shared_expert_width / config.hidden_width
        values = len(config.dense_layers), config.experts, config.hidden_width, config.dense_width, int(shared)
        written = dict(zip(fields, values, strict=False))
        return written if config.dense_width is not None else {**written, "intermediate_size": config.hidden_width}

    return Rule(fields, read, write)


# What a router chooses by.
SHIFT = Tensor(_FED + "shift", _LAYER + "mlp.gate.e_score_correction_bias")
ROUTED = (
    Setting("num_experts_per_tok", "chosen_experts", 8),
    Setting("routed_scaling_factor", "routed_scale", 1.0),
    Setting("n_group", "expert_groups", 1),
    Setting("topk_group", "chosen_groups", 1),
    Setting("norm_topk_prob", "normalised_experts", True),
)
SIGMOID = {"router": "sigmoid", "router_shift": True}
IGNORED = (*MIXTRAL.ignored, "num_nextn_predict_layers", "num_mtp_layers")
NEXT = r"model\.layers\.LAYERS\..*"  # a layer that predicts the token after the next one

GLM4_MOE = replace(
    LLAMA,
    model_type="glm4_moe",
    class_name="Glm4MoeForCausalLM",
    implied={**LLAMA.implied, **SIGMOID},
    settings=(
        *with_settings(
            with_defaults(LLAMA.settings, {"rms_norm_eps": 1e-5, "max_position_embeddings": 131_072}),
            after_dense(1, 128, 1408, 10_944, 1),
            biases({"query_key_value": _OF_ATTENTION}),
            rotary(share=0.5),
        ),
        *ROUTED,
        Setting("use_qk_norm", "query_key_norm", False),
    ),
    tensors=(*WITH_DENSE_LAYERS, *shared_expert("mlp.shared_experts"), SHIFT, *QUERY_KEY_GAINS),
    ignored=IGNORED,
    ignored_tensors=(*LLAMA.ignored_tensors, NEXT),
)
