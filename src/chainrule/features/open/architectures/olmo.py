"""OLMo (Groeneveld et al. 2024): LayerNorm without gains. OLMo 2 and 3, and EXAONE 4: norms after sub-layers only.

OLMoE (Muennighoff et al. 2024) has experts, and norms first. It and OLMo 2 (Team OLMo 2025) normalise all heads of
queries together, and those of keys. OLMo 3 has a window in three of four layers, and scaled positions in the others.
EXAONE 4 (LG 2025) normalises each head, and where there are windows, the other layers have no positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import Rule, Setting, Tensor
from chainrule.features.open.architectures.llama import LLAMA, MIXTRAL, QUERY_KEY_GAINS, with_experts
from chainrule.features.open.positions import every, layer_types, rotary

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."


def _is_rope(row: Setting | Rule) -> bool:
    return isinstance(row, Rule) and "rope_parameters" in row.fields


OLMO = replace(
    LLAMA,
    model_type="olmo",
    class_name="OlmoForCausalLM",
    implied={**LLAMA.implied, "norm": "layer", "norm_gain": False, "norm_epsilon": 1e-5},
    settings=tuple(row for row in LLAMA.settings if not isinstance(row, Setting) or row.ours != "norm_epsilon"),
    tensors=tuple(row for row in LLAMA.tensors if "norm" not in row.ours),
    fixed={"clip_qkv": None},
)

OLMOE = replace(
    LLAMA,
    model_type="olmoe",
    class_name="OlmoeForCausalLM",
    implied={**LLAMA.implied, "query_key_norm": True, "joint_query_key_norm": True},
    settings=(
        *(row for row in LLAMA.settings if not isinstance(row, Setting) or row.ours != "norm_epsilon"),
        Setting("rms_norm_eps", "norm_epsilon", 1e-5),
        Setting("num_experts", "experts", 64),
        Setting("num_experts_per_tok", "chosen_experts", 8),
        Setting("norm_topk_prob", "normalised_experts", False),
    ),
    tensors=(*with_experts("mlp.gate", "mlp.experts.{expert}"), *QUERY_KEY_GAINS),
    fixed={"clip_qkv": None},
    ignored=MIXTRAL.ignored,
)

OLMO2 = replace(
    LLAMA,
    model_type="olmo2",
    class_name="Olmo2ForCausalLM",
    implied={
        **LLAMA.implied,
        "sublayer_norms": "after",
        "query_key_norm": True,
        "joint_query_key_norm": True,
    },
    tensors=(
        *(row for row in LLAMA.tensors if not row.ours.startswith(_BLOCK + "norms.")),
        Tensor(_BLOCK + "norms_after.0.weight", _LAYER + "post_attention_layernorm.weight"),
        Tensor(_BLOCK + "norms_after.1.weight", _LAYER + "post_feedforward_layernorm.weight"),
        *QUERY_KEY_GAINS,
    ),
)

OLMO3 = replace(
    OLMO2,
    model_type="olmo3",
    class_name="Olmo3ForCausalLM",
    settings=(
        *(row for row in OLMO2.settings if not _is_rope(row)),
        rotary(base=500_000.0, local="rope_theta"),
        layer_types(every("", 4), keeps=True),
    ),
)


def _has_window(config: Json, layer: int) -> bool:
    """Return whether a layer has a window.

    sliding_window_pattern: 4 where every fourth layer has no window, or letters such as LLLG.
    """
    pattern = config.get("sliding_window_pattern", 4)
    if isinstance(pattern, str):
        return pattern[layer % len(pattern)] == "L"
    return bool(pattern) and bool((layer + 1) % pattern)


EXAONE4 = replace(
    OLMO2,
    model_type="exaone4",
    class_name="Exaone4ForCausalLM",
    implied={**OLMO2.implied, "joint_query_key_norm": False},
    settings=(
        *LLAMA.settings,
        layer_types(_has_window, "sliding_window_pattern", rotates_windows_only=True, keeps=True),
    ),
)
