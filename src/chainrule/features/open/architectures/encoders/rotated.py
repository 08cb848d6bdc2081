"""Encoders with rotary positions: EuroBERT, Nomic BERT, GTE and Jina 3.

EuroBERT (Boizard et al. 2025) is a LLaMA that reads both ways. The others have BERT's norms after each sum: Nomic BERT
(Nussbaum et al. 2024) and GTE (Zhang et al. 2024) with gated feed-forward layers, Jina 3 (Sturua et al. 2024) without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import (
    GATED,
    TWO_PARTS,
    Architecture,
    Change,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.features.open.architectures.encoders.bert import TIED
from chainrule.features.open.architectures.llama import LLAMA
from chainrule.features.open.architectures.llama_kin import with_defaults, with_settings
from chainrule.features.open.network.config import OpenMaskedConfig
from chainrule.features.open.positions import rotary

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK = "encoder.blocks.{layer}."


def _read_output_bias(config: Json) -> Json:
    return {"output_bias": bool(config.get("mlp_bias", False)), **_OF_LLAMA.read(config)}


_OF_LLAMA = next(row for row in LLAMA.settings if isinstance(row, Rule) and "mlp_bias" in row.fields)

EUROBERT = replace(
    LLAMA,
    model_type="eurobert",
    class_name="EuroBertForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    settings=with_settings(
        with_defaults(LLAMA.settings, {"rms_norm_eps": 1e-5, "max_position_embeddings": 8192}),
        Rule(_OF_LLAMA.fields, _read_output_bias, _OF_LLAMA.write),
    ),
    tensors=(*LLAMA.tensors, Tensor("output.bias", "lm_head.bias", by_token=True)),
    ignored=(*LLAMA.ignored, "classifier_pooling", "clf_pooling", "hidden_dropout"),
    prefix="model.",
)

_IMPLIED = {
    "norm": "layer",
    "norm_place": "post",
    "norm_gain": True,
    "embedding_norm": False,
    "input_norm": True,
    "query_key_norm": False,
    "biases": True,
    "output_transform": True,
    "output_bias": True,
}
_ALL = ("query_key_value", "attention_out", "feed_forward")


def _named(theirs: str, older: str, ours: str, default: int | float | None = None) -> Rule:
    """Return the rule of a field that older files call otherwise."""

    def read(config: Json) -> Json:
        value = next((config[name] for name in (theirs, older) if config.get(name) is not None), default)
        if value is None:
            raise ValueError(f"{theirs} is missing")
        return {ours: value}

    return Rule((theirs, older), read, lambda config: {theirs: getattr(config, ours)})


_NOMIC_ROPE = rotary(base=1000.0)


def _read_nomic_rope(config: Json) -> Json:
    base = config.get("rotary_emb_base")
    return _NOMIC_ROPE.read(config if base is None else {**config, "rope_theta": base})


def _read_nomic_activation(config: Json) -> Json:
    name = config.get("hidden_act") or {"swiglu": "silu", "geglu": "gelu"}.get(str(config.get("activation_function")))
    name = "silu" if name is None and "activation_function" not in config else name
    if name not in GATED:
        raise ValueError(f"{config.get('activation_function', name)!r} is not supported; expected swiglu or geglu")
    return {"feed_forward": GATED[name]}


def _layers(layer: str, attention: str, out: str, norms: tuple[str, str]) -> tuple[Tensor, ...]:
    """Return the tensors of a block, but of its feed-forward layer. attention: of queries, keys and values."""
    return (
        *weight_and_bias(_BLOCK + "attention.query_key_value", layer + attention),
        *weight_and_bias(_BLOCK + "attention.out", layer + out),
        *weight_and_bias(_BLOCK + "norms.0", layer + norms[0]),
        *weight_and_bias(_BLOCK + "norms.1", layer + norms[1]),
    )


def _around(model: str, norm: str, head: str, head_norm: str, bias: str) -> tuple[Tensor, ...]:
    """Return the tensors before the first block and after the last one. model: what names before it begin with."""
    return (
        Tensor("embedding.weight", f"{model}.embeddings.word_embeddings.weight", by_token=True),
        Tensor("encoder.segments", f"{model}.embeddings.token_type_embeddings.weight"),
        *weight_and_bias("encoder.input_norm", f"{model}.{norm}"),
        *weight_and_bias("output.transform.linear", f"{head}dense"),
        *weight_and_bias("output.transform.norm", head_norm),
        Tensor("output.weight", bias.replace("bias", "decoder.weight"), by_token=True),
    )


_NOMIC = "nomic_bert.encoder.layers.{layer}."
_DROPOUTS = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "attn_pdrop", "embd_pdrop"),
    "resid_pdrop",
)

NOMIC_BERT = Architecture(
    model_type="nomic_bert",
    class_name="NomicBertForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    implied={**_IMPLIED, "without_biases": _ALL},
    settings=(
        _named("num_hidden_layers", "n_layer", "layers"),
        _named("hidden_size", "n_embd", "width"),
        _named("num_attention_heads", "n_head", "heads"),
        _named("intermediate_size", "n_inner", "feed_forward_width"),
        _named("max_position_embeddings", "n_positions", "context", 2048),
        _named("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", 1e-12),
        Setting("type_vocab_size", "segments", 2),
        Setting("head_dim", "head_width", None),
        Rule(
            ("hidden_act", "activation_function"),
            _read_nomic_activation,
            lambda config: {"hidden_act": "silu" if config.feed_forward == "swiglu" else "gelu"},
        ),
        Rule((*_NOMIC_ROPE.fields, "rotary_emb_base"), _read_nomic_rope, _NOMIC_ROPE.write),
        TIED,
    ),
    tensors=(
        *_around(
            *("nomic_bert", "emb_ln", "cls.predictions.transform.", "cls.predictions.transform.layer_norm"),
            "cls.predictions.bias",
        ),
        Tensor("output.bias", "cls.predictions.bias", by_token=True),
        *_layers(_NOMIC, "attn.Wqkv", "attn.out_proj", ("norm1", "norm2")),
        Tensor(
            *(_BLOCK + "feed_forward.up.weight", (_NOMIC + "mlp.fc12.weight", _NOMIC + "mlp.fc11.weight"), TWO_PARTS)
        ),
        Tensor(_BLOCK + "feed_forward.down.weight", _NOMIC + "mlp.fc2.weight"),
    ),
    fixed={
        **dict.fromkeys(("prenorm", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), False),
        **dict.fromkeys(("causal", "rotary_emb_interleaved", "use_rms_norm"), False),
        "rotary_emb_fraction": 1.0,
        "rotary_scaling_factor": None,
    },
    ignored=(
        *(*_DROPOUTS, "dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln", "max_trained_positions"),
        *("pad_vocab_size_multiple", "parallel_block_tied_norm", "reorder_and_upcast_attn", "rotary_emb_scale_base"),
        *("scale_attn_by_inverse_layer_idx", "scale_attn_weights", "summary_activation", "summary_first_dropout"),
        *("summary_proj_to_labels", "summary_type", "summary_use_proj", "use_flash_attn", "use_xentropy"),
    ),
    prefix="nomic_bert.",
    aliases={"cls.predictions.bias": ("cls.predictions.decoder.bias",)},
)

_SIZES = (
    Setting("num_hidden_layers", "layers"),
    Setting("hidden_size", "width"),
    Setting("num_attention_heads", "heads"),
    Setting("intermediate_size", "feed_forward_width"),
)
_GTE = "gte.encoder.layer.{layer}."
# What a gate multiplies, and then the gate.
_GATE_LAST = Change(
    lambda tensors, config: TWO_PARTS.to_ours(TWO_PARTS.to_theirs(tensors[0], config)[::-1], config),
    lambda array, config: [TWO_PARTS.to_ours(TWO_PARTS.to_theirs(array, config)[::-1], config)],
)

GTE = Architecture(
    model_type="gte",
    class_name="GteForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    implied={**_IMPLIED, "up_biases": False},
    settings=(
        *_SIZES,
        Setting("max_position_embeddings", "context", 8192),
        Setting("layer_norm_eps", "norm_epsilon", 1e-12),
        Setting("type_vocab_size", "segments", 1),
        Setting("hidden_act", "feed_forward", "gelu", {"gelu": "geglu_exact"}),  # that before the output, too
        rotary(base=160_000.0),
        TIED,
    ),
    tensors=(
        *_around("gte", "embeddings.LayerNorm", "lm_head.", "lm_head.norm", "lm_head.bias"),
        Tensor("output.bias", "lm_head.decoder.bias", by_token=True),
        *_layers(_GTE, "attention.qkv_proj", "attention.o_proj", ("attn_ln", "mlp_ln")),
        Tensor(_BLOCK + "feed_forward.up.weight", _GTE + "mlp.up_gate_proj.weight", _GATE_LAST),
        *weight_and_bias(_BLOCK + "feed_forward.down", _GTE + "mlp.down_proj"),
    ),
    ignored=_DROPOUTS,
    prefix="gte.",
)

_JINA = "roberta.encoder.layers.{layer}."

JINA3 = Architecture(
    model_type="jina_embeddings_v3",
    class_name="JinaEmbeddingsV3ForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    implied=_IMPLIED,
    settings=(
        *_SIZES,
        Setting("max_position_embeddings", "context", 8194),
        Setting("layer_norm_eps", "norm_epsilon", 1e-5),
        Setting("type_vocab_size", "segments", 1),
        Setting("hidden_act", "feed_forward", "gelu", {"gelu": "gelu_exact"}),
        rotary(base=20_000.0),
        TIED,
    ),
    tensors=(
        *_around("roberta", "emb_ln", "lm_head.", "lm_head.layer_norm", "lm_head.bias"),
        Tensor("output.bias", "lm_head.bias", by_token=True),
        *_layers(_JINA, "mixer.Wqkv", "mixer.out_proj", ("norm1", "norm2")),
        *weight_and_bias(_BLOCK + "feed_forward.up", _JINA + "mlp.fc1"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _JINA + "mlp.fc2"),
    ),
    ignored=_DROPOUTS,
    ignored_tensors=(r"roberta\.pooler\.dense\.(weight|bias)",),
    prefix="roberta.",
    aliases={"lm_head.bias": ("lm_head.decoder.bias",)},
)
