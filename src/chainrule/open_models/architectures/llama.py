"""LLaMA (Touvron et al. 2023) and its near relatives Mistral and Qwen2. SmolLM2 and TinyLlama are LLaMAs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import (
    GATED,
    QUERY_KEY_VALUE,
    ROPE,
    SLIDING_WINDOW,
    TWO_PARTS,
    Architecture,
    Rule,
    Setting,
    Tensor,
)

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."


def _of(part: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{_LAYER}{part}.{name}" for name in names)


def _read_biases(config: Json) -> Json:
    attention, feed_forward = config.get("attention_bias", False), config.get("mlp_bias", False)
    without = [] if attention else ["query_key_value", "attention_out"]
    without += [] if feed_forward else ["feed_forward"]
    return {"biases": attention or feed_forward, "without_biases": tuple(without) if attention or feed_forward else ()}


def _write_biases(config: TransformerConfig) -> Json:
    return {"attention_bias": config.has_biases("attention_out"), "mlp_bias": config.has_biases("feed_forward")}


_BIASES = Rule(("attention_bias", "mlp_bias"), _read_biases, _write_biases)
_SETTINGS = (
    Setting("num_hidden_layers", "layers"),
    Setting("hidden_size", "width"),
    Setting("num_attention_heads", "heads"),
    Setting("num_key_value_heads", "key_value_heads", None),
    Setting("intermediate_size", "feed_forward_width"),
    Setting("max_position_embeddings", "context", 2048),
    Setting("rms_norm_eps", "norm_epsilon", 1e-6),
    Setting("hidden_act", "feed_forward", "silu", GATED),
    Setting("head_dim", "head_width", None),
    Setting("tie_word_embeddings", "tied", False),
    ROPE,
)

LLAMA = Architecture(
    model_type="llama",
    class_name="LlamaForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={"norm": "rms", "norm_gain": True, "embedding_norm": False, "query_key_norm": False},
    settings=(*_SETTINGS, _BIASES),
    tensors=(
        Tensor("embedding.weight", "model.embed_tokens.weight", by_token=True),
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "input_layernorm.weight"),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            _of("self_attn", "q_proj.weight", "k_proj.weight", "v_proj.weight"),
            QUERY_KEY_VALUE,
        ),
        Tensor(
            _BLOCK + "attention.query_key_value.bias",
            _of("self_attn", "q_proj.bias", "k_proj.bias", "v_proj.bias"),
            QUERY_KEY_VALUE,
        ),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "self_attn.o_proj.weight"),
        Tensor(_BLOCK + "attention.out.bias", _LAYER + "self_attn.o_proj.bias"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "post_attention_layernorm.weight"),
        Tensor(_BLOCK + "feed_forward.up.weight", _of("mlp", "gate_proj.weight", "up_proj.weight"), TWO_PARTS),
        Tensor(_BLOCK + "feed_forward.up.bias", _of("mlp", "gate_proj.bias", "up_proj.bias"), TWO_PARTS),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "mlp.down_proj.weight"),
        Tensor(_BLOCK + "feed_forward.down.bias", _LAYER + "mlp.down_proj.bias"),
        Tensor("encoder.norm.weight", "model.norm.weight"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    ignored=("attention_dropout", "pretraining_tp", "rope_interleaved"),
    ignored_tensors=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
)
MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    class_name="MistralForCausalLM",
    settings=(*_SETTINGS, SLIDING_WINDOW),
)
QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    class_name="Qwen2ForCausalLM",
    implied={**LLAMA.implied, "biases": True, "without_biases": ("attention_out", "feed_forward")},
    settings=_SETTINGS,
    fixed={"use_sliding_window": False},
    ignored=("attention_dropout", "sliding_window", "max_window_layers", "layer_types"),
)
