"""nanochat (Karpathy 2025): our default Transformer, except that its positions rotate in the opposite direction."""

from __future__ import annotations

from typing import Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import ACTIVATIONS, ROPE, ROTATED_BACKWARDS, Architecture, Rule, Setting, Tensor

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."


def _read_cap(config: dict[str, Any]) -> dict[str, Any]:
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
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("num_key_value_heads", "key_value_heads", None),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 2048),
        Setting("rms_norm_eps", "norm_epsilon", 1e-6),
        Setting("hidden_act", "feed_forward", "relu2", ACTIVATIONS),
        Setting("head_dim", "head_width", None),
        Setting("tie_word_embeddings", "tied", False),
        ROPE,
        Rule(("final_logit_softcapping",), _read_cap, lambda config: {"final_logit_softcapping": None}),
    ),
    tensors=(
        Tensor("embedding.weight", "model.embed_tokens.weight", by_token=True),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            tuple(f"{_LAYER}self_attn.{name}_proj.weight" for name in "qkv"),
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
