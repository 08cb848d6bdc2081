"""LLaMA (Touvron et al. 2023) and its relatives Mistral, Qwen2 and nanochat. SmolLM2 and TinyLlama are LLaMAs.

nanochat (Karpathy 2025) is our default Transformer, except that its positions rotate in the opposite direction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import (
    ACTIVATIONS,
    GATED,
    QUERY_KEY_VALUE,
    ROPE,
    ROTATED_BACKWARDS,
    SLIDING_WINDOW,
    TWO_PARTS,
    Architecture,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_ATTENTION = tuple(f"{_LAYER}self_attn.{name}_proj" for name in "qkv")


def _read_biases(config: Json) -> Json:
    attention, feed_forward = config.get("attention_bias", False), config.get("mlp_bias", False)
    without = [] if attention else ["query_key_value", "attention_out"]
    without += [] if feed_forward else ["feed_forward"]
    return {"biases": attention or feed_forward, "without_biases": tuple(without) if attention or feed_forward else ()}


def _write_biases(config: TransformerConfig) -> Json:
    return {"attention_bias": config.has_biases("attention_out"), "mlp_bias": config.has_biases("feed_forward")}


_BIASES = Rule(("attention_bias", "mlp_bias"), _read_biases, _write_biases)


def _settings(activation: str, activations: Mapping[str, str]) -> tuple[Setting | Rule, ...]:
    """activation: that of files which do not say. activations: ours, by the names that files have."""
    return (
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("num_key_value_heads", "key_value_heads", None),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 2048),
        Setting("rms_norm_eps", "norm_epsilon", 1e-6),
        Setting("hidden_act", "feed_forward", activation, activations),
        Setting("head_dim", "head_width", None),
        Setting("tie_word_embeddings", "tied", False),
        ROPE,
    )


_SETTINGS = _settings("silu", GATED)

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
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _LAYER + "self_attn.o_proj"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "post_attention_layernorm.weight"),
        *weight_and_bias(_BLOCK + "feed_forward.up", (_LAYER + "mlp.gate_proj", _LAYER + "mlp.up_proj"), TWO_PARTS),
        *weight_and_bias(_BLOCK + "feed_forward.down", _LAYER + "mlp.down_proj"),
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


def _read_cap(config: Json) -> Json:
    """Raises ValueError: without the field, or null, transformers caps logits at 15."""
    if (cap := config.get("final_logit_softcapping", 15.0)) is not None:
        raise ValueError(f"a cap of {cap} is not supported; expected null")
    return {}


NANOCHAT = Architecture(
    model_type="nanochat",
    class_name="NanoChatForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={"norm": "rms", "norm_gain": False, "embedding_norm": True, "query_key_norm": True, "biases": False},
    settings=(
        *_settings("relu2", ACTIVATIONS),
        Rule(("final_logit_softcapping",), _read_cap, lambda config: {"final_logit_softcapping": None}),
    ),
    tensors=(
        Tensor("embedding.weight", "model.embed_tokens.weight", by_token=True),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            tuple(f"{name}.weight" for name in _ATTENTION),
            ROTATED_BACKWARDS,
        ),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "self_attn.o_proj.weight"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "mlp.fc1.weight"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "mlp.fc2.weight"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={"attention_bias": False},
    ignored=("attention_dropout",),
)
