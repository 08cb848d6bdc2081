"""Marian (Junczys-Dowmunt et al. 2018), the models of OPUS-MT: the Transformer of Vaswani et al. 2017."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import (
    ACTIVATIONS,
    ONE_ROW,
    QUERY_KEY_VALUE,
    SHARING,
    TWO_PARTS,
    Architecture,
    Rule,
    Setting,
    Tensor,
    shared_vectors,
)
from chainrule.features.seq2seq.network.config import Seq2SeqConfig

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray

    Json = dict[str, Any]

_SHARED, _OUTPUT = "model.shared.weight", "lm_head.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SIDES = (
    ("reader.blocks.{layer}.", "model.encoder.layers.{layer}."),
    ("decoder.blocks.{layer}.", "model.decoder.layers.{layer}."),
)


def _read_same(*names: str, ours: str) -> Any:
    """Return the rule for two fields, one of each side, for which our networks have a single setting."""

    def read(config: Json) -> Json:
        encoder, decoder = (config[name] for name in names)
        if encoder != decoder:
            raise ValueError(f"{encoder!r} and {decoder!r}; expected the same on both sides")
        return {ours: encoder}

    return Rule(names, read, lambda config: dict.fromkeys(names, getattr(config, ours)))


_VECTORS, _ALIASES = shared_vectors(_SHARED, _SOURCE, _TARGET, _OUTPUT)


def _read_sharing(config: Json) -> Json:
    inputs, output = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    if not isinstance(inputs, bool) or not isinstance(output, bool):
        raise ValueError(f"{inputs!r} and {output!r}; expected true or false")
    return {"shared": SHARING[inputs, output]}


def _write_sharing(config: Seq2SeqConfig) -> Json:
    inputs, output = next(both for both, shared in SHARING.items() if shared == config.shared)
    return {"share_encoder_decoder_embeddings": inputs, "tie_word_embeddings": output}


def _sinusoids(config: Seq2SeqConfig) -> Float64[ndarray, "positions D"]:
    """Return the table of positions, which some files contain and networks compute."""
    waves = 10_000.0 ** (-np.arange(0, config.width, 2) / config.width)
    angles = np.arange(config.max_source)[:, None] * waves
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def _of_attention(layer: str, attention: str, kind: str, names: str) -> tuple[str, ...]:
    return tuple(f"{layer}{attention}.{name}_proj.{kind}" for name in names)


def _block(ours: str, theirs: str, kind: str) -> tuple[Tensor, ...]:
    """Return the tensors that blocks of both sides have. kind: weight or bias."""
    last = 2 if ours.startswith("decoder") else 1
    return (
        Tensor(
            f"{ours}attention.query_key_value.{kind}", _of_attention(theirs, "self_attn", kind, "qkv"), QUERY_KEY_VALUE
        ),
        Tensor(f"{ours}attention.out.{kind}", f"{theirs}self_attn.out_proj.{kind}"),
        Tensor(f"{ours}norms.0.{kind}", f"{theirs}self_attn_layer_norm.{kind}"),
        Tensor(f"{ours}feed_forward.up.{kind}", f"{theirs}fc1.{kind}"),
        Tensor(f"{ours}feed_forward.down.{kind}", f"{theirs}fc2.{kind}"),
        Tensor(f"{ours}norms.{last}.{kind}", f"{theirs}final_layer_norm.{kind}"),
    )


def _cross(kind: str) -> tuple[Tensor, ...]:
    """Return the tensors with which the decoder attends to the source."""
    ours, theirs = _SIDES[1]
    return (
        Tensor(f"{ours}look.query.{kind}", f"{theirs}encoder_attn.q_proj.{kind}"),
        Tensor(f"{ours}look.key_value.{kind}", _of_attention(theirs, "encoder_attn", kind, "kv"), TWO_PARTS),
        Tensor(f"{ours}look.out.{kind}", f"{theirs}encoder_attn.out_proj.{kind}"),
        Tensor(f"{ours}norms.1.{kind}", f"{theirs}encoder_attn_layer_norm.{kind}"),
    )


MARIAN = Architecture(
    model_type="marian",
    class_name="MarianMTModel",
    family="conditional",
    config=Seq2SeqConfig,
    implied={
        "style": "vaswani",
        "norm_place": "post",
        "positions": "sinusoidal",
        "interleaved_sinusoids": False,
        "output_bias": True,
    },
    settings=(
        Setting("encoder_layers", "encoder_layers"),
        Setting("decoder_layers", "decoder_layers"),
        Setting("d_model", "width"),
        _read_same("encoder_attention_heads", "decoder_attention_heads", ours="heads"),
        _read_same("encoder_ffn_dim", "decoder_ffn_dim", ours="feed_forward_width"),
        Setting("max_position_embeddings", "max_source", 1024),
        Setting("activation_function", "feed_forward", "gelu", ACTIVATIONS),
        Setting("scale_embedding", "scaled_embedding", False),
        Rule(("share_encoder_decoder_embeddings", "tie_word_embeddings"), _read_sharing, _write_sharing),
    ),
    tensors=(
        *_VECTORS,
        Tensor("output.bias", "final_logits_bias", ONE_ROW, by_token=True),
        *(row for side in _SIDES for kind in ("weight", "bias") for row in _block(*side, kind)),
        *(row for kind in ("weight", "bias") for row in _cross(kind)),
    ),
    fixed={
        "is_encoder_decoder": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
    },
    ignored=(
        *("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop", "init_std"),
        *("classif_dropout", "classifier_dropout", "add_bias_logits", "num_hidden_layers", "_num_labels"),
        *("decoder_vocab_size", "extra_pos_embeddings", "num_labels", "output_past", "save_step"),
    ),
    aliases=_ALIASES,
    computed={f"model.{side}.embed_positions.weight": _sinusoids for side in ("encoder", "decoder")},
)
