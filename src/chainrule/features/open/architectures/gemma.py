"""Gemma, Gemma 2 and Gemma 3 for texts (Gemma Team 2024, 2024, 2025): gains of 1 + w, embeddings times root D, GeGLU.

Gemma 2 has norms before and after sub-layers, caps, and windows in every other layer. Gemma 3 normalises queries and
keys instead of capping, and has a window in five of six layers, with a base of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import GATED, Rule, Setting, Tensor
from chainrule.features.open.architectures.llama import LLAMA, QUERY_KEY_GAINS, with_head_width
from chainrule.features.open.positions import every, layer_types, rotary

if TYPE_CHECKING:
    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_OWN = {"hidden_act", "tie_word_embeddings", "max_position_embeddings"}
_ROPE_FIELD = "rope_parameters"


def _read_activation(config: Json) -> Json:
    """Return the activation: old files of Gemma say gelu, and mean that by tanh; without hidden_activation,
    transformers takes it, too.
    """
    name = config.get("hidden_activation") or config.get("hidden_act") or "gelu_pytorch_tanh"
    name = "gelu_pytorch_tanh" if name == "gelu" and config.get("model_type") == "gemma" else name
    if name not in GATED:
        raise ValueError(f"{name!r} is not supported; known are {', '.join(GATED)}")
    return {"feed_forward": GATED[name]}


def _write_activation(config: OpenSettings) -> Json:
    name = next((theirs for theirs, ours in GATED.items() if ours == config.feed_forward), None)
    return {"hidden_activation": name, "hidden_act": name}


ACTIVATION = Rule(("hidden_activation", "hidden_act"), _read_activation, _write_activation)

# Heads, and those of keys, of which Gemma 3's files may say nothing.
_HEADS = (Setting("num_attention_heads", "heads", 8), Setting("num_key_value_heads", "key_value_heads", 4))


def _settings(context: int, rope: Rule | None = None) -> tuple[Setting | Rule, ...]:
    """Return the rows of settings.

    context: where config.json does not say. rope: the rule of positions; None for LLaMA's.
    """
    rows = [
        row
        for row in with_head_width(256, LLAMA.settings)
        if (row.theirs not in _OWN if isinstance(row, Setting) else rope is None or _ROPE_FIELD not in row.fields)
    ]
    return (
        *rows,
        *([] if rope is None else [rope]),
        ACTIVATION,
        Setting("max_position_embeddings", "context", context),
        Setting("tie_word_embeddings", "tied", True),
    )


_UNUSED = {"use_bidirectional_attention": False}

GEMMA = replace(
    LLAMA,
    model_type="gemma",
    class_name="GemmaForCausalLM",
    implied={**LLAMA.implied, "gains_above_one": True, "scaled_embedding": True},
    settings=_settings(8192),
    fixed=_UNUSED,
)


def _read_query_scale(config: Json) -> Json:
    return {"attention_scale": config.get("query_pre_attn_scalar", 256) ** -0.5}


def _write_query_scale(config: OpenSettings) -> Json:
    scale = config.width_of_heads**-0.5 if config.attention_scale is None else config.attention_scale
    return {"query_pre_attn_scalar": round(scale**-2, 6)}


_SCALE = Rule(("query_pre_attn_scalar",), _read_query_scale, _write_query_scale)


def cap(theirs: str, ours: str, default: float | None) -> Rule:
    return Rule(
        (theirs,), lambda config: {ours: config.get(theirs, default)}, lambda config: {theirs: getattr(config, ours)}
    )


GEMMA2 = replace(
    GEMMA,
    model_type="gemma2",
    class_name="Gemma2ForCausalLM",
    implied={**GEMMA.implied, "sublayer_norms": "both"},
    settings=(
        *_settings(8192),
        _SCALE,
        layer_types(lambda config, layer: layer % 2 == 0),
        cap("attn_logit_softcapping", "score_cap", 50.0),
        cap("final_logit_softcapping", "logit_cap", 30.0),
    ),
    tensors=(
        *(row for row in GEMMA.tensors if row.ours != _BLOCK + "norms.1.weight"),
        Tensor(_BLOCK + "norms_after.0.weight", _LAYER + "post_attention_layernorm.weight"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "pre_feedforward_layernorm.weight"),
        Tensor(_BLOCK + "norms_after.1.weight", _LAYER + "post_feedforward_layernorm.weight"),
    ),
    ignored=(*LLAMA.ignored, "cache_implementation"),
)

_GEMMA3 = _settings(131_072, rotary(base=1e6, local="rope_local_base_freq"))

GEMMA3 = replace(
    GEMMA2,
    model_type="gemma3_text",
    class_name="Gemma3ForCausalLM",
    implied={**GEMMA2.implied, "query_key_norm": True},
    settings=(
        *(row for row in _GEMMA3 if not isinstance(row, Setting) or row.ours not in ("heads", "key_value_heads")),
        *_HEADS,
        _SCALE,
        layer_types(
            every("sliding_window_pattern", 6), "sliding_window_pattern", "_sliding_window_pattern", keeps=True
        ),
        cap("attn_logit_softcapping", "score_cap", None),
        cap("final_logit_softcapping", "logit_cap", None),
    ),
    tensors=(*GEMMA2.tensors, *QUERY_KEY_GAINS),
)
