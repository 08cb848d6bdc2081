"""Command R, GPT-J, GLM, Falcon and BLOOM: relatives of GPT-NeoX whose matrices, or rotations, are arranged otherwise.

GPT-J (Wang and Komatsuzaki 2021) and Command R (Cohere 2024, 2025) have attention and feed-forward in parallel with one
norm. They and GLM (Zeng et al. 2024) rotate neighbours. Falcon (Almazrouei et al. 2023) has one head of keys, or one
for each group of queries. BLOOM (BigScience 2022) has ALiBi, and a norm after the embedding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import (
    ACTIVATIONS,
    GATED,
    GROUP_BY_GROUP,
    HEAD_BY_HEAD,
    NEIGHBOURS_ROTATED,
    QUERY_KEY_VALUE,
    Architecture,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.open_models.architectures.llama import LLAMA
from chainrule.open_models.positions import ROPE, every, layer_types, rotary

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER, _GPT_LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}.", "transformer.h.{layer}."
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


def _read_rotated(config: Json) -> Json:
    whole = config["n_embd"] // config["n_head"]
    return {"positions": "rotary", "rotary_base": 10_000.0, "rotary_width": config.get("rotary_dim", 64) or whole}


GPTJ = Architecture(
    model_type="gptj",
    class_name="GPTJForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={
        **_LAYER_NORM,
        "parallel": True,
        "shared_norm": True,
        "biases": True,
        "without_biases": ("query_key_value", "attention_out"),
        "output_bias": True,
    },
    settings=(
        Setting("n_layer", "layers"),
        Setting("n_embd", "width"),
        Setting("n_head", "heads"),
        Setting("n_positions", "context", 2048),
        Setting("n_inner", "feed_forward_width", None),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("activation_function", "feed_forward", "gelu_new", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", False),
        Rule(("rotary_dim",), _read_rotated, lambda config: {"rotary_dim": config.rotated_width}),
    ),
    tensors=(
        Tensor("embedding.weight", "transformer.wte.weight", by_token=True),
        *weight_and_bias(_BLOCK + "norms.0", _GPT_LAYER + "ln_1"),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            tuple(f"{_GPT_LAYER}attn.{name}_proj.weight" for name in "qkv"),
            NEIGHBOURS_ROTATED,
        ),
        Tensor(_BLOCK + "attention.out.weight", _GPT_LAYER + "attn.out_proj.weight"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _GPT_LAYER + "mlp.fc_in"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _GPT_LAYER + "mlp.fc_out"),
        *weight_and_bias("encoder.norm", "transformer.ln_f"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
        Tensor("output.bias", "lm_head.bias", by_token=True),
    ),
    fixed={"scale_attn_weights": True},
    ignored=(
        *("n_ctx", "attn_pdrop", "embd_pdrop", "resid_pdrop", "rotary"),
        *(f"summary_{part}" for part in ("activation", "first_dropout", "proj_to_labels", "type", "use_proj")),
    ),
    ignored_tensors=(r"transformer\.h\.\d+\.attn\.(masked_)?bias", r"transformer\.h\.\d+\.attn\.embed_positions"),
    prefix="transformer.",
)


def _read_falcon(config: Json) -> Json:
    heads, is_new = config["num_attention_heads"], config.get("new_decoder_architecture", False)
    parallel = config.get("parallel_attn", True)
    if config.get("alibi"):
        raise ValueError("alibi is true, whose biases Falcon scales, too; expected false")
    if is_new and not parallel:
        raise ValueError("a new decoder is parallel; expected parallel_attn to be true")
    key_heads = 1 if config.get("multi_query", True) else heads
    if is_new:
        key_heads = config.get("num_kv_heads") or heads
    norms = config.get("num_ln_in_parallel_attn") or (2 if is_new else 1)
    return {
        "key_value_heads": key_heads,
        "parallel": parallel,
        "shared_norm": norms == 1,
        "without_biases": () if config.get("bias", False) else _ALL,
    }


def _write_falcon(config: TransformerConfig) -> Json:
    two_norms = config.parallel and not config.shared_norm
    is_new = two_norms or config.key_heads not in (1, config.heads)
    return {
        "new_decoder_architecture": is_new,
        "num_kv_heads": config.key_heads,
        "multi_query": config.key_heads == 1,
        "parallel_attn": config.parallel,
        "num_ln_in_parallel_attn": 2 if two_norms else 1 if is_new else None,
        "bias": config.has_biases("feed_forward"),
        "alibi": False,
    }


def _has_two(config: TransformerConfig) -> bool:
    return config.parallel and not config.shared_norm


def _norms(index: int, *, of_two: str, otherwise: str) -> tuple[Tensor, ...]:
    ours = f"{_BLOCK}norms.{index}"
    return (
        *(row._replace(when=_has_two) for row in weight_and_bias(ours, _GPT_LAYER + of_two)),
        *(
            row._replace(when=lambda config: not _has_two(config))
            for row in weight_and_bias(ours, _GPT_LAYER + otherwise)
        ),
    )


_FALCON_FIELDS = (
    *("new_decoder_architecture", "num_kv_heads", "multi_query", "parallel_attn", "num_ln_in_parallel_attn", "bias"),
    "alibi",
)

FALCON = Architecture(
    model_type="falcon",
    class_name="FalconForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={**_LAYER_NORM, "biases": True},
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("ffn_hidden_size", "feed_forward_width", None),
        Setting("max_position_embeddings", "context", 2048),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("activation", "feed_forward", "gelu", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", True),
        Rule(_FALCON_FIELDS, _read_falcon, _write_falcon),
        ROPE,
    ),
    tensors=(
        Tensor("embedding.weight", "transformer.word_embeddings.weight", by_token=True),
        *_norms(0, of_two="ln_attn", otherwise="input_layernorm"),
        *_norms(1, of_two="ln_mlp", otherwise="post_attention_layernorm"),
        *weight_and_bias(
            *(_BLOCK + "attention.query_key_value", _GPT_LAYER + "self_attention.query_key_value", GROUP_BY_GROUP)
        ),
        *weight_and_bias(_BLOCK + "attention.out", _GPT_LAYER + "self_attention.dense"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _GPT_LAYER + "mlp.dense_h_to_4h"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _GPT_LAYER + "mlp.dense_4h_to_h"),
        *weight_and_bias("encoder.norm", "transformer.ln_f"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    ignored=("attention_dropout", "hidden_dropout", "apply_residual_connection_post_layernorm"),
    ignored_tensors=(r"transformer\.h\.\d+\.self_attention\.rotary_emb\.inv_freq",),
    prefix="transformer.",
)

BLOOM = Architecture(
    model_type="bloom",
    class_name="BloomForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={
        **_LAYER_NORM,
        "embedding_norm": True,
        "biases": True,
        "positions": "alibi",
        "feed_forward": "gelu",
    },
    settings=(
        Setting("n_layer", "layers"),
        Setting("hidden_size", "width"),
        Setting("n_head", "heads"),
        Setting("seq_length", "context", 2048),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("tie_word_embeddings", "tied", True),
    ),
    tensors=(
        Tensor("embedding.weight", "transformer.word_embeddings.weight", by_token=True),
        *weight_and_bias("embedding.norm", "transformer.word_embeddings_layernorm"),
        *weight_and_bias(_BLOCK + "norms.0", _GPT_LAYER + "input_layernorm"),
        *weight_and_bias(
            *(_BLOCK + "attention.query_key_value", _GPT_LAYER + "self_attention.query_key_value", HEAD_BY_HEAD)
        ),
        *weight_and_bias(_BLOCK + "attention.out", _GPT_LAYER + "self_attention.dense"),
        *weight_and_bias(_BLOCK + "norms.1", _GPT_LAYER + "post_attention_layernorm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _GPT_LAYER + "mlp.dense_h_to_4h"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _GPT_LAYER + "mlp.dense_4h_to_h"),
        *weight_and_bias("encoder.norm", "transformer.ln_f"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={"apply_residual_connection_post_layernorm": False, "slow_but_exact": False},
    ignored=(
        *("attention_dropout", "hidden_dropout", "pretraining_tp", "attention_softmax_in_fp32", "bias_dropout_fusion"),
        *("masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "n_inner", "n_embed"),
        *("num_attention_heads", "unk_token_id", "hidden_dropout_prob"),
    ),
    prefix="transformer.",
)
