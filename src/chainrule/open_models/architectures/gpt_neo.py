"""GPT-Neo (Black et al. 2021) and TinyStories: every other layer attends within a window, and scores are not scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import ACTIVATIONS, QUERY_KEY_VALUE, Architecture, Rule, Setting, Tensor

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "transformer.h.{layer}."
_GLOBAL, _LOCAL = "global", "local"


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


def _write_windows(config: TransformerConfig) -> Json:
    if config.window is None:
        return {"attention_types": [[[_GLOBAL], config.layers]], "window_size": 256}
    times, rest = divmod(config.layers, config.window_every)
    groups = [[[*[_GLOBAL] * (config.window_every - 1), _LOCAL], times], [[_GLOBAL] * rest, 1]]
    return {"attention_types": [group for group in groups if group[0] and group[1]], "window_size": config.window}


def _of_attention(kind: str) -> tuple[str, ...]:
    return tuple(f"{_LAYER}attn.attention.{name}_proj.{kind}" for name in "qkv")


GPT_NEO = Architecture(
    model_type="gpt_neo",
    class_name="GPTNeoForCausalLM",
    family="transformer",
    config=TransformerConfig,
    implied={
        "norm": "layer",
        "norm_gain": True,
        "embedding_norm": False,
        "positions": "learned",
        "score": "dot",
        "query_key_norm": False,
        "biases": True,
        "without_biases": ("query_key_value",),
    },
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
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "ln_1.weight"),
        Tensor(_BLOCK + "norms.0.bias", _LAYER + "ln_1.bias"),
        Tensor(_BLOCK + "attention.query_key_value.weight", _of_attention("weight"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "attn.attention.out_proj.weight"),
        Tensor(_BLOCK + "attention.out.bias", _LAYER + "attn.attention.out_proj.bias"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "ln_2.weight"),
        Tensor(_BLOCK + "norms.1.bias", _LAYER + "ln_2.bias"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "mlp.c_fc.weight"),
        Tensor(_BLOCK + "feed_forward.up.bias", _LAYER + "mlp.c_fc.bias"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "mlp.c_proj.weight"),
        Tensor(_BLOCK + "feed_forward.down.bias", _LAYER + "mlp.c_proj.bias"),
        Tensor("encoder.norm.weight", "transformer.ln_f.weight"),
        Tensor("encoder.norm.bias", "transformer.ln_f.bias"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    ignored=(
        *("attention_dropout", "embed_dropout", "resid_dropout", "classifier_dropout"),
        *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
    ),
    ignored_tensors=(r"transformer\.h\.\d+\.attn\.attention\.(masked_)?bias",),
    prefix="transformer.",
)
