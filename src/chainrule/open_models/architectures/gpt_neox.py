"""GPT-NeoX (Black et al. 2022), and Pythia: attention and feed-forward in parallel, each with its own norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.neural.config import TransformerConfig
from chainrule.open_models.architecture import ACTIVATIONS, HEAD_BY_HEAD, ROPE, Architecture, Rule, Setting, Tensor

if TYPE_CHECKING:
    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "gpt_neox.layers.{layer}."


def _read_rope(config: Json) -> Json:
    """rotary_pct and rotary_emb_base of transformers 4, rope_parameters of 5."""
    parameters = config.get("rope_parameters") or {}
    base, share = config.get("rotary_emb_base"), config.get("rotary_pct")
    new_share = parameters.get("partial_rotary_factor")
    if None not in (share, new_share) and share != new_share:
        raise ValueError(f"rotary_pct is {share!r}, but rope_parameters has {new_share!r}; expected the same")
    share = next((value for value in (new_share, share) if value is not None), 0.25)
    settings = ROPE.read(config if base is None else {**config, "rope_theta": base})
    return {**settings, "rotary_width": int(config["hidden_size"] // config["num_attention_heads"] * share)}


def _write_rope(config: TransformerConfig) -> Json:
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
    config=TransformerConfig,
    implied={
        "norm": "layer",
        "norm_gain": True,
        "embedding_norm": False,
        "query_key_norm": False,
        "shared_norm": False,
        "biases": True,
    },
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
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "input_layernorm.weight"),
        Tensor(_BLOCK + "norms.0.bias", _LAYER + "input_layernorm.bias"),
        Tensor(_BLOCK + "attention.query_key_value.weight", _LAYER + "attention.query_key_value.weight", HEAD_BY_HEAD),
        Tensor(_BLOCK + "attention.query_key_value.bias", _LAYER + "attention.query_key_value.bias", HEAD_BY_HEAD),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "attention.dense.weight"),
        Tensor(_BLOCK + "attention.out.bias", _LAYER + "attention.dense.bias"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "post_attention_layernorm.weight"),
        Tensor(_BLOCK + "norms.1.bias", _LAYER + "post_attention_layernorm.bias"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "mlp.dense_h_to_4h.weight"),
        Tensor(_BLOCK + "feed_forward.up.bias", _LAYER + "mlp.dense_h_to_4h.bias"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "mlp.dense_4h_to_h.weight"),
        Tensor(_BLOCK + "feed_forward.down.bias", _LAYER + "mlp.dense_4h_to_h.bias"),
        Tensor("encoder.norm.weight", "gpt_neox.final_layer_norm.weight"),
        Tensor("encoder.norm.bias", "gpt_neox.final_layer_norm.bias"),
        Tensor("output.weight", "embed_out.weight", by_token=True),
    ),
    ignored=("attention_dropout", "hidden_dropout", "classifier_dropout"),
    ignored_tensors=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
    prefix="gpt_neox.",
)
