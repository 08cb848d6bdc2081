"""OPT (Zhang et al. 2022): GPT-2 with ReLU; its first position is the third row of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import ACTIVATIONS, QUERY_KEY_VALUE, Architecture, Rule, Setting, Tensor

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.decoder.layers.{layer}."


def _read_width(config: Json) -> Json:
    width, inner = config.get("word_embed_proj_dim"), config["hidden_size"]
    if width not in (None, inner):
        raise ValueError(
            f"token vectors of width {width} in layers of width {inner} are not supported; expected the same width"
        )
    return {"width": inner}


def _of_attention(kind: str) -> tuple[str, ...]:
    return tuple(f"{_LAYER}self_attn.{name}_proj.{kind}" for name in "qkv")


OPT = Architecture(
    model_type="opt",
    class_name="OPTForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={
        "norm": "layer",
        "norm_gain": True,
        "norm_epsilon": 1e-5,
        "embedding_norm": False,
        "positions": "learned",
        "position_offset": 2,
        "query_key_norm": False,
        "biases": True,
    },
    settings=(
        Setting("num_hidden_layers", "layers"),
        Rule(
            ("hidden_size", "word_embed_proj_dim"),
            _read_width,
            lambda config: {"hidden_size": config.width, "word_embed_proj_dim": config.width},
        ),
        Setting("num_attention_heads", "heads"),
        Setting("ffn_dim", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 2048),
        Setting("activation_function", "feed_forward", "relu", ACTIVATIONS),
        Setting("do_layer_norm_before", "norm_place", True, {True: "pre", False: "post"}),
        Setting("tie_word_embeddings", "tied", True),
    ),
    tensors=(
        Tensor("embedding.weight", "model.decoder.embed_tokens.weight", by_token=True),
        Tensor("encoder.places.vectors", "model.decoder.embed_positions.weight"),
        Tensor(_BLOCK + "attention.query_key_value.weight", _of_attention("weight"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.query_key_value.bias", _of_attention("bias"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "self_attn.out_proj.weight"),
        Tensor(_BLOCK + "attention.out.bias", _LAYER + "self_attn.out_proj.bias"),
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "self_attn_layer_norm.weight"),
        Tensor(_BLOCK + "norms.0.bias", _LAYER + "self_attn_layer_norm.bias"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "fc1.weight"),
        Tensor(_BLOCK + "feed_forward.up.bias", _LAYER + "fc1.bias"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "fc2.weight"),
        Tensor(_BLOCK + "feed_forward.down.bias", _LAYER + "fc2.bias"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "final_layer_norm.weight"),
        Tensor(_BLOCK + "norms.1.bias", _LAYER + "final_layer_norm.bias"),
        Tensor("encoder.norm.weight", "model.decoder.final_layer_norm.weight"),
        Tensor("encoder.norm.bias", "model.decoder.final_layer_norm.bias"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={"enable_bias": True, "layer_norm_elementwise_affine": True, "_remove_final_layer_norm": False},
    ignored=("dropout", "attention_dropout", "activation_dropout", "layerdrop", "init_std"),
    prefix="model.",
)
