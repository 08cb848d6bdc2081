"""LLaMA (Touvron et al. 2023) and relatives with the same tensors. SmolLM2 and TinyLlama are LLaMAs.

Mistral, Qwen 2, ERNIE 4.5 (whose positions rotate neighbours), SmolLM3 (every fourth layer has no positions). Qwen 3:
queries and keys are normalised. Granite: factors of embeddings, scores, sub-layers and logits. Mixtral and Qwen 3 MoE:
mixtures of experts. nanochat (Karpathy 2025) is our default Transformer, except that its positions rotate in the
opposite direction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import (
    ACTIVATIONS,
    GATED,
    NEIGHBOURS_ROTATED,
    QUERY_KEY_VALUE,
    ROTATED_BACKWARDS,
    TWO_PARTS,
    Architecture,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.features.open.network.config import OpenSettings, OpenTransformerConfig
from chainrule.features.open.positions import ROPE, SLIDING_WINDOW, layer_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chainrule.neural.config.transformer import BiasedPart

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_ATTENTION = tuple(f"{_LAYER}self_attn.{name}_proj" for name in "qkv")


def biases(parts: Mapping[BiasedPart, tuple[str, bool]], *, of_norms: bool = False) -> Rule:
    """Return the rule of biases. parts: of each that may have some, the field, and its default. of_norms: whether
    norms have some, whatever else has.
    """

    def read(config: Json) -> Json:
        has = {part: bool(config.get(*parts[part])) if part in parts else False for part in PARTS}
        without = tuple(part for part in PARTS if not has[part])
        are_there = of_norms or any(has.values())
        return {"biases": are_there, "without_biases": without if are_there else ()}

    def write(config: OpenSettings) -> Json:
        return {field: config.has_biases(part) for part, (field, _) in parts.items()}

    return Rule(tuple(dict.fromkeys(field for field, _ in parts.values())), read, write)


PARTS: tuple[BiasedPart, ...] = ("query_key_value", "attention_out", "feed_forward")
_OF_ATTENTION, _OF_FED = ("attention_bias", False), ("mlp_bias", False)
BIASES = biases({"query_key_value": _OF_ATTENTION, "attention_out": _OF_ATTENTION, "feed_forward": _OF_FED})


def settings(activation: str, activations: Mapping[str, str]) -> tuple[Setting | Rule, ...]:
    """Return the rows of settings.

    activation: that of files which do not say. activations: ours, by the names that files have.
    """
    return (
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("num_key_value_heads", "key_value_heads", None),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 2048),
        Setting("rms_norm_eps", "norm_epsilon", 1e-6),
        Setting("hidden_act", "feed_forward", activation, activations),
        Setting("head_dim", "head_width", None),
        Setting("tie_word_embeddings", "tied", False),
        ROPE,
    )


_SETTINGS = settings("silu", GATED)

LLAMA = Architecture(
    model_type="llama",
    class_name="LlamaForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={"norm": "rms", "norm_gain": True, "embedding_norm": False, "query_key_norm": False},
    settings=(*_SETTINGS, BIASES),
    tensors=(
        Tensor("embedding.weight", "model.embed_tokens.weight", by_token=True),
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "input_layernorm.weight"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _LAYER + "self_attn.o_proj"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "post_attention_layernorm.weight"),
        *weight_and_bias(_BLOCK + "feed_forward.up", (_LAYER + "mlp.gate_proj", _LAYER + "mlp.up_proj"), TWO_PARTS),
        *weight_and_bias(_BLOCK + "feed_forward.down", _LAYER + "mlp.down_proj"),
        Tensor("encoder.norm.weight", "model.norm.weight"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    ignored=("attention_dropout", "pretraining_tp", "rope_interleaved"),
    ignored_tensors=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
)
MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    class_name="MistralForCausalLM",
    settings=(*_SETTINGS, SLIDING_WINDOW),
)


def qwen_layers(has_window: Callable[[Json, int], bool]) -> Rule:
    """Return the rule of layers with windows: without use_sliding_window, transformers ignores sliding_window.

    has_window: whether a layer has one, where config.json has no layer_types.
    """
    types = layer_types(
        lambda config, layer: bool(config.get("use_sliding_window")) and has_window(config, layer),
        *("use_sliding_window", "max_window_layers"),
    )

    def read(config: Json) -> Json:
        return types.read(config if config.get("use_sliding_window") else {**config, "sliding_window": None})

    def write(config: OpenSettings) -> Json:
        return {"use_sliding_window": config.window is not None, **types.write(config)}

    return Rule(types.fields, read, write)


QWEN_LAYERS = qwen_layers(lambda config, layer: layer >= config.get("max_window_layers", 28))

QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    class_name="Qwen2ForCausalLM",
    implied={**LLAMA.implied, "biases": True, "without_biases": ("attention_out", "feed_forward")},
    settings=(*_SETTINGS, QWEN_LAYERS),
)


def with_head_width(width: int, rows: tuple[Setting | Rule, ...] = _SETTINGS) -> tuple[Setting | Rule, ...]:
    """Return the same settings, with another width of heads where config.json does not say."""
    return tuple(Setting("head_dim", "head_width", width) if is_of(row, "head_dim") else row for row in rows)


def is_of(row: Setting | Rule, name: str) -> bool:
    return isinstance(row, Setting) and row.theirs == name


# The gains of queries and keys.
QUERY_KEY_GAINS = (
    Tensor(_BLOCK + "attention.gains.0", _LAYER + "self_attn.q_norm.weight"),
    Tensor(_BLOCK + "attention.gains.1", _LAYER + "self_attn.k_norm.weight"),
)

QWEN3 = replace(
    LLAMA,
    model_type="qwen3",
    class_name="Qwen3ForCausalLM",
    implied={**LLAMA.implied, "query_key_norm": True},
    settings=(*with_head_width(128), BIASES, QWEN_LAYERS),
    tensors=(*LLAMA.tensors, *QUERY_KEY_GAINS),
)

_FEED_FORWARD = _BLOCK + "feed_forward."
NAMES = ("gate_proj", "up_proj", "down_proj")


def with_experts(gate: str, expert: str, names: Sequence[str] = NAMES) -> tuple[Tensor, ...]:
    """Return the tensors of a LLaMA with experts.

    gate: the router's name. names: of a gate, what it multiplies, and down.
    """
    first, second, down = (f"{_LAYER}{expert}.{name}.weight" for name in names)
    joint = _LAYER + expert.removesuffix(".{expert}")
    return (
        *(row for row in LLAMA.tensors if not row.ours.startswith(_FEED_FORWARD)),
        Tensor(_FEED_FORWARD + "router.weight", _LAYER + gate + ".weight"),
        Tensor(
            *(_FEED_FORWARD + "experts.{expert}.up.weight", (first, second), TWO_PARTS),
            together=joint + ".gate_up_proj",
        ),
        Tensor(_FEED_FORWARD + "experts.{expert}.down.weight", down, together=joint + ".down_proj"),
    )


MIXTRAL = replace(
    MISTRAL,
    model_type="mixtral",
    class_name="MixtralForCausalLM",
    implied={**LLAMA.implied, "normalised_experts": True},
    settings=(
        *MISTRAL.settings,
        Setting("num_local_experts", "experts", 8),
        Setting("num_experts_per_tok", "chosen_experts", 2),
    ),
    tensors=with_experts("block_sparse_moe.gate", "block_sparse_moe.experts.{expert}", ("w1", "w3", "w2")),
    ignored=(*LLAMA.ignored, "output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),
)


# With a plain feed-forward layer in some layers.
WITH_DENSE_LAYERS = (
    *with_experts("mlp.gate", "mlp.experts.{expert}"),
    *(row for row in LLAMA.tensors if row.ours.startswith(_FEED_FORWARD)),
)
_SPARSE = (
    *("num_experts", "num_local_experts", "moe_intermediate_size", "intermediate_size", "decoder_sparse_step"),
    "mlp_only_layers",
)


def sparse(count: int, width: int, dense: int) -> Rule:
    """Return the rule of experts, and of layers without them, by their defaults: how many there are, and widths."""

    def read(config: Json) -> Json:
        step, only = config.get("decoder_sparse_step", 1), config.get("mlp_only_layers") or ()
        layers = tuple(layer for layer in range(config["num_hidden_layers"]) if (layer + 1) % step or layer in only)
        return {
            "experts": config.get("num_experts", config.get("num_local_experts", count)),
            "feed_forward_width": config.get("moe_intermediate_size", width),
            "dense_layers": layers,
            "dense_width": config.get("intermediate_size", dense) if layers else None,
        }

    def write(config: OpenSettings) -> Json:
        dense_width = {"intermediate_size": config.dense_width} if config.dense_layers else {}
        sizes = {"num_experts": config.experts, "moe_intermediate_size": config.hidden_width}
        return {**sizes, **dense_width, "decoder_sparse_step": 1, "mlp_only_layers": list(config.dense_layers)}

    return Rule(_SPARSE, read, write)


QWEN3_MOE = replace(
    QWEN3,
    model_type="qwen3_moe",
    class_name="Qwen3MoeForCausalLM",
    settings=(
        *(row for row in QWEN3.settings if not is_of(row, "intermediate_size")),
        Setting("num_experts_per_tok", "chosen_experts", 8),
        Setting("norm_topk_prob", "normalised_experts", False),
        sparse(128, 768, 6144),
    ),
    tensors=(*WITH_DENSE_LAYERS, *QUERY_KEY_GAINS),
    ignored=MIXTRAL.ignored,
)


def _read_unrotated(config: Json) -> Json:
    layers, interval = config["num_hidden_layers"], config.get("no_rope_layer_interval") or 4
    rotated = config.get("no_rope_layers")
    if rotated is None:
        rotated = [int((layer + 1) % interval != 0) for layer in range(layers)]
    if len(rotated) != layers:
        raise ValueError(f"they name {len(rotated)} layers; expected {layers}")
    return {"unrotated_layers": tuple(layer for layer, own in enumerate(rotated) if not own)}


def _write_unrotated(config: OpenSettings) -> Json:
    return {"no_rope_layers": [int(layer not in config.unrotated_layers) for layer in range(config.layers)]}


SMOLLM3 = replace(
    LLAMA,
    model_type="smollm3",
    class_name="SmolLM3ForCausalLM",
    settings=(
        *(
            Setting("tie_word_embeddings", "tied", True) if is_of(row, "tie_word_embeddings") else row
            for row in _SETTINGS
        ),
        BIASES,
        QWEN_LAYERS,
        Rule(("no_rope_layers", "no_rope_layer_interval"), _read_unrotated, _write_unrotated),
    ),
)


def _read_scaling(config: Json) -> Json:
    return {"logit_scale": 1 / config.get("logits_scaling", 1.0)}


GRANITE = replace(
    LLAMA,
    model_type="granite",
    class_name="GraniteForCausalLM",
    settings=(
        *LLAMA.settings,
        Setting("embedding_multiplier", "embedding_scale", 1.0),
        Setting("attention_multiplier", "attention_scale", 1.0),
        Setting("residual_multiplier", "residual_scale", 1.0),
        Rule(("logits_scaling",), _read_scaling, lambda config: {"logits_scaling": 1 / config.logit_scale}),
    ),
)

ERNIE4_5 = replace(
    LLAMA,
    model_type="ernie4_5",
    class_name="Ernie4_5ForCausalLM",
    settings=(
        *(
            Setting("tie_word_embeddings", "tied", True) if is_of(row, "tie_word_embeddings") else row
            for row in with_head_width(128)
        ),
        Setting("use_bias", "biases", False),
    ),
    tensors=tuple(
        row._replace(change=NEIGHBOURS_ROTATED) if row.change is QUERY_KEY_VALUE else row for row in LLAMA.tensors
    ),
)


def _read_cap(config: Json) -> Json:
    """Return the cap of logits: without the field, transformers caps them at 15; null caps none."""
    return {"logit_cap": config.get("final_logit_softcapping", 15.0)}


NANOCHAT = Architecture(
    model_type="nanochat",
    class_name="NanoChatForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={"norm": "rms", "norm_gain": False, "embedding_norm": True, "query_key_norm": True, "biases": False},
    settings=(
        *settings("relu2", ACTIVATIONS),
        Rule(("final_logit_softcapping",), _read_cap, lambda config: {"final_logit_softcapping": config.logit_cap}),
    ),
    tensors=(
        Tensor("embedding.weight", "model.embed_tokens.weight", by_token=True),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            tuple(f"{name}.weight" for name in _ATTENTION),
            ROTATED_BACKWARDS,
        ),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "self_attn.o_proj.weight"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "mlp.fc1.weight"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "mlp.fc2.weight"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={"attention_bias": False},
    ignored=("attention_dropout",),
)
