"""Tiny random models of transformers, every number shaken: gains of 1 and biases of 0 would hide what is swapped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from lazily import Lazily
from tiny_tokenizers import ADDED, BEGIN, END, ROWS, byte_level

os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer


transformers = Lazily("transformers")  # with its models, it takes seconds
_LLAMA: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
_MARKERS: dict[str, Any] = {"vocab_size": ROWS, "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": None}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def gpt2(**changes: Any) -> Any:
    size = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**size, **_MARKERS, "bos_token_id": END, **changes}))


def _llama(**changes: Any) -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 2, **changes})
    )


def _llama3() -> Any:
    rope = {**_LLAMA3, "rope_theta": 500.0, "original_max_position_embeddings": 16}
    return _llama(rope_parameters=rope, head_dim=8, attention_bias=True, tie_word_embeddings=True)


def _linear() -> Any:
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
    return _llama(rope_parameters=rope, mlp_bias=True, rms_norm_eps=0.1)


def _mistral() -> Any:
    config = transformers.MistralConfig(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 2, "sliding_window": 5})
    return transformers.MistralForCausalLM(config)


def _qwen2() -> Any:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 2}))


def _nanochat() -> Any:
    config = transformers.NanoChatConfig(
        **{**_LLAMA, **_MARKERS, "num_key_value_heads": 4, "final_logit_softcapping": None}
    )
    return transformers.NanoChatForCausalLM(config)


def _gpt_neox(**changes: Any) -> Any:
    rope = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}
    return transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(**{**_LLAMA, **_MARKERS, "rope_parameters": rope, **changes})
    )


def _opt(**changes: Any) -> Any:
    size = {"hidden_size": 16, "word_embed_proj_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {"ffn_dim": 24, "max_position_embeddings": 64}
    return transformers.OPTForCausalLM(transformers.OPTConfig(**{**size, **_MARKERS, "pad_token_id": 1, **changes}))


def _gpt_neo() -> Any:
    size = {"hidden_size": 16, "num_layers": 4, "num_heads": 4, "max_position_embeddings": 64, "window_size": 5}
    return transformers.GPTNeoForCausalLM(
        transformers.GPTNeoConfig(**{**size, **_MARKERS, "attention_types": [[["global", "local"], 2]]})
    )


def tiny(model_type: str, **changes: Any) -> Any:
    """A tiny model of an architecture by its model_type, with grouped heads."""
    size = {**_LLAMA, **_MARKERS, "num_key_value_heads": 2, **changes}
    config = transformers.AutoConfig.for_model(
        model_type, **{name: value for name, value in size.items() if value is not ...}
    )
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def _falcon(**changes: Any) -> Any:
    return tiny("falcon", num_key_value_heads=..., intermediate_size=..., ffn_hidden_size=24, **changes)


def _mamba(model_type: str = "mamba", **changes: Any) -> Any:
    size = {"hidden_size": 16, "state_size": 6, "num_hidden_layers": 2, **_MARKERS}
    config = transformers.AutoConfig.for_model(model_type, **{**size, **changes})
    return transformers.AutoModelForCausalLM.from_config(config)


def _rwkv(**changes: Any) -> Any:
    config = transformers.AutoConfig.for_model(
        "rwkv", **{"hidden_size": 16, "num_hidden_layers": 3, **_MARKERS, **changes}
    )
    return transformers.AutoModelForCausalLM.from_config(config)


def nemotron_h(pattern: str, **changes: Any) -> Any:
    kinds = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
    size = {"head_dim": 4, "ssm_state_size": 6, "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2}
    size |= {"n_routed_experts": 4, "moe_intermediate_size": 8, "moe_shared_expert_intermediate_size": 12}
    size |= {"layers_block_type": [kinds[letter] for letter in pattern], "num_hidden_layers": ...}
    return tiny("nemotron_h", **{**size, "chunk_size": 4, "routed_scaling_factor": 1.7, **changes})


def _gemma4(**changes: Any) -> Any:
    """Two periods, of which the last blocks share keys; its numbers for blocks are buffers, which are shaken here."""
    size = {"head_dim": 8, "global_head_dim": 12, "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": ROWS}
    model = tiny("gemma4_text", **{**_TWO_PERIODS, **size, **changes})
    for layer in model.model.layers:
        layer.layer_scalar.uniform_(0.5, 1.5)
    return model


def _gpt_oss(**changes: Any) -> Any:
    """Some of its gates are beyond the clamp."""
    rope = {**YARN, "truncate": False}
    size = {"num_hidden_layers": 4, "sliding_window": 5, "head_dim": 8, "rope_parameters": rope}
    model = tiny("gpt_oss", **{**size, **_EXPERTS, "head_dim": 8, **changes})
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.mlp.experts.gate_up_proj, std=2.0)
    return model


def _gpt_like(model_type: str, **changes: Any) -> Any:
    """As `tiny`, with the names of sizes that GPT-2 has."""
    config = transformers.AutoConfig.for_model(
        model_type, **{"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, **_MARKERS, **changes}
    )
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")


_FULL, _SLIDING = "full_attention", "sliding_attention"
_TWO_PERIODS = {"num_hidden_layers": 6, "layer_types": [_SLIDING, _SLIDING, _FULL] * 2, "sliding_window": 5}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500.0, "original_max_position_embeddings": 16}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 100.0,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 5.0],
    "original_max_position_embeddings": 14,
}
_MULTIPLIERS = {
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.5,
    "residual_multiplier": 0.7,
    "attention_multiplier": 0.3,
}
_LINEAR = "linear_attention"
HYBRID: dict[str, Any] = {
    "layer_types": [_LINEAR, _FULL] * 2,
    "num_hidden_layers": 4,
    "shared_intermediate_size": 12,
    "mamba_d_head": 8,
}
OF_MAMBA2 = {"mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 6, "mamba_chunk_size": 4}
_OF_FALCON_H1: dict[str, Any] = {
    "mamba_d_ssm": 24,
    "lm_head_multiplier": 0.7,
    "embedding_multiplier": 3.0,
    "mlp_multipliers": [0.6, 1.3],
    "key_multiplier": 0.4,
    "attention_in_multiplier": 1.5,
    "attention_out_multiplier": 0.8,
    "ssm_in_multiplier": 0.9,
    "ssm_multipliers": [1.1, 0.7, 1.3, 0.6, 0.8],
    "ssm_out_multiplier": 1.2,
}
DELTA: dict[str, Any] = {
    "head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 5,
}
_FEW_EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2}
_WITH_SHARED = {**_FEW_EXPERTS, "num_hidden_layers": 4, "moe_intermediate_size": 8}
_WITH_SHARED |= {"shared_expert_intermediate_size": 12}
_LFM2_MOE = {**_FEW_EXPERTS, "layer_types": ["conv", "conv", _FULL], "num_hidden_layers": 3, "num_dense_layers": 1}
_LFM2_MOE |= {"moe_intermediate_size": 8, "routed_scaling_factor": 1.7}
ROUTED: dict[str, Any] = {
    "num_hidden_layers": 3,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "topk_group": 1,
    "moe_intermediate_size": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.7,
}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 4}

CAUSAL: dict[str, Callable[..., Any]] = {
    "gpt2": gpt2,
    "gpt2 with exact gelu, not tied": lambda: gpt2(
        activation_function="gelu", tie_word_embeddings=False, n_inner=20, layer_norm_epsilon=0.01
    ),
    "llama": _llama,
    "llama3": _llama3,
    "llama, linear": _linear,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "nanochat": _nanochat,
    "gpt_neox": _gpt_neox,
    "gpt_neox, one after the other": lambda: _gpt_neox(use_parallel_residual=False, attention_bias=False),
    "opt": _opt,
    "opt, norms after": lambda: _opt(do_layer_norm_before=False),
    "gpt_neo": _gpt_neo,
    "gpt_bigcode": lambda: _gpt_like("gpt_bigcode"),
    "gpt_bigcode, each head with keys": lambda: _gpt_like(
        "gpt_bigcode", multi_query=False, activation_function="gelu", n_inner=20
    ),
    "nanochat, capped": lambda: tiny("nanochat", num_key_value_heads=4, final_logit_softcapping=2.0),
    "llama, yarn": lambda: tiny("llama", rope_parameters=YARN),
    "llama, dynamic": lambda: tiny("llama", rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
    "qwen2, windows": lambda: tiny(
        "qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1, num_hidden_layers=3
    ),
    "qwen3": lambda: tiny("qwen3", head_dim=8),
    "qwen3, windows": lambda: tiny("qwen3", head_dim=8, use_sliding_window=True, **_TWO_PERIODS),
    "gemma": lambda: tiny("gemma", head_dim=8, tie_word_embeddings=True),
    "gemma2": lambda: tiny(
        "gemma2",
        num_hidden_layers=4,
        head_dim=8,
        query_pre_attn_scalar=5,
        sliding_window=5,
        attn_logit_softcapping=1.5,
        final_logit_softcapping=3.0,
    ),
    "gemma3": lambda: tiny("gemma3_text", head_dim=8, query_pre_attn_scalar=5, **_TWO_PERIODS),
    "gemma2, usual": lambda: tiny(
        "gemma2", num_hidden_layers=4, head_dim=8, query_pre_attn_scalar=8, sliding_window=5, attention_bias=True
    ),
    "gemma3, scaled": lambda: tiny(
        "gemma3_text",
        head_dim=8,
        query_pre_attn_scalar=8,
        rope_parameters={
            _FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
            _SLIDING: {"rope_type": "default", "rope_theta": 50.0},
        },
        **_TWO_PERIODS,
    ),
    "gemma4": lambda: _gemma4(num_kv_shared_layers=2, final_logit_softcapping=3.0),
    "gemma4, wide": lambda: _gemma4(
        num_kv_shared_layers=3, use_double_wide_mlp=True, tie_word_embeddings=False, intermediate_size=12
    ),
    "gemma4, keys as values, without vectors for blocks": lambda: _gemma4(
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
        hidden_size_per_layer_input=0,
        head_dim=4,
        global_head_dim=8,
    ),
    "gemma4, experts": lambda: _gemma4(
        enable_moe_block=True,
        num_experts=5,
        top_k_experts=2,
        moe_intermediate_size=12,
        hidden_size_per_layer_input=0,
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
    ),
    "smollm3": lambda: tiny("smollm3", num_hidden_layers=8, tie_word_embeddings=True),
    "phi": lambda: tiny("phi"),
    "phi3": lambda: tiny("phi3", sliding_window=5, rope_parameters={"rope_theta": 50.0, "partial_rotary_factor": 0.5}),
    "phi3, longrope": lambda: tiny("phi3", rope_parameters=_LONGROPE, original_max_position_embeddings=14),
    "olmo": lambda: tiny("olmo"),
    "olmo2": lambda: tiny("olmo2", attention_bias=True),
    "olmo3": lambda: tiny("olmo3", **_TWO_PERIODS),
    "olmo3, scaled": lambda: tiny(
        "olmo3",
        rope_parameters={_FULL: YARN, _SLIDING: {"rope_type": "default", "rope_theta": 500.0}},
        **_TWO_PERIODS,
    ),
    "exaone4": lambda: tiny("exaone4", **_TWO_PERIODS),
    "exaone4, no windows": lambda: tiny("exaone4", sliding_window=None, layer_types=[_FULL] * 2),
    "granite": lambda: tiny("granite", **_MULTIPLIERS),
    "starcoder2": lambda: tiny("starcoder2", sliding_window=5),
    "stablelm": lambda: tiny("stablelm", rope_parameters={"rope_theta": 100.0, "partial_rotary_factor": 0.5}),
    "stablelm, parallel": lambda: tiny(
        "stablelm", use_parallel_residual=True, use_qkv_bias=True, num_attention_heads=2
    ),
    "falcon": _falcon,
    "falcon, new": lambda: _falcon(new_decoder_architecture=True, num_kv_heads=2, bias=True),
    "falcon, one after the other": lambda: _falcon(parallel_attn=False, multi_query=False),
    "gptj": lambda: _gpt_like("gptj", rotary_dim=4),
    "bloom": lambda: tiny(
        "bloom", n_layer=2, n_head=4, num_key_value_heads=..., intermediate_size=..., max_position_embeddings=...
    ),
    "cohere": lambda: tiny("cohere"),
    "cohere2": lambda: tiny("cohere2", **_TWO_PERIODS),
    "glm": lambda: tiny("glm", head_dim=8),
    "glm4": lambda: tiny("glm4", head_dim=8, attention_bias=True),
    "ernie4_5": lambda: tiny("ernie4_5", head_dim=8, use_bias=True),
    "lfm2": lambda: tiny("lfm2", layer_types=["conv", "conv", _FULL] * 2, num_hidden_layers=6, block_multiple_of=8),
    "lfm2, biased": lambda: tiny("lfm2", layer_types=["conv", _FULL], conv_bias=True, block_auto_adjust_ff_dim=False),
    "lfm2_moe": lambda **changes: tiny("lfm2_moe", **{**_LFM2_MOE, **changes}),
    "lfm2_moe, not shifted": lambda: tiny(
        "lfm2_moe",
        **_FEW_EXPERTS,
        layer_types=["conv", _FULL],
        use_expert_bias=False,
        num_dense_layers=0,
        conv_bias=True,
    ),
    "lfm2, unadjusted": lambda: tiny("lfm2", layer_types=["conv", _FULL], block_auto_adjust_ff_dim=False),
    "mamba": lambda: _mamba(),
    "mamba, biased": lambda: _mamba(use_bias=True, tie_word_embeddings=False, time_step_rank=2),
    "mamba2": lambda: _mamba("mamba2", n_groups=2, num_heads=4, head_dim=8, chunk_size=4),
    "mamba2, tied": lambda: _mamba(
        "mamba2", n_groups=1, num_heads=4, head_dim=8, use_bias=True, tie_word_embeddings=True
    ),
    "rwkv": lambda: _rwkv(),
    "rwkv, other widths": lambda: _rwkv(intermediate_size=24, num_hidden_layers=2, tie_word_embeddings=True),
    "qwen3_5": lambda **changes: tiny("qwen3_5_text", num_hidden_layers=8, **{**DELTA, **changes}),
    "qwen3_5_moe": lambda **changes: tiny("qwen3_5_moe_text", **{**DELTA, **_WITH_SHARED, **changes}),
    "qwen3_next": lambda **changes: tiny("qwen3_next", **{**DELTA, **_WITH_SHARED, **changes}),
    "qwen3_next, dense": lambda: tiny(
        "qwen3_next",
        **DELTA,
        **_WITH_SHARED,
        norm_topk_prob=False,
        mlp_only_layers=[1],
        tie_word_embeddings=True,
    ),
    "falcon_mamba": lambda: _mamba("falcon_mamba", time_step_rank=2),
    "arcee": lambda: tiny("arcee"),
    "seed_oss": lambda: tiny("seed_oss", head_dim=8),
    "helium": lambda: tiny("helium", head_dim=4),
    "internlm3": lambda: tiny("internlm3", head_dim=8, attention_bias=True, mlp_bias=True),
    "ministral3": lambda: tiny(
        "ministral3", head_dim=8, rope_parameters={**YARN, "llama_4_scaling_beta": 0.3, "mscale_all_dim": 1.0}
    ),
    "nemotron": lambda: tiny("nemotron"),
    "nemotron, biased": lambda: tiny("nemotron", attention_bias=True, mlp_bias=True, head_dim=8),
    "hunyuan": lambda: tiny("hunyuan_v1_dense", head_dim=8, attention_bias=True),
    "hunyuan, longer": lambda: tiny(
        "hunyuan_v1_dense",
        head_dim=6,
        rope_parameters={"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 100.0},
    ),
    "granitemoe": lambda: tiny("granitemoe", **_MULTIPLIERS, num_local_experts=4),
    "granitemoeshared": lambda: tiny(
        "granitemoeshared", **_MULTIPLIERS, num_local_experts=4, shared_intermediate_size=12, attention_bias=True
    ),
    "granite 4": lambda: tiny("granitemoehybrid", **_MULTIPLIERS, **OF_MAMBA2, **HYBRID, num_local_experts=0),
    "granite 4, experts": lambda: tiny(
        "granitemoehybrid",
        **{**OF_MAMBA2, **HYBRID, "layer_types": [_LINEAR, _FULL], "num_hidden_layers": 2},
        num_local_experts=4,
        mamba_proj_bias=True,
    ),
    "granite 4, positions": lambda: tiny(
        "granitemoehybrid",
        **{**OF_MAMBA2, **HYBRID, "layer_types": [_FULL] * 2, "num_hidden_layers": 2},
        num_local_experts=0,
        position_embedding_type="rope",
    ),
    "falcon_h1": lambda: tiny("falcon_h1", **OF_MAMBA2, **_OF_FALCON_H1, mamba_rms_norm=True),
    "falcon_h1, without norm": lambda: tiny(
        "falcon_h1", **OF_MAMBA2, mamba_d_ssm=24, projectors_bias=True, mamba_proj_bias=True
    ),
    "falcon_h1, norm last": lambda: tiny(
        "falcon_h1", **OF_MAMBA2, **_OF_FALCON_H1, mamba_rms_norm=True, mamba_norm_before_gate=False
    ),
    "nemotron_h": lambda: nemotron_h("M*-M*E"),
    "nemotron_h, without experts": lambda: nemotron_h("M-*-", use_bias=True),
    "glm4_moe": lambda: tiny("glm4_moe", **ROUTED, use_qk_norm=True, attention_bias=True, n_group=2, head_dim=4),
    "deepseek_v2": lambda: tiny("deepseek_v2", **LATENT, **ROUTED, q_lora_rank=None, topk_method="greedy"),
    "deepseek_v2, in groups": lambda: tiny(
        "deepseek_v2", **LATENT, **ROUTED, q_lora_rank=6, topk_method="group_limited_greedy", n_group=2
    ),
    "deepseek_v3": lambda: tiny(
        "deepseek_v3",
        **LATENT,
        **ROUTED,
        q_lora_rank=6,
        n_group=2,
        attention_bias=True,
        rope_parameters={**YARN, "mscale": 0.7, "mscale_all_dim": 0.9},
    ),
    "glm4_moe_lite": lambda: tiny(
        "glm4_moe_lite",
        **{**LATENT, **ROUTED, "first_k_dense_replace": ...},
        q_lora_rank=6,
        n_group=2,
        mlp_layer_types=["dense", "sparse", "sparse"],
    ),
    "olmoe": lambda: tiny("olmoe", **_FEW_EXPERTS),
    "qwen2_moe": lambda: tiny(
        "qwen2_moe",
        **_FEW_EXPERTS,
        num_hidden_layers=3,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=12,
        mlp_only_layers=[1],
        use_sliding_window=True,
        sliding_window=5,
    ),
    "mixtral": lambda: tiny("mixtral", sliding_window=5, **_EXPERTS),
    "gpt_oss": lambda: _gpt_oss(),
    "gpt_oss, without attention's biases": lambda: _gpt_oss(attention_bias=False, tie_word_embeddings=True),
    "qwen3_moe": lambda: tiny("qwen3_moe", moe_intermediate_size=8, norm_topk_prob=True, **_EXPERTS),
}


def _bert(**changes: Any) -> Any:
    size = {"max_position_embeddings": 32, "pad_token_id": 0, "vocab_size": 60}
    return transformers.BertForMaskedLM(transformers.BertConfig(**{**_LLAMA, **size, **changes}))


def _distilbert() -> Any:
    size = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 32}
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**size, vocab_size=60))


def _roberta() -> Any:
    size = {"max_position_embeddings": 34, "vocab_size": ROWS, "type_vocab_size": 1}
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**{**_LLAMA, **size}))


def _masked(model_type: str, **changes: Any) -> Any:
    """A tiny masked model of an architecture by its model_type."""
    config = transformers.AutoConfig.for_model(model_type, **{**_LLAMA, "max_position_embeddings": 34, **changes})
    return transformers.AutoModelForMaskedLM.from_config(config, attn_implementation="eager")


_CASED: dict[str, Any] = {"vocab_size": ROWS, "pad_token_id": 1}  # and the ids of markers as RoBERTa has them
_PIECES: dict[str, Any] = {"vocab_size": 60, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3}

_DISTANCES: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "position_buckets": 8,
}

MASKED: dict[str, Callable[[], Any]] = {
    "bert": _bert,
    "bert with gelu by tanh": lambda: _bert(hidden_act="gelu_new", layer_norm_eps=0.01, type_vocab_size=3),
    "distilbert": _distilbert,
    "roberta": _roberta,
    "roberta with a space before": _roberta,
    "xlm-roberta": lambda: _masked("xlm-roberta", **_CASED, type_vocab_size=1),
    "camembert": lambda: _masked("camembert", **_CASED, type_vocab_size=1),
    "mpnet": lambda: _masked("mpnet", **_CASED),
    "electra": lambda: _masked("electra", vocab_size=60, pad_token_id=0, embedding_size=12),
    "electra, one width": lambda: _masked("electra", vocab_size=60, pad_token_id=0, embedding_size=16),
    "albert": lambda: _masked("albert", **_PIECES, embedding_size=12),
    "albert, two groups": lambda: _masked(
        "albert", **_PIECES, embedding_size=12, num_hidden_layers=4, num_hidden_groups=2, type_vocab_size=1
    ),
    "deberta-v2": lambda: _masked("deberta-v2", **_PIECES, **_DISTANCES),
    "deberta-v2, with a head of its own": lambda: _masked(
        "deberta-v2", **_PIECES, **_DISTANCES, legacy=False, type_vocab_size=2, max_relative_positions=12
    ),
    "eurobert": lambda: _masked("eurobert", **_PIECES, num_key_value_heads=2),
    "eurobert, biased": lambda: _masked("eurobert", **_PIECES, mlp_bias=True, tie_word_embeddings=True),
    "nomic_bert": lambda: _masked("nomic_bert", **_PIECES),
    "gte": lambda: _masked("gte", **_PIECES),
    "gte, without types": lambda: _masked("gte", **_PIECES, type_vocab_size=0),
    "jina_embeddings_v3": lambda: _masked("jina_embeddings_v3", **_CASED),
    "modernbert": lambda: _masked("modernbert", **_PIECES, num_hidden_layers=4, local_attention=4),
    "modernbert, silu": lambda: _masked(
        "modernbert", **_PIECES, hidden_activation="silu", classifier_activation="silu"
    ),
}


def _marian(**changes: Any) -> Any:
    """Its tokens: </s>, <unk>, pieces, <pad>."""
    size = {"d_model": 16, "max_position_embeddings": 64}
    for side in ("encoder", "decoder"):
        size |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 24}
    tokens = {"vocab_size": 60, "eos_token_id": 0, "pad_token_id": 59, "decoder_start_token_id": 59}
    config = {"activation_function": "swish", "scale_embedding": True, "forced_eos_token_id": None}
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**size, **tokens, **config, **changes}))
    model.final_logits_bias.normal_()
    return model


_T5: dict[str, Any] = {
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 60,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}


def _t5(**changes: Any) -> Any:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**{**_T5, **changes}))


def _of_bart(kind: str, **changes: Any) -> Any:
    """Its tokens: those of `framed`, and some that no text has."""
    size = {"d_model": 16, "max_position_embeddings": 64, "scale_embedding": kind != "bart"}
    for side in ("encoder", "decoder"):
        size |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 24}
    tokens = {"vocab_size": 60, "eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 1}
    config = transformers.AutoConfig.for_model(kind, **{**size, **tokens, "forced_eos_token_id": None, **changes})
    model = transformers.AutoModelForSeq2SeqLM.from_config(config)
    model.generation_config.forced_bos_token_id = changes.get("forced_bos_token_id")
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_()
    return model


PAIRS: dict[str, Callable[[], Any]] = {
    "marian": _marian,
    "marian with ReLU, without scale": lambda: _marian(
        activation_function="relu", scale_embedding=False, encoder_layers=1, encoder_ffn_dim=20, decoder_ffn_dim=20
    ),
    "marian with two vocabularies": lambda: _marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=50, pad_token_id=49, decoder_start_token_id=49
    ),
    "t5": _t5,
    "mt5": lambda: transformers.MT5ForConditionalGeneration(transformers.MT5Config(**_T5, tie_word_embeddings=False)),
    "t5 1.1": lambda: _t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=1),
    "bart": lambda: _of_bart("bart", decoder_layers=3),
    "bart that says so": lambda: _of_bart("bart", forced_bos_token_id=ADDED["<s>"], activation_function="relu"),
    "mbart": lambda: _of_bart("mbart", decoder_start_token_id=ADDED["en_XX"]),
    "mbart of 50 languages": lambda: _of_bart("mbart", forced_bos_token_id=ADDED["en_XX"]),
    "m2m_100": lambda: _of_bart("m2m_100", forced_bos_token_id=ADDED["eng_Latn"], encoder_layers=1),
}


def shaken(build: Callable[[], Any], *, spread: float = 0.3) -> Any:
    """A model in evaluation, each of its numbers moved."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = build()
        with torch.no_grad():
            for weight in model.parameters():
                if not weight.requires_grad:  # Marian's table of sines and cosines
                    continue
                weight.add_(torch.randn_like(weight) * spread)
            for name, buffer in model.named_buffers():  # those by which experts are chosen
                if name.endswith(("correction_bias", "expert_bias")):
                    buffer.add_(torch.randn_like(buffer) * spread)
    return model.eval()


def save(model: Any, folder: Path, tokenizer: Tokenizer | None = None, **options: Any) -> Path:
    """A Hugging Face folder, as transformers writes it."""
    model.save_pretrained(folder, **options)
    (tokenizer or byte_level()).save(str(folder / "tokenizer.json"))
    return folder
