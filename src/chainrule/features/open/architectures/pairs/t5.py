"""T5 (Raffel et al. 2020), 1.0 and 1.1, mT5 and Flan-T5: biases by distance, and scores that are not scaled."""

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
    shared_vectors,
)
from chainrule.features.seq2seq.network.config import Seq2SeqConfig

if TYPE_CHECKING:
    Json = dict[str, Any]

_ENCODER, _DECODER = "reader.blocks.{layer}.", "decoder.blocks.{layer}."
_SHARED, _OUTPUT = "shared.weight", "lm_head.weight"
_VECTORS, _ALIASES = shared_vectors(_SHARED, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", _OUTPUT)
_LONGEST = 2048  # tokens of a source; T5 has no limit, but biases grow with the square


def _read_feed_forward(config: Json) -> Json:
    name = config.get("feed_forward_proj", "relu")
    kind = "gelu_new" if name == "gated-gelu" else name.removeprefix("gated-")  # as transformers has it
    known = GATED if name.startswith("gated-") else ACTIVATIONS
    if kind not in known:
        raise ValueError(
            f"{name!r} is not supported; expected one of {', '.join(ACTIVATIONS)}, gated-gelu and gated-silu"
        )
    stated = config.get("dense_act_fn", kind), config.get("is_gated_act", name.startswith("gated-"))
    if stated != (kind, name.startswith("gated-")):
        raise ValueError(f"{name!r} contradicts dense_act_fn, {stated[0]!r}, or is_gated_act, {stated[1]!r}")
    return {"feed_forward": known[kind]}


def _write_feed_forward(config: Seq2SeqConfig) -> Json:
    if _is_gated(config):
        return {"feed_forward_proj": "gated-gelu" if config.feed_forward == "geglu" else "gated-silu"}
    return {"feed_forward_proj": next(name for name, ours in ACTIVATIONS.items() if ours == config.feed_forward)}


def _read_output(config: Json) -> Json:
    """Return how the output is tied: a tied output is scaled; transformers 4 says so by tie_word_embeddings, 5 by
    scale_decoder_outputs.
    """
    tied = config.get("tie_word_embeddings") is not False and config.get("scale_decoder_outputs") is not False
    return {"shared": "all" if tied else "inputs", "scaled_output": tied}


def _write_output(config: Seq2SeqConfig) -> Json:
    return dict.fromkeys(("tie_word_embeddings", "scale_decoder_outputs"), config.scaled_output)


def _is_gated(config: Seq2SeqConfig) -> bool:
    return config.feed_forward in ("geglu", "swiglu")


def _attention(theirs: str, names: str) -> tuple[str, ...]:
    return tuple(f"{theirs}.{name}.weight" for name in names)


def _block(ours: str, side: str, last: int) -> tuple[Tensor, ...]:
    """Return the tensors that blocks of both sides have. last: the index of the feed-forward layer in its block."""
    theirs = f"{side}.block.{{layer}}.layer."
    own, dense = f"{theirs}0.SelfAttention", f"{theirs}{last}.DenseReluDense"
    return (
        Tensor(f"{ours}attention.query_key_value.weight", _attention(own, "qkv"), QUERY_KEY_VALUE),
        Tensor(f"{ours}attention.out.weight", f"{own}.o.weight"),
        Tensor(f"{ours}norms.0.weight", f"{theirs}0.layer_norm.weight"),
        Tensor(f"{ours}feed_forward.up.weight", f"{dense}.wi.weight", when=lambda config: not _is_gated(config)),
        Tensor(
            f"{ours}feed_forward.up.weight", (f"{dense}.wi_0.weight", f"{dense}.wi_1.weight"), TWO_PARTS, when=_is_gated
        ),
        Tensor(f"{ours}feed_forward.down.weight", f"{dense}.wo.weight"),
        Tensor(f"{ours}norms.{last}.weight", f"{theirs}{last}.layer_norm.weight"),
    )


_CROSS = "decoder.block.{layer}.layer.1.EncDecAttention"

T5 = Architecture(
    model_type="t5",
    class_name="T5ForConditionalGeneration",
    family="conditional",
    config=Seq2SeqConfig,
    implied={
        "style": "t5",
        "norm_place": "pre",
        "positions": "relative",
        "score": "dot",
        "scaled_embedding": False,
        "output_bias": False,
        "max_source": _LONGEST,
    },
    settings=(
        Setting("num_layers", "encoder_layers"),
        Rule(
            ("num_decoder_layers",),
            lambda config: {"decoder_layers": config.get("num_decoder_layers") or config["num_layers"]},
            lambda config: {"num_decoder_layers": config.decoder_layers},
        ),
        Setting("d_model", "width"),
        Setting("d_kv", "head_width"),
        Setting("num_heads", "heads"),
        Setting("d_ff", "feed_forward_width"),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-6),
        Rule(("feed_forward_proj", "dense_act_fn", "is_gated_act"), _read_feed_forward, _write_feed_forward),
        Rule(("tie_word_embeddings", "scale_decoder_outputs"), _read_output, _write_output),
    ),
    tensors=(
        *_VECTORS,
        *_block(_ENCODER, "encoder", 1),
        *_block(_DECODER, "decoder", 2),
        Tensor(f"{_DECODER}look.query.weight", f"{_CROSS}.q.weight"),
        Tensor(f"{_DECODER}look.key_value.weight", _attention(_CROSS, "kv"), TWO_PARTS),
        Tensor(f"{_DECODER}look.out.weight", f"{_CROSS}.o.weight"),
        Tensor(f"{_DECODER}norms.1.weight", "decoder.block.{layer}.layer.1.layer_norm.weight"),
        *(
            Tensor(f"{ours}.bias.numbers", f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
            for ours, side in (("reader", "encoder"), ("decoder", "decoder"))
        ),
        *(
            Tensor(f"{ours}.norm.weight", f"{side}.final_layer_norm.weight")
            for ours, side in (("reader", "encoder"), ("decoder", "decoder"))
        ),
    ),
    fixed={
        "is_encoder_decoder": True,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
    },
    ignored=(
        *("dropout_rate", "classifier_dropout", "initializer_factor", "n_positions", "output_past"),
        *("num_hidden_layers", "tokenizer_class"),
    ),
    ignored_tensors=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),  # never used
    aliases={**_ALIASES, _OUTPUT: (_SHARED,)},
)


def _read_mt5_output(config: Json) -> Json:
    """Return how the output is tied: transformers 4 scales a tied output (published models are not tied); 5 calls all
    tied, and scales none.
    """
    by_5 = int(str(config.get("transformers_version", "4")).partition(".")[0]) >= 5
    scaled = config.get("tie_word_embeddings") is True and not by_5
    return {"shared": "all" if scaled else "inputs", "scaled_output": scaled}


MT5 = replace(
    T5,
    model_type="mt5",
    class_name="MT5ForConditionalGeneration",
    settings=(
        *T5.settings[:-1],
        Rule(("tie_word_embeddings",), _read_mt5_output, lambda config: {"tie_word_embeddings": config.scaled_output}),
    ),
)
