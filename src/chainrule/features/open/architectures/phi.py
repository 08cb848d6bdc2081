"""Phi, StableLM and StarCoder 2: LLaMAs with LayerNorm, most of which rotate a part of each head; and Phi-3.

Phi 1, 1.5 and 2 (Li et al. 2023): attention and feed-forward in parallel, with one norm, and biases throughout. Phi-3
(Abdin et al. 2024): joined matrices, and LongRoPE. StableLM 2 (Bellagamba et al. 2024). StarCoder 2 (Lozhkov et al.
2024).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import (
    ACTIVATIONS,
    GATED,
    QUERY_KEY_VALUE,
    TWO_PARTS,
    Architecture,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.features.open.architectures.llama import LLAMA
from chainrule.features.open.network.config import OpenTransformerConfig
from chainrule.features.open.positions import SLIDING_WINDOW, rotary

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_ATTENTION = tuple(f"{_LAYER}self_attn.{name}_proj" for name in "qkv")
_IMPLIED = {"norm": "layer", "norm_gain": True, "embedding_norm": False, "query_key_norm": False, "biases": True}
_SIZES = (
    Setting("num_hidden_layers", "layers"),
    Setting("hidden_size", "width"),
    Setting("num_attention_heads", "heads"),
    Setting("num_key_value_heads", "key_value_heads", None),
    Setting("intermediate_size", "feed_forward_width"),
)
_EMBEDDINGS = (
    Tensor("embedding.weight", "model.embed_tokens.weight", by_token=True),
    Tensor("output.weight", "lm_head.weight", by_token=True),
)
_DROPOUTS = (
    "attention_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "hidden_dropout",
    "residual_dropout",
    "embedding_dropout",
)

PHI = Architecture(
    model_type="phi",
    class_name="PhiForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "parallel": True, "shared_norm": True, "output_bias": True},
    settings=(
        *_SIZES,
        Setting("max_position_embeddings", "context", 2048),
        Setting("layer_norm_eps", "norm_epsilon", 1e-5),
        Setting("hidden_act", "feed_forward", "gelu_new", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", False),
        rotary(share=0.5),
    ),
    tensors=(
        *_EMBEDDINGS,
        *weight_and_bias(_BLOCK + "norms.0", _LAYER + "input_layernorm"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _LAYER + "self_attn.dense"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _LAYER + "mlp.fc1"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _LAYER + "mlp.fc2"),
        *weight_and_bias("encoder.norm", "model.final_layernorm"),
        Tensor("output.bias", "lm_head.bias", by_token=True),
    ),
    fixed={"qk_layernorm": False},
    ignored=_DROPOUTS,
)

PHI3 = replace(
    LLAMA,
    model_type="phi3",
    class_name="Phi3ForCausalLM",
    settings=(
        *_SIZES,
        Setting("max_position_embeddings", "context", 4096),
        Setting("rms_norm_eps", "norm_epsilon", 1e-5),
        Setting("hidden_act", "feed_forward", "silu", GATED),
        Setting("tie_word_embeddings", "tied", False),
        rotary(),
        SLIDING_WINDOW,
    ),
    tensors=(
        *(row for row in LLAMA.tensors if isinstance(row.theirs, str)),
        Tensor(_BLOCK + "attention.query_key_value.weight", _LAYER + "self_attn.qkv_proj.weight"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "mlp.gate_up_proj.weight"),
    ),
    fixed={"attention_bias": False},
    ignored=_DROPOUTS,
)

STABLELM = Architecture(
    model_type="stablelm",
    class_name="StableLmForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "shared_norm": True},
    settings=(
        *_SIZES,
        Setting("max_position_embeddings", "context", 4096),
        Setting("layer_norm_eps", "norm_epsilon", 1e-5),
        Setting("hidden_act", "feed_forward", "silu", GATED),
        Setting("tie_word_embeddings", "tied", False),
        Setting("use_parallel_residual", "parallel", False),
        Setting(
            *("use_qkv_bias", "without_biases", False),
            {
                False: ("query_key_value", "attention_out", "feed_forward"),
                True: ("attention_out", "feed_forward"),
            },
        ),
        rotary(share=0.25),
    ),
    tensors=(
        *_EMBEDDINGS,
        *weight_and_bias(_BLOCK + "norms.0", _LAYER + "input_layernorm"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "self_attn.o_proj.weight"),
        *weight_and_bias(_BLOCK + "norms.1", _LAYER + "post_attention_layernorm"),
        Tensor(
            *(_BLOCK + "feed_forward.up.weight", (_LAYER + "mlp.gate_proj.weight", _LAYER + "mlp.up_proj.weight")),
            TWO_PARTS,
        ),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "mlp.down_proj.weight"),
        *weight_and_bias("encoder.norm", "model.norm"),
    ),
    fixed={"qk_layernorm": False},
    ignored=_DROPOUTS,
)


def _read_biases(config: Json) -> Json:
    parts = ("query_key_value", "attention_out", "feed_forward")
    return {"without_biases": () if config.get("use_bias", True) else parts}


STARCODER2 = Architecture(
    model_type="starcoder2",
    class_name="Starcoder2ForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied=_IMPLIED,
    settings=(
        *_SIZES,
        Setting("max_position_embeddings", "context", 4096),
        Setting("norm_epsilon", "norm_epsilon", 1e-5),
        Setting("hidden_act", "feed_forward", "gelu_pytorch_tanh", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", True),
        Rule(("use_bias",), _read_biases, lambda config: {"use_bias": config.has_biases("feed_forward")}),
        rotary(),
        SLIDING_WINDOW,
    ),
    tensors=(
        *_EMBEDDINGS,
        *weight_and_bias(_BLOCK + "norms.0", _LAYER + "input_layernorm"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _LAYER + "self_attn.o_proj"),
        *weight_and_bias(_BLOCK + "norms.1", _LAYER + "post_attention_layernorm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _LAYER + "mlp.c_fc"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _LAYER + "mlp.c_proj"),
        *weight_and_bias("encoder.norm", "model.norm"),
    ),
    ignored=(*_DROPOUTS, "activation_function", "layer_norm_epsilon", "embedding_multiplier"),
)
