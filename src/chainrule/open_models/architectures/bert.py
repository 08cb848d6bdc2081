"""BERT (Devlin et al. 2019) with its masked-LM head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chainrule.neural.config import MaskedConfig
from chainrule.open_models.architecture import ACTIVATIONS, QUERY_KEY_VALUE, Architecture, Rule, Setting, Tensor

_ALWAYS_IGNORED = (  # the output's bias again; 0, 1, 2, ...
    r"(bert\.)?cls\.predictions\.decoder\.bias",
    r"bert\.embeddings\.position_ids",
)
_NEXT_SENTENCE = (r"bert\.pooler\.dense\.(weight|bias)", r"(bert\.)?cls\.seq_relationship\.(weight|bias)")
_BLOCK, _LAYER = "encoder.blocks.{layer}.", "bert.encoder.layer.{layer}."


def _of_attention(kind: str) -> tuple[str, ...]:
    return tuple(f"{_LAYER}attention.self.{name}.{kind}" for name in ("query", "key", "value"))


def _read_types(config: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError."""
    if (types := config.get("type_vocab_size", 2)) == 0:
        raise ValueError("there are no token types; expected 1 or more")
    return {"segments": types}


BERT = Architecture(
    model_type="bert",
    class_name="BertForMaskedLM",
    family="masked",
    config=MaskedConfig,
    implied={
        "norm": "layer",
        "norm_place": "post",
        "norm_gain": True,
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
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 512),
        Rule(("type_vocab_size",), _read_types, lambda config: {"type_vocab_size": max(1, config.segments)}),
        Setting("layer_norm_eps", "norm_epsilon", 1e-12),
        Setting("hidden_act", "feed_forward", "gelu", ACTIVATIONS),
    ),
    tensors=(
        Tensor("embedding.weight", "bert.embeddings.word_embeddings.weight", by_token=True),
        Tensor("encoder.places.vectors", "bert.embeddings.position_embeddings.weight"),
        Tensor("encoder.segments", "bert.embeddings.token_type_embeddings.weight"),
        Tensor("encoder.input_norm.weight", "bert.embeddings.LayerNorm.weight"),
        Tensor("encoder.input_norm.bias", "bert.embeddings.LayerNorm.bias"),
        Tensor(_BLOCK + "attention.query_key_value.weight", _of_attention("weight"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.query_key_value.bias", _of_attention("bias"), QUERY_KEY_VALUE),
        Tensor(_BLOCK + "attention.out.weight", _LAYER + "attention.output.dense.weight"),
        Tensor(_BLOCK + "attention.out.bias", _LAYER + "attention.output.dense.bias"),
        Tensor(_BLOCK + "norms.0.weight", _LAYER + "attention.output.LayerNorm.weight"),
        Tensor(_BLOCK + "norms.0.bias", _LAYER + "attention.output.LayerNorm.bias"),
        Tensor(_BLOCK + "feed_forward.up.weight", _LAYER + "intermediate.dense.weight"),
        Tensor(_BLOCK + "feed_forward.up.bias", _LAYER + "intermediate.dense.bias"),
        Tensor(_BLOCK + "feed_forward.down.weight", _LAYER + "output.dense.weight"),
        Tensor(_BLOCK + "feed_forward.down.bias", _LAYER + "output.dense.bias"),
        Tensor(_BLOCK + "norms.1.weight", _LAYER + "output.LayerNorm.weight"),
        Tensor(_BLOCK + "norms.1.bias", _LAYER + "output.LayerNorm.bias"),
        Tensor("output.transform.linear.weight", "cls.predictions.transform.dense.weight"),
        Tensor("output.transform.linear.bias", "cls.predictions.transform.dense.bias"),
        Tensor("output.transform.norm.weight", "cls.predictions.transform.LayerNorm.weight"),
        Tensor("output.transform.norm.bias", "cls.predictions.transform.LayerNorm.bias"),
        Tensor("output.weight", "cls.predictions.decoder.weight", by_token=True),
        Tensor("output.bias", "cls.predictions.bias", by_token=True),
    ),
    fixed={"position_embedding_type": "absolute", "tie_word_embeddings": True},
    ignored=(
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "directionality"),
        *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head"),
        "pooler_type",
    ),
    ignored_tensors=(*_ALWAYS_IGNORED, *_NEXT_SENTENCE),
    prefix="bert.",
    old_endings={".gamma": ".weight", ".beta": ".bias"},
)

BERT_WITH_PAIRS = replace(
    BERT,
    class_name="BertForPreTraining",
    implied={**BERT.implied, "next_sentence": True},
    tensors=(
        *BERT.tensors,
        Tensor("next_sentence.pooler.weight", "bert.pooler.dense.weight"),
        Tensor("next_sentence.pooler.bias", "bert.pooler.dense.bias"),
        Tensor("next_sentence.output.weight", "cls.seq_relationship.weight"),
        Tensor("next_sentence.output.bias", "cls.seq_relationship.bias"),
    ),
    ignored_tensors=_ALWAYS_IGNORED,
)
