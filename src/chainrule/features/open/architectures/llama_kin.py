"""LLaMAs with a change or two: Arcee, Seed-OSS, Helium, InternLM 3, Ministral 3, Nemotron 4, Hunyuan.

Arcee (2025): squared ReLU, without a gate. Seed-OSS (ByteDance 2025) and InternLM 3 (2025): biases elsewhere. Helium
(Kyutai 2025): positions rotate neighbours. Ministral 3 (Mistral 2025): queries grow with their positions. Nemotron 4
(NVIDIA 2024): LayerNorm with gains of 1 + w, squared ReLU, and half of each head rotates. Hunyuan (Tencent 2025),
dense: queries and keys are normalised once they are rotated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import (
    ACTIVATIONS,
    GATED,
    NEIGHBOURS_ROTATED,
    QUERY_KEY_VALUE,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.features.open.architectures.llama import BIASES, LLAMA, biases, settings, with_head_width
from chainrule.features.open.positions import ROPE, SLIDING_WINDOW, rotary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_ATTENTION_BIAS, _MLP_BIAS = ("attention_bias", False), ("mlp_bias", False)


def with_settings(
    rows: tuple[Setting | Rule, ...], *others: Setting | Rule, leave_out: tuple[str, ...] = ()
) -> tuple[Setting | Rule, ...]:
    """Return rows of settings, some replaced by others for the same fields. leave_out: fields without a row."""
    replaced = {*leave_out}
    for row in others:
        replaced |= {row.theirs} if isinstance(row, Setting) else {*row.fields}

    def stays(row: Setting | Rule) -> bool:
        return not replaced & ({row.theirs} if isinstance(row, Setting) else {*row.fields})

    return (*(row for row in rows if stays(row)), *others)


def with_defaults(rows: tuple[Setting | Rule, ...], defaults: Mapping[str, Any]) -> tuple[Setting | Rule, ...]:
    """Return rows of settings with other defaults. defaults: by the fields."""
    return tuple(
        row._replace(default=defaults[row.theirs]) if isinstance(row, Setting) and row.theirs in defaults else row
        for row in rows
    )


# A feed-forward layer without a gate.
_UNGATED = (
    *(row for row in LLAMA.tensors if not row.ours.startswith(_BLOCK + "feed_forward.up")),
    *weight_and_bias(_BLOCK + "feed_forward.up", _LAYER + "mlp.up_proj"),
)

ARCEE = replace(
    LLAMA,
    model_type="arcee",
    class_name="ArceeForCausalLM",
    settings=(
        *with_defaults(settings("relu2", ACTIVATIONS), {"rms_norm_eps": 1e-5, "max_position_embeddings": 4096}),
        BIASES,
    ),
    tensors=_UNGATED,
)

SEED_OSS = replace(
    LLAMA,
    model_type="seed_oss",
    class_name="SeedOssForCausalLM",
    settings=(
        *with_defaults(with_head_width(128), {"num_key_value_heads": 8, "max_position_embeddings": 524_288}),
        biases(
            {
                "query_key_value": ("attention_bias", True),
                "attention_out": ("attention_out_bias", False),
                "feed_forward": _MLP_BIAS,
            }
        ),
    ),
    ignored=(*LLAMA.ignored, "residual_dropout"),
)

HELIUM = replace(
    LLAMA,
    model_type="helium",
    class_name="HeliumForCausalLM",
    settings=with_settings(
        with_defaults(with_head_width(128), {"rms_norm_eps": 1e-8, "max_position_embeddings": 4096}),
        rotary(base=100_000.0),
        biases({"query_key_value": _ATTENTION_BIAS, "feed_forward": _MLP_BIAS}),
    ),
    tensors=tuple(
        row._replace(change=NEIGHBOURS_ROTATED) if row.change is QUERY_KEY_VALUE else row for row in LLAMA.tensors
    ),
)

_OF_INTERNLM = biases(
    {
        "query_key_value": ("qkv_bias", False),
        "attention_out": ("bias", False),
        "feed_forward": ("bias", False),
    }
)


def _read_internlm_biases(config: Json) -> Json:
    """Return which layers have biases: transformers 5 writes other names for them."""
    both = {"qkv_bias": config.get("attention_bias"), "bias": config.get("mlp_bias")}
    return _OF_INTERNLM.read({name: config[name] if name in config else both[name] for name in both})


def _write_internlm_biases(config: OpenSettings) -> Json:
    written = _OF_INTERNLM.write(config)
    return {**written, "attention_bias": written["qkv_bias"], "mlp_bias": written["bias"]}


INTERNLM3 = replace(
    LLAMA,
    model_type="internlm3",
    class_name="LlamaForCausalLM",
    settings=(
        *with_defaults(
            with_head_width(128),
            {"rms_norm_eps": 1e-5, "num_key_value_heads": 2, "max_position_embeddings": 32_768},
        ),
        Rule((*_OF_INTERNLM.fields, *BIASES.fields), _read_internlm_biases, _write_internlm_biases),
    ),
)

# What a file means that has no parameters of positions.
_SCALING: Json = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16_384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}

MINISTRAL3 = replace(
    LLAMA,
    model_type="ministral3",
    class_name="Ministral3ForCausalLM",
    settings=with_settings(
        with_defaults(
            with_head_width(128),
            {"rms_norm_eps": 1e-5, "num_key_value_heads": 8, "max_position_embeddings": 262_144},
        ),
        rotary(grows=True, usual=_SCALING),
        SLIDING_WINDOW,
    ),
)

NEMOTRON = replace(
    LLAMA,
    model_type="nemotron",
    class_name="NemotronForCausalLM",
    implied={**LLAMA.implied, "norm": "layer", "gains_above_one": True},
    settings=with_settings(
        with_defaults(settings("relu2", ACTIVATIONS), {"max_position_embeddings": 4096}),
        rotary(share=0.5),
        Setting("norm_eps", "norm_epsilon", 1e-5),
        biases(
            {"query_key_value": _ATTENTION_BIAS, "attention_out": _ATTENTION_BIAS, "feed_forward": _MLP_BIAS},
            of_norms=True,
        ),
        leave_out=("rms_norm_eps",),
    ),
    tensors=(
        *(row for row in _UNGATED if "norm" not in row.ours),
        *weight_and_bias(_BLOCK + "norms.0", _LAYER + "input_layernorm"),
        *weight_and_bias(_BLOCK + "norms.1", _LAYER + "post_attention_layernorm"),
        *weight_and_bias("encoder.norm", "model.norm"),
    ),
)


def _read_alpha(config: Json) -> Json:
    """Return positions. A fixed alpha of dynamic scaling makes the base larger (NTK-aware scaling), which is rounded to
    the digits that float32 has, as in a GGUF file.
    """
    settings, given = ROPE.read(config), config.get("rope_parameters") or config.get("rope_scaling") or {}
    if (alpha := given.get("alpha")) and given.get("rope_type", given.get("type")) == "dynamic":
        width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        settings["rotary_base"] = float(str(np.float32(settings["rotary_base"] * alpha ** (width / (width - 2)))))
    return settings


HUNYUAN = replace(
    LLAMA,
    model_type="hunyuan_v1_dense",
    class_name="HunYuanDenseV1ForCausalLM",
    implied={**LLAMA.implied, "query_key_norm": True, "norm_after_rotation": True},
    settings=with_settings(
        with_defaults(settings("silu", GATED), {"rms_norm_eps": 1e-5}),
        Rule(ROPE.fields, _read_alpha, ROPE.write),
        biases({"query_key_value": _ATTENTION_BIAS, "attention_out": _ATTENTION_BIAS}),
    ),
    tensors=(
        *LLAMA.tensors,
        *(
            Tensor(f"{_BLOCK}attention.gains.{number}", f"{_LAYER}self_attn.{name}_layernorm.weight")
            for number, name in enumerate(("query", "key"))
        ),
    ),
    fixed={
        **dict.fromkeys(("use_qk_norm", "use_rotary_pos_emb"), True),
        **dict.fromkeys(("mlp_bias", "use_cla", "position_embedding_xdrope", "add_classification_head"), False),
        "norm_type": "rms",
    },
    ignored=(
        *(*LLAMA.ignored, "attention_head_dim", "cla_share_factor", "class_num", "dense_list", "enable_lm_head_fp32"),
        *("eod_token_id", "im_start_id", "im_end_id", "im_newline_id", "mask_init_id", "org_vocab_size", "pad_id"),
        *("pool_type", "skip_cls_token", "text_start_id", "text_end_id"),
    ),
)
