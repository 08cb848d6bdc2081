"""GPT-2 and its relatives, causal Transformers with LayerNorm.

GPT-2 (Radford et al. 2019), and DistilGPT-2. GPT-BigCode (Ben Allal et al. 2023), and StarCoder: all heads share keys
and values. GPT-Neo (Black et al. 2021) and TinyStories: every other layer attends within a window, and scores are not
scaled. GPT-NeoX (Black et al. 2022), and Pythia: attention and feed-forward in parallel, each with its own norm. OPT
(Zhang et al. 2022): ReLU; its first position is the third row of the table. GPT-J (Wang and Komatsuzaki 2021): one norm
for both, and neighbours are rotated. Falcon (Almazrouei et al. 2023): one head of keys, or one for each group of
queries. BLOOM (BigScience 2022): ALiBi, and a norm after the embedding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import (
    ACTIVATIONS,
    GROUP_BY_GROUP,
    HEAD_BY_HEAD,
    NEIGHBOURS_ROTATED,
    QUERY_KEY_VALUE,
    SAME,
    TRANSPOSED,
    Architecture,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.features.open.network.config import OpenSettings, OpenTransformerConfig
from chainrule.features.open.positions import ROPE

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK = "encoder.blocks.{layer}."
_GPT_LAYER, _NEOX_LAYER, _OPT_LAYER = (
    "transformer.h.{layer}.",
    "gpt_neox.layers.{layer}.",
    "model.decoder.layers.{layer}.",
)
_OPT_ATTENTION = tuple(f"{_OPT_LAYER}self_attn.{name}_proj" for name in "qkv")
_GLOBAL, _LOCAL = "global", "local"
_SUMMARIES = tuple(f"summary_{part}" for part in ("activation", "first_dropout", "proj_to_labels", "type", "use_proj"))
# What all of them have.
_IMPLIED = {"norm": "layer", "norm_gain": True, "embedding_norm": False, "query_key_norm": False, "biases": True}

GPT2 = Architecture(
    model_type="gpt2",
    class_name="GPT2LMHeadModel",
    family="transformer",
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "positions": "learned"},
    settings=(
        Setting("n_layer", "layers"),
        Setting("n_embd", "width"),
        Setting("n_head", "heads"),
        Setting("n_positions", "context"),
        Setting("n_inner", "feed_forward_width", None),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("activation_function", "feed_forward", "gelu_new", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", True),
    ),
    tensors=(
        Tensor("embedding.weight", "transformer.wte.weight", by_token=True),
        Tensor("encoder.places.vectors", "transformer.wpe.weight"),
        *weight_and_bias(_BLOCK + "norms.0", _GPT_LAYER + "ln_1"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _GPT_LAYER + "attn.c_attn", TRANSPOSED),
        *weight_and_bias(_BLOCK + "attention.out", _GPT_LAYER + "attn.c_proj", TRANSPOSED),
        *weight_and_bias(_BLOCK + "norms.1", _GPT_LAYER + "ln_2"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _GPT_LAYER + "mlp.c_fc", TRANSPOSED),
        *weight_and_bias(_BLOCK + "feed_forward.down", _GPT_LAYER + "mlp.c_proj", TRANSPOSED),
        *weight_and_bias("encoder.norm", "transformer.ln_f"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
    },
    ignored=("n_ctx", "attn_pdrop", "embd_pdrop", "resid_pdrop", *_SUMMARIES),
    ignored_tensors=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),  # the causal mask, in old files
    prefix="transformer.",
)


def _read_multi_query(config: Json) -> Json:
    return {"key_value_heads": 1 if config.get("multi_query", True) else config["n_head"]}


_IN_BLOCK = tuple(
    row._replace(change=SAME) for row in GPT2.tensors if row.change is TRANSPOSED and "query_key_value" not in row.ours
)
_JOINT = (_BLOCK + "attention.query_key_value", _GPT_LAYER + "attn.c_attn")

GPT_BIGCODE = replace(
    GPT2,
    model_type="gpt_bigcode",
    class_name="GPTBigCodeForCausalLM",
    settings=(
        *(row for row in GPT2.settings if isinstance(row, Setting) and row.theirs != "activation_function"),
        Setting("activation_function", "feed_forward", "gelu_pytorch_tanh", ACTIVATIONS),
        Rule(("multi_query",), _read_multi_query, lambda config: {"multi_query": config.key_heads == 1}),
    ),
    tensors=(
        *(row for row in GPT2.tensors if row.change is not TRANSPOSED),
        *_IN_BLOCK,
        *(row._replace(when=lambda config: config.key_heads == 1) for row in weight_and_bias(*_JOINT)),
        *(row._replace(when=lambda config: config.key_heads > 1) for row in weight_and_bias(*_JOINT, HEAD_BY_HEAD)),
    ),
    fixed={"scale_attn_weights": True},
    ignored=(
        *(*GPT2.ignored, "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "num_key_value_heads"),
        *("inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache"),
        "validate_runner_input",
    ),
    ignored_tensors=(*GPT2.ignored_tensors, r"transformer\.bias"),
)


def _read_windows(config: Json) -> Json:
    kinds = [kind for some, times in config["attention_types"] for _ in range(times) for kind in some]
    layers, window = config["num_layers"], config.get("window_size", 256)
    if len(kinds) != layers or config.get("attention_layers", kinds) != kinds:
        raise ValueError(f"they name {len(kinds)} layers; expected {layers}, the same in both")
    if window >= config["max_position_embeddings"] or _LOCAL not in kinds:
        return {"window": None}
    every = kinds.index(_LOCAL) + 1
    if kinds != [_GLOBAL if layer % every else _LOCAL for layer in range(1, layers + 1)]:
        raise ValueError(
            "this order of global and local layers is not supported; expected every n-th layer to be local"
        )
    return {"window": window, "window_every": every}


def _write_windows(config: OpenSettings) -> Json:
    if config.window is None:
        return {"attention_types": [[[_GLOBAL], config.layers]], "window_size": 256}
    times, rest = divmod(config.layers, config.window_every)
    groups = [[[*[_GLOBAL] * (config.window_every - 1), _LOCAL], times], [[_GLOBAL] * rest, 1]]
    return {"attention_types": [group for group in groups if group[0] and group[1]], "window_size": config.window}


GPT_NEO = Architecture(
    model_type="gpt_neo",
    class_name="GPTNeoForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "positions": "learned", "score": "dot", "without_biases": ("query_key_value",)},
    settings=(
        Setting("num_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_heads", "heads"),
        Setting("intermediate_size", "feed_forward_width", None),
        Setting("max_position_embeddings", "context", 2048),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("activation_function", "feed_forward", "gelu_new", ACTIVATIONS),
        Setting("tie_word_embeddings", "tied", True),
        Rule(("attention_types", "attention_layers", "window_size"), _read_windows, _write_windows),
    ),
    tensors=(
        Tensor("embedding.weight", "transformer.wte.weight", by_token=True),
        Tensor("encoder.places.vectors", "transformer.wpe.weight"),
        *weight_and_bias(_BLOCK + "norms.0", _GPT_LAYER + "ln_1"),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            tuple(f"{_GPT_LAYER}attn.attention.{name}_proj.weight" for name in "qkv"),
            QUERY_KEY_VALUE,
        ),
        *weight_and_bias(_BLOCK + "attention.out", _GPT_LAYER + "attn.attention.out_proj"),
        *weight_and_bias(_BLOCK + "norms.1", _GPT_LAYER + "ln_2"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _GPT_LAYER + "mlp.c_fc"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _GPT_LAYER + "mlp.c_proj"),
        *weight_and_bias("encoder.norm", "transformer.ln_f"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    ignored=("attention_dropout", "embed_dropout", "resid_dropout", "classifier_dropout", *_SUMMARIES),
    ignored_tensors=(r"transformer\.h\.\d+\.attn\.attention\.(masked_)?bias",),
    prefix="transformer.",
)


def _read_rope(config: Json) -> Json:
    """Return the settings of rotary positions: rotary_pct and rotary_emb_base of transformers 4, rope_parameters
    of 5.
    """
    parameters = config.get("rope_parameters") or {}
    base, share = config.get("rotary_emb_base"), config.get("rotary_pct")
    new_share = parameters.get("partial_rotary_factor")
    if None not in (share, new_share) and share != new_share:
        raise ValueError(f"rotary_pct is {share!r}, but rope_parameters has {new_share!r}; expected the same")
    share = next((value for value in (new_share, share) if value is not None), 0.25)
    settings = ROPE.read(config if base is None else {**config, "rope_theta": base})
    return {**settings, "rotary_width": int(config["hidden_size"] // config["num_attention_heads"] * share)}


def _write_rope(config: OpenSettings) -> Json:
    share = config.rotated_width / config.width_of_heads
    written = ROPE.write(config)
    return {
        "rotary_pct": share,
        "rotary_emb_base": config.rotary_base,
        "rope_scaling": written["rope_scaling"],
        "rope_parameters": {**written["rope_parameters"], "partial_rotary_factor": share},
    }


GPT_NEOX = Architecture(
    model_type="gpt_neox",
    class_name="GPTNeoXForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "shared_norm": False},
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 2048),
        Setting("layer_norm_eps", "norm_epsilon", 1e-5),
        Setting("hidden_act", "feed_forward", "gelu", ACTIVATIONS),
        Setting("use_parallel_residual", "parallel", True),
        Setting(
            "attention_bias",
            "without_biases",
            True,
            {True: (), False: ("query_key_value", "attention_out")},
        ),
        Setting("tie_word_embeddings", "tied", False),
        Rule(
            ("rotary_pct", "rotary_emb_base", "rope_theta", "rope_scaling", "rope_parameters"), _read_rope, _write_rope
        ),
    ),
    tensors=(
        Tensor("embedding.weight", "gpt_neox.embed_in.weight", by_token=True),
        *weight_and_bias(_BLOCK + "norms.0", _NEOX_LAYER + "input_layernorm"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _NEOX_LAYER + "attention.query_key_value", HEAD_BY_HEAD),
        *weight_and_bias(_BLOCK + "attention.out", _NEOX_LAYER + "attention.dense"),
        *weight_and_bias(_BLOCK + "norms.1", _NEOX_LAYER + "post_attention_layernorm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _NEOX_LAYER + "mlp.dense_h_to_4h"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _NEOX_LAYER + "mlp.dense_4h_to_h"),
        *weight_and_bias("encoder.norm", "gpt_neox.final_layer_norm"),
        Tensor("output.weight", "embed_out.weight", by_token=True),
    ),
    ignored=("attention_dropout", "hidden_dropout", "classifier_dropout"),
    ignored_tensors=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
    prefix="gpt_neox.",
)


def _read_width(config: Json) -> Json:
    width, inner = config.get("word_embed_proj_dim"), config["hidden_size"]
    if width not in (None, inner):
        raise ValueError(
            f"token vectors of width {width} in layers of width {inner} are not supported; expected the same width"
        )
    return {"width": inner}


OPT = Architecture(
    model_type="opt",
    class_name="OPTForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "norm_epsilon": 1e-5, "positions": "learned", "position_offset": 2},
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
        *weight_and_bias(_BLOCK + "attention.query_key_value", _OPT_ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _OPT_LAYER + "self_attn.out_proj"),
        *weight_and_bias(_BLOCK + "norms.0", _OPT_LAYER + "self_attn_layer_norm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _OPT_LAYER + "fc1"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _OPT_LAYER + "fc2"),
        *weight_and_bias(_BLOCK + "norms.1", _OPT_LAYER + "final_layer_norm"),
        *weight_and_bias("encoder.norm", "model.decoder.final_layer_norm"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={"enable_bias": True, "layer_norm_elementwise_affine": True, "_remove_final_layer_norm": False},
    ignored=("dropout", "attention_dropout", "activation_dropout", "layerdrop", "init_std"),
    prefix="model.",
)


def _read_rotated(config: Json) -> Json:
    whole = config["n_embd"] // config["n_head"]
    return {"positions": "rotary", "rotary_base": 10_000.0, "rotary_width": config.get("rotary_dim", 64) or whole}


GPTJ = Architecture(
    model_type="gptj",
    class_name="GPTJForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={
        **_IMPLIED,
        "parallel": True,
        "shared_norm": True,
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
    ignored=("n_ctx", "attn_pdrop", "embd_pdrop", "resid_pdrop", "rotary", *_SUMMARIES),
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
        "without_biases": () if config.get("bias", False) else ("query_key_value", "attention_out", "feed_forward"),
    }


def _write_falcon(config: OpenSettings) -> Json:
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


def _has_two(config: OpenSettings) -> bool:
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
    config=OpenTransformerConfig,
    implied=_IMPLIED,
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
    config=OpenTransformerConfig,
    implied={**_IMPLIED, "embedding_norm": True, "positions": "alibi", "feed_forward": "gelu"},
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
