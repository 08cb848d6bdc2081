"""Command R (Cohere 2024, 2025) and GLM (Zeng et al. 2024): LLaMAs whose positions rotate neighbours.

Command R has LayerNorm, and attention and feed-forward in parallel with one norm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import GATED, NEIGHBOURS_ROTATED, QUERY_KEY_VALUE, Setting, Tensor
from chainrule.features.open.architectures.llama import LLAMA
from chainrule.features.open.positions import ROPE, every, layer_types, rotary

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_ALL = ("query_key_value", "attention_out", "feed_forward")
_LAYER_NORM = {"norm": "layer", "norm_gain": True, "embedding_norm": False, "query_key_norm": False}
# A LLaMA whose positions rotate neighbours.
_TENSORS = tuple(
    row._replace(change=NEIGHBOURS_ROTATED) if row.change is QUERY_KEY_VALUE else row for row in LLAMA.tensors
)

COHERE = replace(
    LLAMA,
    model_type="cohere",
    class_name="CohereForCausalLM",
    implied={**_LAYER_NORM, "parallel": True, "shared_norm": True, "biases": False},
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("num_key_value_heads", "key_value_heads", None),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 8192),
        Setting("layer_norm_eps", "norm_epsilon", 1e-5),
        Setting("hidden_act", "feed_forward", "silu", GATED),
        Setting("tie_word_embeddings", "tied", True),
        Setting("logit_scale", "logit_scale", 0.0625),
        rotary(base=500_000.0),
    ),
    tensors=tuple(row for row in _TENSORS if row.ours != _BLOCK + "norms.1.weight"),
    fixed={"attention_bias": False, "use_qk_norm": False},
)

COHERE2 = replace(
    COHERE,
    model_type="cohere2",
    class_name="Cohere2ForCausalLM",
    settings=(
        *COHERE.settings[:-1],
        ROPE,
        Setting("head_dim", "head_width", None),
        layer_types(
            *(every("sliding_window_pattern", 4), "sliding_window_pattern"), rotates_windows_only=True, keeps=True
        ),
    ),
    fixed={"attention_bias": False},
    ignored=(
        *LLAMA.ignored,
        "cache_implementation",
        "order_of_interleaved_layers",
        "position_embedding_type",
        "rotary_pct",
    ),
)


def _glm(*norms: Tensor) -> tuple[Tensor, ...]:
    return (
        *(row for row in _TENSORS if not row.ours.startswith((_BLOCK + "feed_forward.up", _BLOCK + "norms"))),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "mlp.gate_up_proj.weight"),
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "input_layernorm.weight"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "post_attention_layernorm.weight"),
        *norms,
    )


GLM = replace(
    LLAMA,
    model_type="glm",
    class_name="GlmForCausalLM",
    implied={**LLAMA.implied, "biases": True},
    settings=(
        *(row for row in LLAMA.settings if isinstance(row, Setting) and row.theirs != "head_dim"),
        Setting("head_dim", "head_width", 128),
        Setting(*("attention_bias", "without_biases", True), {True: ("attention_out", "feed_forward"), False: _ALL}),
        rotary(share=0.5),
    ),
    tensors=_glm(),
)

GLM4 = replace(
    GLM,
    model_type="glm4",
    class_name="Glm4ForCausalLM",
    implied={**GLM.implied, "sublayer_norms": "both"},
    tensors=_glm(
        Tensor(_BLOCK + "norms_after.0.weight", _LAYER + "post_self_attn_layernorm.weight"),
        Tensor(_BLOCK + "norms_after.1.weight", _LAYER + "post_mlp_layernorm.weight"),
    ),
)
