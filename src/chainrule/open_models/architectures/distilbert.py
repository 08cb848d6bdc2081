"""DistilBERT (Sanh et al. 2019): BERT without segments."""

from __future__ import annotations

from chainrule.neural.config import MaskedConfig
from chainrule.open_models.architecture import ACTIVATIONS, QUERY_KEY_VALUE, Architecture, Setting, Tensor

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "distilbert.transformer.layer.{layer}."


def _of_attention(kind: str) -> tuple[str, ...]:
    return tuple(f"{_LAYER}attention.{name}_lin.{kind}" for name in "qkv")


DISTILBERT = Architecture(
    model_type="distilbert",
    class_name="DistilBertForMaskedLM",
    family="masked",
    config=MaskedConfig,
    implied={
        "norm": "layer",
        "norm_place": "post",
        "norm_gain": True,
        "norm_epsilon": 1e-12,
        "embedding_norm": False,
        "input_norm": True,
        "positions": "learned",
        "query_key_norm": False,
        "biases": True,
        "tied": True,
        "output_transform": True,
        "output_bias": True,
    },
    settings=(
        Setting("n_layers", "layers"),
        Setting("dim", "width"),
        Setting("n_heads", "heads"),
        Setting("hidden_dim", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 512),
        Setting("activation", "feed_forward", "gelu", ACTIVATIONS),
    ),
    tensors=(
        Tensor("embedding.weight", "distilbert.embeddings.word_embeddings.weight", by_token=True),
        Tensor("encoder.places.vectors", "distilbert.embeddings.position_embeddings.weight"),
        Tensor("encoder.input_norm.weight", "distilbert.embeddings.LayerNorm.weight"),
        Tensor("encoder.input_norm.bias", "distilbert.embeddings.LayerNorm.bias"),
        Tensor(_BLOCK + "attention.query_key_value.weight", _of_attention("weight"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.query_key_value.bias", _of_attention("bias"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "attention.out_lin.weight"),
        Tensor(_BLOCK + "attention.out.bias", _LAYER + "attention.out_lin.bias"),
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "sa_layer_norm.weight"),
        Tensor(_BLOCK + "norms.0.bias", _LAYER + "sa_layer_norm.bias"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "ffn.lin1.weight"),
        Tensor(_BLOCK + "feed_forward.up.bias", _LAYER + "ffn.lin1.bias"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "ffn.lin2.weight"),
        Tensor(_BLOCK + "feed_forward.down.bias", _LAYER + "ffn.lin2.bias"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "output_layer_norm.weight"),
        Tensor(_BLOCK + "norms.1.bias", _LAYER + "output_layer_norm.bias"),
        Tensor("output.transform.linear.weight", "vocab_transform.weight"),
        Tensor("output.transform.linear.bias", "vocab_transform.bias"),
        Tensor("output.transform.norm.weight", "vocab_layer_norm.weight"),
        Tensor("output.transform.norm.bias", "vocab_layer_norm.bias"),
        Tensor("output.weight", "vocab_projector.weight", by_token=True),
        Tensor("output.bias", "vocab_projector.bias", by_token=True),
    ),
    # Sinusoids only initialise its table of positions, which the file contains.
    fixed={"tie_word_embeddings": True, "tie_weights_": True},
    ignored=("sinusoidal_pos_embds", "dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"),
    ignored_tensors=(r"distilbert\.embeddings\.position_ids",),
    prefix="distilbert.",
)
